//! The container's output on its way to the log.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::files::{self, Orders};
use crate::logs::{LogWriter, Stream};
use crate::system::channel::Want;
use crate::system::terminal;

/// How much is read at once.
const BLOCK_BYTES: usize = 64 * 1024;
/// Text that waits longer than this for its newline is written as a part of a line.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// Our ends of the container's output.
pub struct Output {
    log: LogWriter,
    sources: Vec<(Stream, File)>,
    terminal: Option<File>,
    block: Vec<u8>,
    /// When text that waits for its newline is written anyway.
    flush_at: Option<Duration>,
}

/// The container's ends of its output.
pub struct Theirs {
    /// Output.
    pub stdout: OwnedFd,
    /// Errors.
    pub stderr: OwnedFd,
}

impl Output {
    /// A terminal or two pipes, and the log.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(dir: &Path, orders: &Orders) -> io::Result<(Output, Theirs)> {
        let log = LogWriter::open(&dir.join(files::LOG), orders.log)?;
        let (sources, terminal, theirs) = if orders.launch.tty {
            let (ours, stdout) = terminal::open()?;
            let theirs = Theirs { stderr: stdout.try_clone()?.into(), stdout: stdout.into() };
            (vec![(Stream::Stdout, ours.try_clone()?)], Some(ours), theirs)
        } else {
            let (stdout, to_stdout) = io::pipe()?;
            let (stderr, to_stderr) = io::pipe()?;
            let sources = vec![(Stream::Stdout, to_file(stdout)), (Stream::Stderr, to_file(stderr))];
            (sources, None, Theirs { stdout: to_stdout.into(), stderr: to_stderr.into() })
        };
        Ok((Output { log, sources, terminal, block: vec![0; BLOCK_BYTES], flush_at: None }, theirs))
    }

    /// Our end of the terminal, if there is one.
    #[must_use]
    pub fn terminal(&self) -> Option<&File> {
        self.terminal.as_ref()
    }

    /// Whether somebody may still write.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Adds what must be waited for.
    pub fn want<'a>(&'a self, wanted: &mut Vec<(BorrowedFd<'a>, Want)>) {
        wanted.extend(self.sources.iter().map(|(_, file)| (file.as_fd(), Want::Read)));
    }

    /// When to come back though nothing was written.
    #[must_use]
    pub fn flush_in(&self) -> Option<Duration> {
        self.flush_at.map(|at| at.saturating_sub(clock::steady()))
    }

    /// Takes in what is ready, in the order of [`Output::want`].
    pub fn take(&mut self, ready: &[bool]) {
        let mut order: Vec<usize> =
            (0..self.sources.len()).filter(|at| ready.get(*at) == Some(&true)).collect();
        // A line that has begun goes on first: its end may be ready together with a line of the other stream that was
        // written after it.
        order.sort_by_key(|at| !self.log.is_unfinished(self.sources[*at].0));
        let mut closed = [false; 2];
        for at in order {
            let (stream, file) = &mut self.sources[at];
            match file.read(&mut self.block) {
                Ok(0) => closed[at] = true,
                Ok(read) => self.log.take(*stream, &self.block[..read], clock::now_nanos()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // So a terminal says that nobody has it open any more.
                Err(_) => closed[at] = true,
            }
        }
        let mut closed = closed.iter();
        self.sources.retain(|_| closed.next() != Some(&true));
        let now = clock::steady();
        // From the first text that waits on: one that comes in bits must not be put off for ever.
        self.flush_at = self.log.is_open().then(|| self.flush_at.unwrap_or(now + FLUSH_AFTER));
        if self.flush_at.is_some_and(|at| at <= now) {
            self.log.flush(clock::now_nanos());
            self.flush_at = None;
        }
    }

    /// Nothing more will come. How many lines were lost without a word of it in the log.
    pub fn close(&mut self) -> u64 {
        self.sources.clear();
        self.log.flush(clock::now_nanos());
        self.log.lost()
    }
}

fn to_file(pipe: io::PipeReader) -> File {
    File::from(OwnedFd::from(pipe))
}
