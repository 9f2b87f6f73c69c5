//! The handler chain: host check, authentication, path, in-flight limit, body, then the handler.
//!
//! # Invariants
//!
//! - Every request gets exactly one response, and every error is a `Status`; a panic becomes a 500.
//! - The order is fixed, so that an unauthenticated request costs no more than its headers. Extension routes
//!   ([`extension_route`]) are matched before authentication, and read the body last, too.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout};

use super::authentication;
use super::extension_route;
use super::kubelet_proxy;
use super::limits::InFlightClass;
use super::metrics::RequestLabels;
use super::non_resource;
use super::pod_subresource::PodSubresource;
use super::query::QueryParams;
use super::read_handlers::{self, RequestScope};
use super::request_body;
use super::request_info::{self, RequestInfo};
use super::response::{self, HttpResponse, SerializerOptions};
use super::server_state::{RequestHead, ServerState};
use super::verb::{self, ApiVerb};
use super::virtual_api;
use super::write_handlers;
use crate::request::{ResourcePath, UserInfo};
use crate::status::Status;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// Longer audit IDs of clients are replaced.
const AUDIT_ID_BYTES_MAX: usize = 64;

/// Serves one request. `peer` is the user of the connection's client certificate.
pub async fn serve(
    shared: Arc<ServerState>,
    peer: Option<Arc<UserInfo>>,
    request: hyper::Request<Incoming>,
) -> HttpResponse {
    let begun = Instant::now();
    let (parts, body) = request.into_parts();
    let audit_id = audit_id(&shared, &parts);
    let mut labels = RequestLabels {
        verb: parts.method.as_str().to_ascii_lowercase(),
        group: String::new(),
        resource: String::new(),
        code: 0,
    };
    let path = parts.uri.path().to_owned();
    let work = CatchPanic(Box::pin(answer(&shared, peer.as_deref(), parts, body, &mut labels)));
    let mut reply = work.await.unwrap_or_else(|()| {
        response::status(&Status::internal("the server panicked; it goes on"), SerializerOptions::PLAIN)
    });
    reply.headers_mut().insert(AUDIT_ID, audit_id);
    labels.code = reply.status().as_u16();
    shared.metrics.record_request(&labels, begun.elapsed());
    tracing::debug!(verb = labels.verb, path, code = labels.code, took = ?begun.elapsed(), "request served");
    reply
}

fn audit_id(shared: &ServerState, parts: &Parts) -> HeaderValue {
    let given = parts.headers.get(AUDIT_ID).filter(|id| id.len() <= AUDIT_ID_BYTES_MAX && !id.is_empty());
    given.cloned().unwrap_or_else(|| {
        HeaderValue::from_str(&shared.entropy.uid()).expect("a UUID is a legal header value")
    })
}

/// Turns a panic of the future into an error, so that one request cannot end the connection of others.
struct CatchPanic<F>(Pin<Box<F>>);

impl<F: Future> Future for CatchPanic<F> {
    type Output = Result<F::Output, ()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The future is never polled again after a panic, so its broken state is never observed.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Err(_) => Poll::Ready(Err(())),
        }
    }
}

/// The prefix of impersonation headers, which are rejected rather than ignored.
const IMPERSONATE: &str = "impersonate-";

async fn answer(
    shared: &Arc<ServerState>,
    peer: Option<&UserInfo>,
    parts: Parts,
    body: Incoming,
    labels: &mut RequestLabels,
) -> HttpResponse {
    let path = parts.uri.path().to_owned();
    // Before authentication: a rebound browser could carry ambient credentials.
    if let Err(status) = check_host(shared, &parts) {
        return response::status(&status, SerializerOptions::PLAIN);
    }
    if let Some(route) = extension_route::find(shared, &parts.method, &path) {
        return extension_route::answer(shared, route, &parts, body).await;
    }
    let user = match authenticated(shared, peer, &parts, &path) {
        Ok(user) => user,
        Err(status) => return response::status(&status, SerializerOptions::PLAIN),
    };
    if let Err(status) = check_headers(&parts.headers) {
        return response::status(&status, SerializerOptions::PLAIN);
    }
    let query = QueryParams::parse(parts.uri.query().unwrap_or_default());
    // Upgrade state of the connection is in the extensions and travels with the body.
    let mut carrier = hyper::Request::new(body);
    *carrier.version_mut() = parts.version;
    *carrier.extensions_mut() = parts.extensions;
    let request = RequestHead { method: parts.method, query, headers: parts.headers, user };
    let result = match request_info::parse(&path) {
        None => Err(Status::bad_request("the path of the request is not valid percent-encoded UTF-8")),
        Some(RequestInfo::Path(segments)) => {
            let words: Vec<&str> = segments.iter().map(String::as_str).collect();
            shared
                .limits
                .acquire(InFlightClass::Read)
                .and_then(|_place| non_resource::answer(shared, &request, &words))
        }
        Some(RequestInfo::Resource { target, watch_prefix }) => {
            resource(shared, &request, target, watch_prefix, carrier, labels).await
        }
    };
    result.unwrap_or_else(|status| refused(&status, &request))
}

