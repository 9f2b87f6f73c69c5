//! The log of a container as lines, and progress bars as they are drawn.
//!
//! # Guarantees
//!
//! - A line longer than [`LINE_BYTES_MAX`] is split: memory is bounded.
//! - A partial line is returned after [`PAUSE`], and again, extended, when more text arrives.

use std::pin::Pin;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use kube::Client;
use muster_api::client::ApiError;
use muster_api::kinds::PODS;
use muster_tree::Text;

use crate::{error_chain, request};

/// The longest line that is not split.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// How long a partial line is held back.
const PAUSE: Duration = Duration::from_millis(100);

/// The options of a log request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRequest {
    pub namespace: Text,
    pub pod: Text,
    pub container: Text,
    /// The log of the previous container instance.
    pub previous: bool,
    /// Whether to stream until the container terminates.
    pub follow: bool,
}

impl LogRequest {
    fn address(&self) -> String {
        let LogRequest { namespace, pod, container, previous, follow } = self;
        let root = request::collection_path(&PODS, namespace);
        format!("{root}/{pod}/log?container={container}&timestamps=true&follow={follow}&previous={previous}")
    }
}

/// Where a chunk of a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogChunkEnd {
    /// At the end of a line, or of the log.
    Line,
    /// At a carriage return: what follows is drawn over it, as progress bars are.
    Return,
    /// In the middle of a line, since nothing more arrived; the next chunk starts with the same text.
    Pause,
    /// At [`LINE_BYTES_MAX`]: the line continues in the next chunk.
    Full,
}

/// A line of a log, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The text without its terminator.
    pub text: String,
    pub end: LogChunkEnd,
}

pub struct LogStream {
    bytes: Pin<Box<dyn AsyncBufRead + Send>>,
    /// Buffered bytes; at most [`LINE_BYTES_MAX`] and one read.
    held: Vec<u8>,
    /// How much of `held` was returned already, as a partial line.
    shown: usize,
}

impl LogStream {
    fn new(bytes: Pin<Box<dyn AsyncBufRead + Send>>) -> LogStream {
        LogStream { bytes, held: Vec::new(), shown: 0 }
    }

