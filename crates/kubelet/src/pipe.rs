//! Asynchronous ends of pipes and terminals.

use std::fs::File;
use std::io;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe::{Receiver, Sender};

/// A readable end of a pipe.
pub(crate) struct AsyncPipeReader(Receiver);

/// A writable end of a pipe.
pub(crate) struct AsyncPipeWriter(Sender);

/// O_NONBLOCK is set on this open file description only; the peer's end is not affected.
fn set_nonblocking(file: File) -> io::Result<File> {
    fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::NONBLOCK)?;
    Ok(file)
}

impl AsyncPipeReader {
    /// Must be called within the runtime. "Unchecked", since terminals are allowed too.
    ///
    /// # Errors
    /// The file is neither a pipe nor a terminal.
    pub fn new(file: File) -> io::Result<AsyncPipeReader> {
        Receiver::from_file_unchecked(set_nonblocking(file)?).map(AsyncPipeReader)
    }

    /// Reads some bytes; 0 is EOF.
    pub async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer).await {
            // A terminal returns EIO when its last process has closed it.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(0),
            read => read,
        }
    }
}

impl AsyncPipeWriter {
    /// Must be called within the runtime. "Unchecked", since terminals are allowed too.
    ///
    /// # Errors
    /// The file is neither a pipe nor a terminal.
    pub fn new(file: File) -> io::Result<AsyncPipeWriter> {
        Sender::from_file_unchecked(set_nonblocking(file)?).map(AsyncPipeWriter)
    }

    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await
    }
}
