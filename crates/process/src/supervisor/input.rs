//! Forwards stdin from a FIFO, which attached clients write to, and terminal sizes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::container_config::ContainerConfig;
use crate::run_files;
use crate::system::channel::Interest;
use crate::system::terminal;

const BLOCK_BYTES: usize = 16 * 1024;

/// The supervisor's ends of stdin and terminal size.
#[derive(Default)]
pub struct StdinForwarder {
    stdin: Option<StdinPump>,
    size: Option<SizePump>,
}

struct StdinPump {
    path: PathBuf,
    from: File,
    to: File,
    once: bool,
    pending: Vec<u8>,
}

struct SizePump {
    path: PathBuf,
    from: File,
    to: File,
    pending: Vec<u8>,
}

impl StdinForwarder {
    /// Opens stdin: none, a pipe or a terminal. Returns the container's end of a pipe.
    pub fn open(
        dir: &Path,
        launch: &ContainerConfig,
        tty: Option<&File>,
    ) -> io::Result<(StdinForwarder, Option<OwnedFd>)> {
        let mut input = StdinForwarder::default();
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
            let path = dir.join(run_files::STDIN);
            // `stdinOnce` does not apply to a terminal.
            let once = launch.stdin_once && tty.is_none();
            input.stdin = Some(StdinPump { from: open_named(&path)?, path, to, once, pending: Vec::new() });
        }
        if let Some(tty) = tty {
            let path = dir.join(run_files::TERMINAL_SIZE);
            input.size =
                Some(SizePump { from: open_named(&path)?, path, to: tty.try_clone()?, pending: Vec::new() });
        }
        Ok((input, theirs))
    }

    /// Adds the descriptors to poll: stdin, then terminal size.
    pub fn want<'a>(&'a self, wanted: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        wanted.extend(self.stdin.as_ref().map(StdinPump::want));
        wanted.extend(self.size.as_ref().map(|sizes| (sizes.from.as_fd(), Interest::Read)));
    }

    /// Handles ready descriptors, in the order of [`StdinForwarder::want`].
    pub fn take(&mut self, ready: &[bool]) {
        let mut ready = ready.iter().copied();
        if let Some(pump) = &mut self.stdin
            && ready.next() == Some(true)
            && pump.forward() == Flow::Over
        {
            // Dropping the pipe is EOF for the container.
            self.stdin = None;
        }
        if let Some(sizes) = &mut self.size
            && ready.next() == Some(true)
            && sizes.forward() == Flow::Over
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

impl StdinPump {
    /// Polls for room if data is pending, else for input: never both, so that a container that does not read applies
    /// back-pressure.
    fn want(&self) -> (BorrowedFd<'_>, Interest) {
        if self.pending.is_empty() {
            (self.from.as_fd(), Interest::Read)
        } else {
            (self.to.as_fd(), Interest::Write)
        }
    }

    fn forward(&mut self) -> Flow {
        if self.pending.is_empty() {
            let mut block = vec![0; BLOCK_BYTES];
            match self.from.read(&mut block) {
                Ok(0) if self.once => return Flow::Over,
                // The client has detached; reopen for the next one.
                Ok(0) => return reopen(&mut self.from, &self.path),
                Ok(read) => self.pending.extend_from_slice(&block[..read]),
                Err(error) if would_block(&error) => return Flow::On,
                Err(_) => return Flow::Over,
            }
        }
        match self.to.write(&self.pending) {
            Ok(written) => drop(self.pending.drain(..written)),
            Err(error) if would_block(&error) => {}
            Err(_) => return Flow::Over,
        }
        Flow::On
    }
}

impl SizePump {
    fn forward(&mut self) -> Flow {
        let mut block = [0; 256];
        match self.from.read(&mut block) {
            Ok(0) => return reopen(&mut self.from, &self.path),
            Ok(read) => self.pending.extend_from_slice(&block[..read]),
            Err(error) if would_block(&error) => return Flow::On,
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

/// Opens a FIFO for reading without blocking for a writer.
fn open_named(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// After its last writer has closed, a FIFO reports EOF until it is reopened. The new descriptor is opened before the
/// old one is closed, so that buffered data is kept.
fn reopen(from: &mut File, path: &Path) -> Flow {
    match open_named(path) {
        Ok(new) => {
            *from = new;
            Flow::On
        }
        Err(_) => Flow::Over,
    }
}

fn would_block(error: &io::Error) -> bool {
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
