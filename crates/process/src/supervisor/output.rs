//! Collects the container's output into the log.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::clock;
use crate::logs::{LogStream, LogWriter};
use crate::run_files::{self, SupervisorConfig};
use crate::system::channel::Interest;
use crate::system::terminal;

const BLOCK_BYTES: usize = 64 * 1024;
/// A partial line older than this is written as a partial CRI line.
const FLUSH_AFTER: Duration = Duration::from_millis(50);

/// The supervisor's ends of stdout and stderr.
pub struct OutputCollector {
    log: LogWriter,
    sources: Vec<(LogStream, File)>,
    terminal: Option<File>,
    block: Vec<u8>,
    /// When a partial line is flushed.
    flush_at: Option<Duration>,
}

/// The container's ends of stdout and stderr.
pub struct ContainerOutputs {
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

impl OutputCollector {
    /// Opens a terminal or two pipes, and the log.
    pub fn open(dir: &Path, orders: &SupervisorConfig) -> io::Result<(OutputCollector, ContainerOutputs)> {
        let log = LogWriter::open(&dir.join(run_files::LOG), orders.log)?;
        let (sources, terminal, theirs) = if orders.launch.tty {
            let (ours, stdout) = terminal::open()?;
            let theirs = ContainerOutputs { stderr: stdout.try_clone()?.into(), stdout: stdout.into() };
            (vec![(LogStream::Stdout, ours.try_clone()?)], Some(ours), theirs)
        } else {
            let (stdout, to_stdout) = io::pipe()?;
            let (stderr, to_stderr) = io::pipe()?;
            let sources = vec![(LogStream::Stdout, to_file(stdout)), (LogStream::Stderr, to_file(stderr))];
            (sources, None, ContainerOutputs { stdout: to_stdout.into(), stderr: to_stderr.into() })
        };
        Ok((OutputCollector { log, sources, terminal, block: vec![0; BLOCK_BYTES], flush_at: None }, theirs))
    }

    /// The supervisor's end of the terminal, if any.
    #[must_use]
    pub fn terminal(&self) -> Option<&File> {
        self.terminal.as_ref()
    }

    /// Whether a process may still write.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.sources.is_empty()
    }

    /// Adds the descriptors to poll.
    pub fn want<'a>(&'a self, wanted: &mut Vec<(BorrowedFd<'a>, Interest)>) {
        wanted.extend(self.sources.iter().map(|(_, file)| (file.as_fd(), Interest::Read)));
    }

    /// Time until the next flush.
    #[must_use]
    pub fn flush_in(&self) -> Option<Duration> {
        self.flush_at.map(|at| at.saturating_sub(clock::steady()))
    }

    /// Reads ready descriptors, in the order of [`OutputCollector::want`].
    pub fn take(&mut self, ready: &[bool]) {
        let mut order: Vec<usize> =
            (0..self.sources.len()).filter(|at| ready.get(*at) == Some(&true)).collect();
        // The stream with a partial line is read first: its end may be ready together with a later line of the other
        // stream.
        order.sort_by_key(|at| !self.log.is_unfinished(self.sources[*at].0));
        let mut closed = [false; 2];
        for at in order {
            let (stream, file) = &mut self.sources[at];
            match file.read(&mut self.block) {
                Ok(0) => closed[at] = true,
                Ok(read) => self.log.take(*stream, &self.block[..read], clock::now_nanos()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // EIO: the last process has closed the terminal.
                Err(_) => closed[at] = true,
            }
        }
        let mut closed = closed.iter();
        self.sources.retain(|_| closed.next() != Some(&true));
        let now = clock::steady();
        // Counted from the first partial text: output in small pieces must not postpone the flush for ever.
        self.flush_at = self.log.is_open().then(|| self.flush_at.unwrap_or(now + FLUSH_AFTER));
        if self.flush_at.is_some_and(|at| at <= now) {
            self.log.flush(clock::now_nanos());
            self.flush_at = None;
        }
    }

    /// Closes the log; returns the number of dropped lines that the log does not mention.
    pub fn close(&mut self) -> u64 {
        self.sources.clear();
        self.log.flush(clock::now_nanos());
        self.log.lost()
    }
}

fn to_file(pipe: io::PipeReader) -> File {
    File::from(OwnedFd::from(pipe))
}
