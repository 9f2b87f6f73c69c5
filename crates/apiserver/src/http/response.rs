//! HTTP responses: bodies, headers, compression.

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

use super::kubelet_client::StreamGuard;
use super::kubelet_location::KubeletBody;
use super::negotiation::{Encoding, PROTOBUF};
use crate::status::Status;

/// Longer bodies are compressed when the client accepts gzip; kube-apiserver's threshold.
pub const GZIP_BYTES_MIN: usize = 128 << 10;
/// Longer warnings are truncated.
const WARNING_BYTES_MAX: usize = 2_048;

pub enum ResponseBody {
    Full(Option<Bytes>),
    /// Chunks, until the sender is dropped.
    Chunks(mpsc::Receiver<Bytes>),
    /// Proxied from a kubelet.
    Proxied(Box<ProxiedBody>),
}

/// A kubelet's response body with its in-flight permit; it ends at the latest when the server stops.
pub struct ProxiedBody {
    body: KubeletBody,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl ProxiedBody {
    /// `stay` is `None` when the connection was upgraded: the splicing task then holds the permit.
    pub(super) fn new(body: KubeletBody, stay: Option<StreamGuard>) -> ProxiedBody {
        match stay {
            Some(StreamGuard { place, mut stop }) => {
                let stopped = Box::pin(async move { stop.stopped().await });
                ProxiedBody { body, stopped, _place: Some(place) }
            }
            None => ProxiedBody { body, stopped: Box::pin(std::future::pending()), _place: None },
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.stopped.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => Pin::new(&mut self.body).poll_frame(cx),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            ResponseBody::Full(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            ResponseBody::Chunks(chunks) => {
                chunks.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
            }
            ResponseBody::Proxied(held) => held.poll(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Full(bytes) => bytes.is_none(),
            ResponseBody::Chunks(_) => false,
            ResponseBody::Proxied(held) => held.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            ResponseBody::Chunks(_) | ResponseBody::Proxied(_) => SizeHint::default(),
        }
    }
}

pub type HttpResponse = Response<ResponseBody>;

/// How an object is serialized.
#[derive(Debug, Clone, Copy)]
pub struct SerializerOptions {
    pub encoding: Encoding,
    pub pretty: bool,
    /// Whether the client accepts gzip.
    pub gzip: bool,
}

impl SerializerOptions {
    pub const PLAIN: SerializerOptions =
        SerializerOptions { encoding: Encoding::Json, pretty: false, gzip: false };

    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self.encoding {
            Encoding::Json => "application/json",
            Encoding::Yaml => "application/yaml",
            Encoding::Protobuf => PROTOBUF,
        }
    }

    /// Serializes a tree.
    ///
    /// # Errors
    /// 406 when the tree cannot be encoded as protobuf.
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

/// 406 for a value that protobuf cannot express.
pub(super) fn no_protobuf(why: &ProtoError) -> Status {
    Status::new(406, "NotAcceptable", format!("the answer cannot be encoded as {PROTOBUF}: {why}"))
}

/// A response with this object. When it has no protobuf form, the error is sent as protobuf, too: the client accepts
/// nothing else.
#[must_use]
pub fn tree(code: u16, tree: &Tree, style: SerializerOptions) -> HttpResponse {
    let (code, encoded) = match style.encode(tree) {
        Ok(encoded) => (code, encoded),
        Err(refusal) => {
            let encoded = proto::encode(&refusal.to_tree()).expect("a Status has a form in protobuf");
            (refusal.code, encoded)
        }
    };
    bytes(code, style.media_type(), encoded, style.gzip)
}

/// An error response, with the `Warning` and `Retry-After` headers of the `Status`.
#[must_use]
pub fn status(status: &Status, style: SerializerOptions) -> HttpResponse {
    let mut reply = tree(status.code, &status.to_tree(), SerializerOptions { gzip: false, ..style });
    warn(&mut reply, status.warnings.iter().map(String::as_str));
    if let Some(secs) = status.details.retry_after_seconds {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
    }
    reply
}

#[must_use]
pub fn text(code: u16, text: impl Into<String>) -> HttpResponse {
    let mut reply = bytes(code, "text/plain; charset=utf-8", text.into().into_bytes(), false);
    let name = HeaderName::from_static("x-content-type-options");
    reply.headers_mut().insert(name, HeaderValue::from_static("nosniff"));
    reply
}

/// A response with this body, compressed above [`GZIP_BYTES_MIN`].
#[must_use]
pub fn bytes(code: u16, media_type: &'static str, bytes: Vec<u8>, gzip: bool) -> HttpResponse {
    // Compressing small bodies costs more latency than it saves.
    let compress = gzip && bytes.len() > GZIP_BYTES_MIN;
    let bytes = if compress { compressed(&bytes) } else { bytes };
    let mut reply = with_body(code, media_type, ResponseBody::Full(Some(Bytes::from(bytes))));
    if compress {
        mark_compressed(&mut reply);
    }
    reply
}

/// A response with a streamed body.
#[must_use]
pub fn chunked(code: u16, media_type: &'static str, chunks: mpsc::Receiver<Bytes>) -> HttpResponse {
    with_body(code, media_type, ResponseBody::Chunks(chunks))
}

/// Sets the headers of a gzip body.
pub fn mark_compressed(reply: &mut HttpResponse) {
    reply.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    reply.headers_mut().insert(VARY, HeaderValue::from_static("Accept-Encoding"));
}

fn with_body(code: u16, media_type: &'static str, body: ResponseBody) -> HttpResponse {
    let mut reply = Response::new(body);
    *reply.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    no_cache(&mut reply);
    reply
}

/// Forbids caching of the response.
pub fn no_cache(reply: &mut HttpResponse) {
    reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    gzip.write_all(bytes).and_then(|()| gzip.finish()).expect("writing to memory cannot fail")
}

/// Adds `Warning` headers; control characters are dropped, so that a message cannot inject a header.
pub fn warn<'a>(reply: &mut HttpResponse, warnings: impl IntoIterator<Item = &'a str>) {
    for text in warnings {
        if let Ok(value) = HeaderValue::from_bytes(quoted_warning(text).as_bytes()) {
            reply.headers_mut().append(WARNING, value);
        }
    }
}

/// The value of a `Warning` header, with code 299 and quoted text.
pub(super) fn quoted_warning(text: &str) -> String {
    let mut quoted = String::from("299 - \"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
        // Stop at a character, not inside one: the header must stay valid UTF-8.
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
    fn a_429_has_a_retry_after_header() {
        let mut refusal = Status::new(429, "TooManyRequests", "busy");
        refusal.details.retry_after_seconds = Some(1);
        let reply = status(&refusal, SerializerOptions::PLAIN);
        assert_eq!(reply.status(), 429);
        assert_eq!(reply.headers()[RETRY_AFTER], "1");
        assert_eq!(reply.headers()[CACHE_CONTROL], "no-cache, private");
    }

    #[test]
    fn only_long_bodies_are_compressed() {
        let long = tree!({"a": "x".repeat(GZIP_BYTES_MIN + 1)});
        let style = SerializerOptions { gzip: true, ..SerializerOptions::PLAIN };
        assert_eq!(super::tree(200, &long, style).headers()[CONTENT_ENCODING], "gzip");
        assert!(!super::tree(200, &tree!({"a": 1}), style).headers().contains_key(CONTENT_ENCODING));
        assert!(!super::tree(200, &long, SerializerOptions::PLAIN).headers().contains_key(CONTENT_ENCODING));
    }
}