    /// The next chunk; `None` at the end of the log.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<LogChunk>, String> {
        loop {
            if let Some(piece) = self.take() {
                return Ok(Some(piece));
            }
            let more = self.bytes.fill_buf();
            let chunk = if self.shown < self.held.len() {
                match tokio::time::timeout(PAUSE, more).await {
                    Ok(chunk) => chunk,
                    Err(_) => return Ok(Some(self.show())),
                }
            } else {
                more.await
            };
            let chunk = chunk.map_err(|e| error_chain(&e))?;
            if chunk.is_empty() {
                let rest = std::mem::take(&mut self.held);
                self.shown = 0;
                let rest = rest.strip_suffix(b"\r").unwrap_or(&rest);
                return Ok((!rest.is_empty()).then(|| LogChunk { text: text(rest), end: LogChunkEnd::Line }));
            }
            let used = chunk.len();
            self.held.extend_from_slice(chunk);
            self.bytes.as_mut().consume(used);
        }
    }

    /// The next complete line, or part of a long one, from the buffer.
    fn take(&mut self) -> Option<LogChunk> {
        let seen = &self.held[..self.held.len().min(LINE_BYTES_MAX)];
        let (length, used, end) = match seen.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(at) if seen[at] == b'\n' => (at, at + 1, LogChunkEnd::Line),
            Some(at) => match self.held.get(at + 1) {
                Some(b'\n') => (at, at + 2, LogChunkEnd::Line),
                Some(_) => (at, at + 1, LogChunkEnd::Return),
                // A newline may follow.
                None => return None,
            },
            None if seen.len() == LINE_BYTES_MAX => (LINE_BYTES_MAX, LINE_BYTES_MAX, LogChunkEnd::Full),
            None => return None,
        };
        let text = text(&self.held[..length]);
        self.held.drain(..used);
        self.shown = 0;
        Some(LogChunk { text, end })
    }

    /// The buffered partial line.
    fn show(&mut self) -> LogChunk {
        self.shown = self.held.len();
        let held = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        LogChunk { text: text(held), end: LogChunkEnd::Pause }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

pub async fn open(client: &Client, of: &LogRequest) -> Result<LogStream, ApiError> {
    let wrong = |e: &dyn std::fmt::Display| ApiError::Invalid(format!("{}: {e}", of.address()));
    let request = http::Request::get(of.address()).body(Vec::new()).map_err(|e| wrong(&e))?;
    match client.request_stream(request).await {
        Ok(bytes) => Ok(LogStream::new(Box::pin(bytes))),
        Err(kube::Error::Api(status)) => {
            Err(ApiError::from_status(status.code, &status.reason, status.message.clone(), None))
        }
        Err(error) => Err(ApiError::Indeterminate(error_chain(&error))),
    }
}

#[cfg(test)]
mod tests {
    use futures::io::{BufReader, Cursor};

    use super::*;

    #[test]
    fn lines_and_parts_of_long_ones() {
        let long = "x".repeat(LINE_BYTES_MAX + 3);
        let all = format!("a\n\nb\n{long}\nno end");
        // A small buffer: lines come in several reads.
        let bytes = BufReader::with_capacity(7, Cursor::new(all.into_bytes()));
        let found = pieces(LogStream::new(Box::pin(bytes)));
        assert_eq!(found.len(), 6);
        let texts: Vec<&str> = found.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!((texts[0], texts[1], texts[2]), ("a", "", "b"));
        assert_eq!((texts[3].len(), texts[4], texts[5]), (LINE_BYTES_MAX, "xxx", "no end"));
        assert_eq!(found[3].end, LogChunkEnd::Full);
    }

    fn pieces(mut lines: LogStream) -> Vec<LogChunk> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut found = Vec::new();
        while let Some(piece) = runtime.block_on(lines.next()).unwrap() {
            found.push(piece);
        }
        found
    }

    #[test]
    fn bars_come_as_they_are_drawn() {
        let all = b"\r 10%\r 20%\r\nend\r\n\r 5%\r".to_vec();
        for capacity in [1, 3, 64] {
            let bytes = BufReader::with_capacity(capacity, Cursor::new(all.clone()));
            let found = pieces(LogStream::new(Box::pin(bytes)));
            let found: Vec<(&str, LogChunkEnd)> =
                found.iter().map(|piece| (piece.text.as_str(), piece.end)).collect();
            let want = [
                ("", LogChunkEnd::Return),
                (" 10%", LogChunkEnd::Return),
                (" 20%", LogChunkEnd::Line),
                ("end", LogChunkEnd::Line),
                ("", LogChunkEnd::Return),
                (" 5%", LogChunkEnd::Line),
            ];
            assert_eq!(found, want, "{capacity} bytes at once");
        }
    }

    #[test]
    fn text_without_an_end_is_shown_after_a_pause() {
        let (write, read) = futures::channel::mpsc::unbounded::<std::io::Result<Vec<u8>>>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let bytes = futures::TryStreamExt::into_async_read(read);
            let mut lines = LogStream::new(Box::pin(bytes));
            let mut next = async |said: &[u8]| {
                write.unbounded_send(Ok(said.to_vec())).unwrap();
                let piece = lines.next().await.unwrap().unwrap();
                (piece.text, piece.end)
            };
            let pause = |text: &str| (text.to_owned(), LogChunkEnd::Pause);
            assert_eq!(next(b"name? ").await, pause("name? "));
            assert_eq!(next(b"who").await, pause("name? who"));
            assert_eq!(next(b"\n").await, ("name? who".to_owned(), LogChunkEnd::Line));
            assert_eq!(next(b"\r 1%").await, (String::new(), LogChunkEnd::Return));
            assert_eq!(next(b"\r 2%").await, (" 1%".to_owned(), LogChunkEnd::Return));
            assert_eq!(next(b"").await, pause(" 2%"));
        });
    }

    #[test]
    fn what_is_asked_for() {
        let of = LogRequest {
            namespace: "n".into(),
            pod: "p".into(),
            container: "c".into(),
            previous: false,
            follow: true,
        };
        assert_eq!(
            of.address(),
            "/api/v1/namespaces/n/pods/p/log?container=c&timestamps=true&follow=true&previous=false"
        );
    }
}
