//! Ends of pipes and terminals, read and written without a thread each.

use std::fs::File;
use std::io;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

/// The end that is read.
pub(crate) struct Source(Receiver);

/// The end that is written to.
pub(crate) struct Drain(Sender);

/// The other end keeps waiting as it likes: this concerns ours alone.
fn never_waiting(file: File) -> io::Result<File> {
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
    Ok(file)
}

impl Source {
    /// Must be called within the runtime. "Unchecked" means that it may be a terminal as well.
    ///
    /// # Errors
    /// The file is neither a pipe nor a terminal.
    pub fn new(file: File) -> io::Result<Source> {
        Receiver::from_file_unchecked(never_waiting(file)?).map(Source)
    }

    /// Reads some bytes; 0 at the end.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer).await {
            // A terminal says so when the last process on its other side has gone.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }
}

impl Drain {
    /// Must be called within the runtime. "Unchecked" means that it may be a terminal as well.
    ///
    /// # Errors
    /// The file is neither a pipe nor a terminal.
    pub fn new(file: File) -> io::Result<Drain> {
        Sender::from_file_unchecked(never_waiting(file)?).map(Drain)
    }

    /// Writes all bytes.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }
}
