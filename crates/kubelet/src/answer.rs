//! Answers: plain text and streams of text.

use std::convert::Infallible;
use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The body of an answer.
pub type AnswerBody = UnsyncBoxBody<Bytes, io::Error>;
/// An answer.
pub type Answer = Response<AnswerBody>;

/// Why a request is not answered as it wishes: a code, and words in plain text as a kubelet says them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub code: u16,
    pub text: String,
}

impl Refusal {
    pub fn new(code: u16, text: impl Into<String>) -> Refusal {
        Refusal { code, text: text.into() }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        text(refusal.code, refusal.text)
    }
}

/// Plain text, all at once.
pub(crate) fn text(code: u16, text: impl Into<Bytes>) -> Answer {
    let sure = |never: Infallible| match never {};
    stream(code, Full::new(text.into()).map_err(sure).boxed_unsync())
}

/// Plain text, piece by piece.
pub(crate) fn stream(code: u16, body: AnswerBody) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    answer
}
