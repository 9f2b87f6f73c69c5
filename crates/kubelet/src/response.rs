//! HTTP responses: plain text and streams.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of a response.
pub type KubeletResponseBody = UnsyncBoxBody<Bytes, io::Error>;
pub type KubeletResponse = Response<KubeletResponseBody>;

/// An error response: status code and the kubelet's plain-text message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpError {
    pub code: u16,
    pub text: String,
}

impl HttpError {
    pub fn new(code: u16, text: impl Into<String>) -> HttpError {
        HttpError { code, text: text.into() }
    }
}

impl From<HttpError> for KubeletResponse {
    fn from(refusal: HttpError) -> KubeletResponse {
        text(refusal.code, refusal.text)
    }
}

pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> KubeletResponse {
    let sure = |never: Infallible| match never {};
    stream(code, Full::new(text.into()).map_err(sure).boxed_unsync())
}

/// A streamed plain-text response.
pub(crate) fn stream(code: u16, body: KubeletResponseBody) -> KubeletResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Browsers must not interpret logs as HTML.
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    answer
}
