//! Requests that somebody else in this process answers, and that show tokens which the API itself does not take: they are
//! made for that one purpose.
//!
//! # Invariants
//!
//! - Whoever answers is given the body only when it asks for it: a stranger is refused before that.
//! - Such requests have a place among the writes, and a bound on time, like all others.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::AUTHORIZATION;
use http::request::Parts;
use hyper::body::Incoming;
use muster_tree::Tree;
use tokio::time::timeout;

use super::answer::{self, Reply, Style};
use super::auth::bearer;
use super::body;
use super::context::Shared;
use super::limits::Load;
use super::route::too_slow;
use crate::status::Status;

/// How long a body and an answer may take, all in all.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A body to come.
pub type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;

/// An answer to come: its code and its body.
pub type Answering = Pin<Box<dyn Future<Output = (u16, Tree)> + Send>>;

/// One request.
pub struct Asked {
    /// Its path.
    pub path: String,
    /// The token that it shows.
    pub token: Option<String>,
    /// What it sends, within [`Aside::bytes_max`].
    pub body: Reading,
}

impl Asked {
    /// The one with this head, and a body to come.
    #[must_use]
    pub fn of(head: &Parts, body: Reading) -> Asked {
        let header = head.headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        Asked { path: head.uri.path().to_owned(), token: header.and_then(bearer).map(str::to_owned), body }
    }
}

/// Answers requests that show tokens of its own.
pub trait Aside: Send + Sync {
    /// Whether this is one of them.
    fn takes(&self, method: &Method, path: &str) -> bool;

    /// The longest body, in bytes.
    fn bytes_max(&self) -> usize;

    /// Answers.
    fn answer(&self, asked: Asked) -> Answering;
}

/// Who answers this request, if anybody does.
pub(super) fn find(shared: &Shared, method: &Method, path: &str) -> Option<Arc<dyn Aside>> {
    shared.aside.clone().filter(|it| it.takes(method, path))
}

/// Has it answered.
pub(super) async fn answer(shared: &Shared, aside: Arc<dyn Aside>, parts: &Parts, body: Incoming) -> Reply {
    let _room = match shared.limits.enter(Load::Write) {
        Ok(room) => room,
        Err(status) => return answer::status(&status, Style::PLAIN),
    };
    let asked = Asked::of(parts, Box::pin(body::read_within(body, aside.bytes_max())));
    match timeout(WAIT_MAX, aside.answer(asked)).await {
        Ok((code, tree)) => answer::tree(code, &tree, Style::PLAIN),
        Err(_) => answer::status(&too_slow(WAIT_MAX), Style::PLAIN),
    }
}
