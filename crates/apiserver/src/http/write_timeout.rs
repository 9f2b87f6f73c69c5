//! A stream with a write timeout, so that a client that stops reading loses its connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

pub struct WriteTimeoutStream<S> {
    stream: S,
    max: Duration,
    /// The deadline of the write that is pending; `None` when none is.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeoutStream<S> {
    /// `max` bounds each single write, flush and shutdown.
    pub fn new(stream: S, max: Duration) -> WriteTimeoutStream<S> {
        WriteTimeoutStream { stream, max, late: None }
    }

    fn in_time<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.late = None;
            return done;
        }
        let max = self.max;
        let late = self.late.get_or_insert_with(|| Box::pin(sleep(max)));
        late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeoutStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeoutStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.in_time(context, done)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_flush(context);
        this.in_time(context, done)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = Pin::new(&mut this.stream).poll_shutdown(context);
        this.in_time(context, done)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_write_that_the_client_does_not_read_times_out() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = WriteTimeoutStream::new(ours, Duration::from_millis(20));
        ours.write_all(b"1234").await.unwrap();
        let late = ours.write_all(b"5").await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let mut taken = [0; 4];
        theirs.read_exact(&mut taken).await.unwrap();
        ours.write_all(b"5").await.unwrap();
        assert_eq!(&taken, b"1234", "bytes written before the timeout are delivered");
    }
}
