//! Extension routes: paths with bearer tokens of their own, which the API itself does not accept.
//!
//! # Invariants
//!
//! - The body is read only when the handler asks for it: a request without a valid token costs no more than its
//!   headers.
//! - These requests count as writes for the in-flight limits, and have a timeout like all others.

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

use super::authentication::bearer;
use super::handler_chain::too_slow;
use super::limits::InFlightClass;
use super::request_body;
use super::response::{self, HttpResponse, SerializerOptions};
use super::server_state::ServerState;
use crate::status::Status;

/// Bounds reading the body and handling the request together.
const WAIT_MAX: Duration = Duration::from_secs(20);

pub type BodyFuture = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;

/// The HTTP status code and the response body.
pub type ExtensionFuture = Pin<Box<dyn Future<Output = (u16, Tree)> + Send>>;

pub struct ExtensionRequest {
    pub path: String,
    /// The bearer token, not yet verified.
    pub token: Option<String>,
    /// The body; reading it fails beyond [`ExtensionRoute::body_bytes_max`].
    pub body: BodyFuture,
}

impl ExtensionRequest {
    /// Builds the request from its head.
    #[must_use]
    pub fn of(head: &Parts, body: BodyFuture) -> ExtensionRequest {
        let header = head.headers.get(AUTHORIZATION).and_then(|it| it.to_str().ok());
        ExtensionRequest {
            path: head.uri.path().to_owned(),
            token: header.and_then(bearer).map(str::to_owned),
            body,
        }
    }
}

/// A handler that authenticates its requests itself.
pub trait ExtensionRoute: Send + Sync {
    /// Whether the route serves this method and path.
    fn matches(&self, method: &Method, path: &str) -> bool;

    /// The maximum size of a request body.
    fn body_bytes_max(&self) -> usize;

    fn handle(&self, asked: ExtensionRequest) -> ExtensionFuture;
}

/// The extension route that serves this request, if there is one.
pub(super) fn find(shared: &ServerState, method: &Method, path: &str) -> Option<Arc<dyn ExtensionRoute>> {
    shared.extension_route.clone().filter(|it| it.matches(method, path))
}

pub(super) async fn answer(
    shared: &ServerState,
    aside: Arc<dyn ExtensionRoute>,
    parts: &Parts,
    body: Incoming,
) -> HttpResponse {
    // The token is verified by the handler, so the permit is taken before: unauthenticated requests are bounded, too.
    let _room = match shared.limits.acquire(InFlightClass::Write) {
        Ok(room) => room,
        Err(status) => return response::status(&status, SerializerOptions::PLAIN),
    };
    let asked =
        ExtensionRequest::of(parts, Box::pin(request_body::read_within(body, aside.body_bytes_max())));
    match timeout(WAIT_MAX, aside.handle(asked)).await {
        Ok((code, tree)) => response::tree(code, &tree, SerializerOptions::PLAIN),
        Err(_) => response::status(&too_slow(WAIT_MAX), SerializerOptions::PLAIN),
    }
}
