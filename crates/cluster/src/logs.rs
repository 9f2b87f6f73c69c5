//! The log of a container, line by line.
//!
//! # Invariants
//!
//! - A line longer than [`LINE_BYTES_MAX`] comes in parts: whoever reads holds no more than that.

use std::pin::Pin;

use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use kube::Client;
use muster_api::kinds::PODS;
use muster_api::port::Refusal;
use muster_tree::Text;

use crate::{in_full, request};

/// The longest line that is handed over whole.
pub const LINE_BYTES_MAX: usize = 64 << 10;

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

/// A log that is being read.
pub struct LogLines {
    bytes: Pin<Box<dyn AsyncBufRead + Send>>,
}

impl LogLines {
    /// The next line without its end, or a part of a long one; `None` at the end of the log.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<String>, String> {
        let mut line = Vec::new();
        loop {
            let chunk = self.bytes.fill_buf().await.map_err(|e| in_full(&e))?;
            if chunk.is_empty() {
                return Ok((!line.is_empty()).then(|| text(&line)));
            }
            let room = LINE_BYTES_MAX - line.len();
            let seen = &chunk[..chunk.len().min(room)];
            let end = seen.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&seen[..end.unwrap_or(seen.len())]);
            let used = end.map_or(seen.len(), |end| end + 1);
            self.bytes.as_mut().consume(used);
            if end.is_some() || line.len() >= LINE_BYTES_MAX {
                return Ok(Some(text(&line)));
            }
        }
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
        Ok(bytes) => Ok(LogLines { bytes: Box::pin(bytes) }),
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
        let mut lines = LogLines { bytes: Box::pin(bytes) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut found = Vec::new();
        while let Some(line) = runtime.block_on(lines.next()).unwrap() {
            found.push(line);
        }
        assert_eq!(found.len(), 6);
        assert_eq!((found[0].as_str(), found[1].as_str(), found[2].as_str()), ("a", "", "b"));
        assert_eq!((found[3].len(), found[4].as_str(), found[5].as_str()), (LINE_BYTES_MAX, "xxx", "no end"));
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
