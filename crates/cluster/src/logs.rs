//! The log of a container, line by line, and progress bars as they are drawn.
//!
//! # Invariants
//!
//! - A line longer than [`LINE_BYTES_MAX`] comes in parts: a reader holds no more than that.
//! - Text without an end is handed over after [`PAUSE`], and again, longer, when more of it came.

use std::pin::Pin;
use std::time::Duration;

use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use kube::Client;
use muster_api::kinds::PODS;
use muster_api::port::Refusal;
use muster_tree::Text;

use crate::{in_full, request};

/// The longest line that is handed over whole.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// How long text waits for its end before it is handed over without one.
const PAUSE: Duration = Duration::from_millis(100);

/// Which log, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOf {
    /// Namespace of the pod.
    pub namespace: Text,
    /// Its name.
    pub pod: Text,
    /// The container.
    pub container: Text,
    /// That of the run before this one.
    pub previous: bool,
    /// Whether to go on until the container ends.
    pub follow: bool,
}

impl LogOf {
    fn address(&self) -> String {
        let LogOf { namespace, pod, container, previous, follow } = self;
        let root = request::root(&PODS, namespace);
        format!("{root}/{pod}/log?container={container}&timestamps=true&follow={follow}&previous={previous}")
    }
}

/// Where a piece of a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceEnd {
    /// At the end of a line, or of the log.
    Line,
    /// At a carriage return: what follows is drawn over it, as progress bars are.
    Return,
    /// Nowhere yet. Nothing more came for a while; the next piece begins with the same text.
    Pause,
    /// At [`LINE_BYTES_MAX`]: the line goes on in the next piece.
    Full,
}

/// A line of a log, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The text, without what ends it.
    pub text: String,
    /// Where it ends.
    pub end: PieceEnd,
}

/// A log that is being read.
pub struct LogLines {
    bytes: Pin<Box<dyn AsyncBufRead + Send>>,
    /// Read and not yet handed over; no more than [`LINE_BYTES_MAX`] and one chunk.
    held: Vec<u8>,
    /// How much of `held` was handed over already, as a piece without an end.
    shown: usize,
}

impl LogLines {
    fn new(bytes: Pin<Box<dyn AsyncBufRead + Send>>) -> LogLines {
        LogLines { bytes, held: Vec::new(), shown: 0 }
    }

    /// The next piece; `None` at the end of the log.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<Piece>, String> {
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
            let chunk = chunk.map_err(|e| in_full(&e))?;
            if chunk.is_empty() {
                let rest = std::mem::take(&mut self.held);
                self.shown = 0;
                let rest = rest.strip_suffix(b"\r").unwrap_or(&rest);
                return Ok((!rest.is_empty()).then(|| Piece { text: text(rest), end: PieceEnd::Line }));
            }
            let used = chunk.len();
            self.held.extend_from_slice(chunk);
            self.bytes.as_mut().consume(used);
        }
    }

    /// The next piece that has an end, of what was read.
    fn take(&mut self) -> Option<Piece> {
        let seen = &self.held[..self.held.len().min(LINE_BYTES_MAX)];
        let (length, used, end) = match seen.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            Some(at) if seen[at] == b'\n' => (at, at + 1, PieceEnd::Line),
            Some(at) => match self.held.get(at + 1) {
                Some(b'\n') => (at, at + 2, PieceEnd::Line),
                Some(_) => (at, at + 1, PieceEnd::Return),
                // A newline may follow.
                None => return None,
            },
            None if seen.len() == LINE_BYTES_MAX => (LINE_BYTES_MAX, LINE_BYTES_MAX, PieceEnd::Full),
            None => return None,
        };
        let text = text(&self.held[..length]);
        self.held.drain(..used);
        self.shown = 0;
        Some(Piece { text, end })
    }

    /// What was read of a piece that has no end yet.
    fn show(&mut self) -> Piece {
        self.shown = self.held.len();
        let held = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        Piece { text: text(held), end: PieceEnd::Pause }
    }
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(line).into_owned()
}

/// Asks for a log.
pub async fn open(client: &Client, of: &LogOf) -> Result<LogLines, Refusal> {
    let wrong = |e: &dyn std::fmt::Display| Refusal::Invalid(format!("{}: {e}", of.address()));
    let request = http::Request::get(of.address()).body(Vec::new()).map_err(|e| wrong(&e))?;
    match client.request_stream(request).await {
        Ok(bytes) => Ok(LogLines::new(Box::pin(bytes))),
        Err(kube::Error::Api(status)) => {
            Err(Refusal::of(status.code, &status.reason, status.message.clone(), None))
        }
        Err(error) => Err(Refusal::Unknown(in_full(&error))),
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
        let found = pieces(LogLines::new(Box::pin(bytes)));
        assert_eq!(found.len(), 6);
        let texts: Vec<&str> = found.iter().map(|piece| piece.text.as_str()).collect();
        assert_eq!((texts[0], texts[1], texts[2]), ("a", "", "b"));
        assert_eq!((texts[3].len(), texts[4], texts[5]), (LINE_BYTES_MAX, "xxx", "no end"));
        assert_eq!(found[3].end, PieceEnd::Full);
    }

    fn pieces(mut lines: LogLines) -> Vec<Piece> {
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
            let found = pieces(LogLines::new(Box::pin(bytes)));
            let found: Vec<(&str, PieceEnd)> =
                found.iter().map(|piece| (piece.text.as_str(), piece.end)).collect();
            let want = [
                ("", PieceEnd::Return),
                (" 10%", PieceEnd::Return),
                (" 20%", PieceEnd::Line),
                ("end", PieceEnd::Line),
                ("", PieceEnd::Return),
                (" 5%", PieceEnd::Line),
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
            let mut lines = LogLines::new(Box::pin(bytes));
            let mut next = async |said: &[u8]| {
                write.unbounded_send(Ok(said.to_vec())).unwrap();
                let piece = lines.next().await.unwrap().unwrap();
                (piece.text, piece.end)
            };
            let pause = |text: &str| (text.to_owned(), PieceEnd::Pause);
            assert_eq!(next(b"name? ").await, pause("name? "));
            assert_eq!(next(b"who").await, pause("name? who"));
            assert_eq!(next(b"\n").await, ("name? who".to_owned(), PieceEnd::Line));
            assert_eq!(next(b"\r 1%").await, (String::new(), PieceEnd::Return));
            assert_eq!(next(b"\r 2%").await, (" 1%".to_owned(), PieceEnd::Return));
            assert_eq!(next(b"").await, pause(" 2%"));
        });
    }

    #[test]
    fn what_is_asked_for() {
        let of = LogOf {
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
