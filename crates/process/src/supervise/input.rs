//! The container's input: a pipe with a name, from which whoever is attached is passed on; and its terminal's size.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::files;
use crate::launch::Launch;
use crate::system::channel::Want;
use crate::system::terminal;

/// How much is passed on at once.
const BLOCK_BYTES: usize = 16 * 1024;

/// Our ends of the container's input.
#[derive(Default)]
pub struct Input {
    stdin: Option<Pump>,
    size: Option<Sizes>,
}

/// Passes input on.
struct Pump {
    path: PathBuf,
    from: File,
    to: File,
    once: bool,
    pending: Vec<u8>,
}

/// Passes the size of the terminal on.
struct Sizes {
    path: PathBuf,
    from: File,
    to: File,
    pending: Vec<u8>,
}

impl Input {
    /// Opens what a container has: nothing, a pipe, or a terminal. What it must be given comes back with it.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(dir: &Path, launch: &Launch, tty: Option<&File>) -> io::Result<(Input, Option<OwnedFd>)> {
        let mut input = Input::default();
        let mut theirs = None;
        if launch.stdin {
            let to = match tty {
                Some(tty) => tty.try_clone()?,
                None => {
                    let (reader, writer) = io::pipe()?;
                    theirs = Some(OwnedFd::from(reader));
                    File::from(OwnedFd::from(writer))
                }
            };
            rustix::io::ioctl_fionbio(&to, true)?;
            let path = dir.join(files::STDIN);
            // A terminal is not closed when somebody leaves it.
            let once = launch.stdin_once && tty.is_none();
            input.stdin = Some(Pump { from: open_named(&path)?, path, to, once, pending: Vec::new() });
        }
        if let Some(tty) = tty {
            let path = dir.join(files::SIZE);
            input.size =
                Some(Sizes { from: open_named(&path)?, path, to: tty.try_clone()?, pending: Vec::new() });
        }
        Ok((input, theirs))
    }

    /// Adds what must be waited for: first input, then sizes.
    pub fn want<'a>(&'a self, wanted: &mut Vec<(BorrowedFd<'a>, Want)>) {
        wanted.extend(self.stdin.as_ref().map(Pump::want));
        wanted.extend(self.size.as_ref().map(|sizes| (sizes.from.as_fd(), Want::Read)));
    }

    /// Passes on what is ready, in the order of [`Input::want`].
    pub fn take(&mut self, ready: &[bool]) {
        let mut ready = ready.iter().copied();
        if let Some(pump) = &mut self.stdin
            && ready.next() == Some(true)
            && pump.pass() == Flow::Over
        {
            // The container reads the end of its input.
            self.stdin = None;
        }
        if let Some(sizes) = &mut self.size
            && ready.next() == Some(true)
            && sizes.pass() == Flow::Over
        {
            self.size = None;
        }
    }
}

#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

impl Pump {
    /// Room for what waits, or something to read: never both, so that a container that does not read costs nothing.
    fn want(&self) -> (BorrowedFd<'_>, Want) {
        if self.pending.is_empty() { (self.from.as_fd(), Want::Read) } else { (self.to.as_fd(), Want::Write) }
    }

    fn pass(&mut self) -> Flow {
        if self.pending.is_empty() {
            let mut block = vec![0; BLOCK_BYTES];
            match self.from.read(&mut block) {
                Ok(0) if self.once => return Flow::Over,
                // Who was attached has left; the next one finds the pipe open again.
                Ok(0) => return reopen(&mut self.from, &self.path),
                Ok(read) => self.pending.extend_from_slice(&block[..read]),
                Err(error) if is_later(&error) => return Flow::On,
                Err(_) => return Flow::Over,
            }
        }
        match self.to.write(&self.pending) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(error) if is_later(&error) => {}
            Err(_) => return Flow::Over,
        }
        Flow::On
    }
}

impl Sizes {
    fn pass(&mut self) -> Flow {
        let mut block = [0; 256];
        match self.from.read(&mut block) {
            Ok(0) => return reopen(&mut self.from, &self.path),
            Ok(read) => self.pending.extend_from_slice(&block[..read]),
            Err(error) if is_later(&error) => return Flow::On,
            Err(_) => return Flow::Over,
        }
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            if let Some((columns, rows)) = parse_size(&line) {
                terminal::resize(&self.to, columns, rows);
            }
        }
        self.pending.truncate(block.len());
        Flow::On
    }
}

fn parse_size(line: &[u8]) -> Option<(u16, u16)> {
    let (columns, rows) = str::from_utf8(line).ok()?.trim().split_once(' ')?;
    Some((columns.parse().ok()?, rows.parse().ok()?))
}

/// Opens a named pipe for reading without waiting for a writer.
fn open_named(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// A pipe whose last writer has left says so for ever; opened anew it waits for the next. The new end is opened before
/// the old one is closed, so that nothing in the pipe is lost.
fn reopen(from: &mut File, path: &Path) -> Flow {
    match open_named(path) {
        Ok(new) => {
            *from = new;
            Flow::On
        }
        Err(_) => Flow::Over,
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [("80 24\n", Some((80, 24))), ("80\n", None), ("-1 5\n", None), ("70000 1\n", None)];
        for (line, want) in cases {
            assert_eq!(parse_size(line.as_bytes()), want, "{line}");
        }
    }
}
