//! Answers on their way out: bytes, headers, compression.

use std::future::Future;
use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, VARY, WARNING,
};
use http::{Response, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use muster_schema::proto::{self, ProtoError};
use muster_tree::Tree;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::accept::{Encoding, PROTOBUF};
use super::away::Stay;
use super::nodes::NodeBody;
use crate::status::Status;

/// Bodies longer than this are compressed when the client asks for it.
pub const GZIP_BYTES_MIN: usize = 128 << 10;
/// The longest text of a warning.
const WARNING_BYTES_MAX: usize = 2_048;

/// A body: all at once, or piece by piece.
pub enum AnswerBody {
    /// All at once.
    Full(Option<Bytes>),
    /// Piece by piece, for as long as the other side keeps the sender.
    Pieces(mpsc::Receiver<Bytes>),
    /// As a node sends it.
    Held(Box<Held>),
}

/// A node's body, with its place; it ends at the latest when the server stops.
pub struct Held {
    body: NodeBody,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Held {
    /// This body; with nothing to stay for when the connection has become another's.
    pub(super) fn new(body: NodeBody, stay: Option<Stay>) -> Held {
        match stay {
            Some(Stay { place, mut stop }) => {
                let stopped = Box::pin(async move { stop.stopped().await });
                Held { body, stopped, _place: Some(place) }
            }
            None => Held { body, stopped: Box::pin(std::future::pending()), _place: None },
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Pin::new(&mut self.body).poll_frame(cx),
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            AnswerBody::Full(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            AnswerBody::Pieces(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
            AnswerBody::Held(held) => held.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            AnswerBody::Full(bytes) => bytes.is_none(),
            AnswerBody::Pieces(_) => false,
            AnswerBody::Held(held) => held.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            AnswerBody::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            AnswerBody::Pieces(_) | AnswerBody::Held(_) => SizeHint::default(),
        }
    }
}

/// An answer under way.
pub type Reply = Response<AnswerBody>;

/// How the bytes of this answer are to look.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// JSON, YAML or protobuf.
    pub encoding: Encoding,
    /// Indented JSON.
    pub pretty: bool,
    /// Whether the client takes gzip.
    pub gzip: bool,
}

impl Style {
    /// Compact JSON as it is.
    pub const PLAIN: Style = Style { encoding: Encoding::Json, pretty: false, gzip: false };

    /// The media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => PROTOBUF,
        }
    }

    /// The bytes of a tree.
    ///
    /// # Errors
    /// 406 when the tree has no form in protobuf.
    fn encode(self, tree: &Tree) -> Result<Vec<u8>, Status> {
        match self.encoding {
            Encoding::Yaml => Ok(tree.to_yaml().into_bytes()),
            Encoding::Json => {
                let pretty = || serde_json::to_vec_pretty(tree).ok();
                let bytes = self.pretty.then(pretty).flatten();
                let mut bytes = bytes.unwrap_or_else(|| tree.to_json_bytes());
                bytes.push(b'\n');
                Ok(bytes)
            }
            Encoding::Protobuf => proto::encode(tree).map_err(|why| no_protobuf(&why)),
        }
    }
}

/// 406 about what protobuf cannot express.
pub(super) fn no_protobuf(why: &ProtoError) -> Status {
    Status::new(406, "NotAcceptable", format!("the answer cannot be encoded as {PROTOBUF}: {why}"))
}

/// An answer that shows a tree. What has no form in protobuf is refused in protobuf: the client reads nothing else.
#[must_use]
pub fn tree(code: u16, tree: &Tree, style: Style) -> Reply {
    let (code, encoded) = match style.encode(tree) {
        Ok(encoded) => (code, encoded),
        Err(refusal) => {
            let encoded = proto::encode(&refusal.to_tree()).expect("a Status has a form in protobuf");
            (refusal.code, encoded)
        }
    };
    bytes(code, style.media_type(), encoded, style.gzip)
}

/// An answer that shows a refusal.
#[must_use]
pub fn status(status: &Status, style: Style) -> Reply {
    let mut reply = tree(status.code, &status.to_tree(), Style { gzip: false, ..style });
    warn(&mut reply, status.warnings.iter().map(String::as_str));
    if let Some(secs) = status.details.retry_after_seconds {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
    }
    reply
}

/// An answer of plain text.
#[must_use]
pub fn text(code: u16, text: impl Into<String>) -> Reply {
    let mut reply = bytes(code, "text/plain; charset=utf-8", text.into().into_bytes(), false);
    let name = HeaderName::from_static("x-content-type-options");
    reply.headers_mut().insert(name, HeaderValue::from_static("nosniff"));
    reply
}

/// An answer of these bytes.
#[must_use]
pub fn bytes(code: u16, media_type: &'static str, bytes: Vec<u8>, gzip: bool) -> Reply {
    let compress = gzip && bytes.len() > GZIP_BYTES_MIN;
    let bytes = if compress { compressed(&bytes) } else { bytes };
    let mut reply = with_body(code, media_type, AnswerBody::Full(Some(Bytes::from(bytes))));
    if compress {
        mark_compressed(&mut reply);
    }
    reply
}

/// An answer whose body comes piece by piece.
#[must_use]
pub fn pieces(code: u16, media_type: &'static str, pieces: mpsc::Receiver<Bytes>) -> Reply {
    with_body(code, media_type, AnswerBody::Pieces(pieces))
}

/// Says that the body is gzip.
pub fn mark_compressed(reply: &mut Reply) {
    reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    reply.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

fn with_body(code: u16, media_type: &'static str, body: AnswerBody) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    no_cache(&mut reply);
    reply
}

/// Says that nobody may keep the answer.
pub fn no_cache(reply: &mut Reply) {
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("writing to memory cannot fail")
}

/// Adds `Warning` headers; what a header cannot carry is left out of the text.
pub fn warn<'a>(reply: &mut Reply, warnings: impl IntoIterator<Item = &'a str>) {
    for text in warnings {
        if let Ok(value) = HeaderValue::from_bytes(quoted_warning(text).as_bytes()) {
            reply.headers_mut().append(WARNING, value);
        }
    }
}

/// The value of a `Warning` header.
pub(super) fn quoted_warning(text: &str) -> String {
    let mut quoted = String::from("299 - \"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
        if quoted.len() > WARNING_BYTES_MAX {
            break;
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn warnings_are_quoted_and_cannot_break_out_of_the_header() {
        let mut reply = text(200, "ok");
        warn(&mut reply, ["unknown field \"spec.foo\"", "a\r\nX-Evil: 1"]);
        let all: Vec<_> = reply.headers().get_all(WARNING).iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(all, [r#"299 - "unknown field \"spec.foo\"""#, r#"299 - "aX-Evil: 1""#]);
    }

    #[test]
    fn a_refusal_that_passes_says_when_to_come_back() {
        let mut refusal = Status::new(429, "TooManyRequests", "busy");
        refusal.details.retry_after_seconds = Some(1);
        let reply = status(&refusal, Style::PLAIN);
        assert_eq!(reply.status(), 429);
        assert_eq!(reply.headers()[RETRY_AFTER], "1");
        assert_eq!(reply.headers()[CACHE_CONTROL], "no-cache, private");
    }

    #[test]
    fn only_long_bodies_are_compressed() {
        let long = tree!({"a": "x".repeat(GZIP_BYTES_MIN + 1)});
        let style = Style { gzip: true, ..Style::PLAIN };
        assert_eq!(super::tree(200, &long, style).headers()[CONTENT_ENCODING], "gzip");
        assert!(!super::tree(200, &tree!({"a": 1}), style).headers().contains_key(CONTENT_ENCODING));
        assert!(!super::tree(200, &long, Style::PLAIN).headers().contains_key(CONTENT_ENCODING));
    }
}
