//! A stream on which whoever does not take what he is sent is given up.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The stream.
pub struct Timely<S> {
    stream: S,
    max: Duration,
    /// When it is given up, while a write waits.
    late: Option<Pin<Box<Sleep>>>,
}

impl<S> Timely<S> {
    /// Waits for so long with each write.
    pub fn new(stream: S, max: Duration) -> Timely<S> {
        Timely { stream, max, late: None }
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

impl<S: AsyncRead + Unpin> AsyncRead for Timely<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timely<S> {
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
    async fn who_takes_nothing_is_given_up() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let mut ours = Timely::new(ours, Duration::from_millis(20));
        ours.write_all(b"1234").await.unwrap();
        let late = ours.write_all(b"5").await.unwrap_err();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        let mut taken = [0; 4];
        theirs.read_exact(&mut taken).await.unwrap();
        ours.write_all(b"5").await.unwrap();
        assert_eq!(&taken, b"1234", "what was sent before is there");
    }
}