fn refused(status: &Status, request: &RequestHead) -> HttpResponse {
    let mut reply = response::status(status, request.error_serializer());
    if status.code == 429 && !reply.headers().contains_key(RETRY_AFTER) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// Prevents DNS rebinding: a page in a browser could resolve its own name to this server.
fn check_host(shared: &ServerState, parts: &Parts) -> Result<(), Status> {
    let Some(ours) = &shared.hosts else {
        return Ok(());
    };
    let header = parts.headers.get(http::header::HOST).and_then(|h| h.to_str().ok());
    let host = parts.uri.authority().map(http::uri::Authority::as_str).or(header).unwrap_or_default();
    let name = host_name(host);
    if ours.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Ok(());
    }
    let message = format!("host {host:?} is not served here: use one of {}", ours.join(", "));
    Err(Status::new(403, "Forbidden", message))
}

/// Rejects headers that would change the meaning of the request and that this server does not implement.
fn check_headers(headers: &http::HeaderMap) -> Result<(), Status> {
    if let Some(name) = headers.keys().find(|name| name.as_str().starts_with(IMPERSONATE)) {
        let message = format!(
            "header {name}: this server has no impersonation; send the request without it (kubectl: without --as)"
        );
        return Err(Status::new(403, "Forbidden", message));
    }
    let encoding = headers.get(http::header::CONTENT_ENCODING).map(|it| it.to_str().unwrap_or("?"));
    match encoding.filter(|it| !it.eq_ignore_ascii_case("identity")) {
        None => Ok(()),
        Some(encoding) => {
            let message = format!(
                "content encoding {encoding:?} of the request is not supported; send the body as it is"
            );
            Err(Status::new(415, "UnsupportedMediaType", message))
        }
    }
}

/// The host name in `name`, `name:port` or `[address]:port`.
fn host_name(host: &str) -> &str {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    if host.matches(':').count() == 1 { host.split(':').next().unwrap_or_default() } else { host }
}

fn authenticated(
    shared: &ServerState,
    peer: Option<&UserInfo>,
    parts: &Parts,
    path: &str,
) -> Result<UserInfo, Status> {
    match shared.auth.user(peer, &parts.headers)? {
        Some(user) => Ok(user),
        None if authentication::is_public(path) => Ok(UserInfo {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..UserInfo::default()
        }),
        None => Err(Status::unauthorized()),
    }
}

async fn resource(
    shared: &Arc<ServerState>,
    request: &RequestHead,
    target: ResourcePath,
    watch_prefix: bool,
    carrier: hyper::Request<Incoming>,
    labels: &mut RequestLabels,
) -> Result<HttpResponse, Status> {
    let found = shared.engine.registry().find(&target.group, &target.version, &target.resource);
    let virtual_resource = if found.is_none() { virtual_api::find(shared, &target) } else { None };
    // Metric labels are set for known resources only: unknown names would make their cardinality unbounded.
    if found.is_some() || virtual_resource.is_some() {
        labels.group = target.group.to_string();
        labels.resource = target.resource.to_string();
    }
    if let Some(place) = virtual_resource {
        return virtual_api::answer(shared, request, place, target, carrier.into_body(), labels).await;
    }
    let Some((resource, version)) = found else {
        return non_resource::unknown(shared, &target.group);
    };
    // Only the deprecated `watch/` prefix watches one object: without it the path of an object is a plain read,
    // whatever the query says.
    let watch = watch_prefix || (target.name.is_empty() && request.query.flag("watch").unwrap_or(false));
    let verb = ApiVerb::of(&request.method, &target, watch).ok_or_else(Status::method_not_allowed)?;
    labels.verb = verb.word().to_owned();
    verb::check(&resource, version, &target, verb)?;
    if let Some(part) = PodSubresource::of(&target) {
        return kubelet_proxy::answer(shared, request, &target, part, carrier).await;
    }
    let place = RequestScope { resource, version };
    let deadline = deadline(shared.bounds.deadline, request)?;
    let work = handle(shared, request, &place, target, verb, carrier);
    let mut reply = timeout(deadline, work).await.unwrap_or_else(|_| Err(too_slow(deadline)))?;
    let deprecation = &place.resource.versions[place.version].deprecation;
    response::warn(&mut reply, Some(deprecation.as_str()).filter(|text| !text.is_empty()));
    Ok(reply)
}

pub(super) fn deadline(bound: Duration, request: &RequestHead) -> Result<Duration, Status> {
    Ok(request.query.timeout()?.map_or(bound, |asked| asked.min(bound)))
}

pub(super) fn too_slow(deadline: Duration) -> Status {
    let message = format!("Timeout: request did not complete within {} s", deadline.as_secs());
    Status::new(504, "Timeout", message)
}

async fn handle(
    shared: &Arc<ServerState>,
    request: &RequestHead,
    place: &RequestScope,
    target: ResourcePath,
    verb: ApiVerb,
    carrier: hyper::Request<Incoming>,
) -> Result<HttpResponse, Status> {
    if verb == ApiVerb::Watch {
        return read_handlers::begin_watch(shared, request, place, &target, carrier).await;
    }
    let _room = shared.limits.acquire(verb.load())?;
    match verb {
        ApiVerb::Get => read_handlers::get(shared, request, place, &target).await,
        ApiVerb::List => read_handlers::list(shared, request, place, &target).await,
        _ => {
            let bytes = request_body::read(carrier.into_body()).await?;
            write_handlers::write(shared, request, place, target, verb, &bytes).await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        for (host, want) in [
            ("localhost:6443", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:6443", "::1"),
            ("::1", "::1"),
            ("user@evil.com:1", "evil.com"),
            ("", ""),
        ] {
            assert_eq!(host_name(host), want);
        }
    }
}
