//! From a request to its answer: who asks, what for, is there room, then the handler.
//!
//! # Invariants
//!
//! - Every request gets exactly one answer, and every refusal is a `Status`; a panic becomes a 500.
//! - The order is fixed: host, authentication, path, room, body. A stranger costs no more than a header. What somebody
//!   answers with tokens of its own ([`aside`]) is found before authentication, and asks for the body last, too.

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

use super::answer::{self, Reply, Style};
use super::aside;
use super::ask::Part;
use super::auth;
use super::body;
use super::context::{Request, Shared};
use super::discover;
use super::info::{self, Info};
use super::limits::Load;
use super::metrics::RequestLabels;
use super::query::Query;
use super::reads::{self, Place};
use super::streams;
use super::told;
use super::verb::{self, Verb};
use super::writes;
use crate::request::{Target, User};
use crate::status::Status;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");
/// The longest audit id that is taken over from a client.
const AUDIT_ID_BYTES_MAX: usize = 64;

/// Answers one request. `peer` is who the connection's certificate names.
pub async fn serve(shared: Arc<Shared>, peer: Option<Arc<User>>, request: hyper::Request<Incoming>) -> Reply {
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
    let work = Caught(Box::pin(answer(&shared, peer.as_deref(), parts, body, &mut labels)));
    let mut reply = work.await.unwrap_or_else(|()| {
        answer::status(&Status::internal("the server panicked; it goes on"), Style::PLAIN)
    });
    reply.headers_mut().insert(AUDIT_ID, audit_id);
    labels.code = reply.status().as_u16();
    shared.metrics.answered(&labels, begun.elapsed());
    tracing::debug!(verb = labels.verb, path, code = labels.code, took = ?begun.elapsed(), "answered");
    reply
}

fn audit_id(shared: &Shared, parts: &Parts) -> HeaderValue {
    let given = parts.headers.get(AUDIT_ID).filter(|id| id.len() <= AUDIT_ID_BYTES_MAX && !id.is_empty());
    given.cloned().unwrap_or_else(|| {
        HeaderValue::from_str(&shared.entropy.uid()).expect("a UUID is a legal header value")
    })
}

/// A future whose panic is a value.
struct Caught<F>(Pin<Box<F>>);

impl<F: Future> Future for Caught<F> {
    type Output = Result<F::Output, ()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // The future is never polled again after a panic, so nobody sees what it broke.
        let polled = std::panic::catch_unwind(AssertUnwindSafe(|| self.0.as_mut().poll(cx)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
            Err(_) => Poll::Ready(Err(())),
        }
    }
}

/// Headers by which a client acts as another user begin with it.
const IMPERSONATE: &str = "impersonate-";

async fn answer(
    shared: &Arc<Shared>,
    peer: Option<&User>,
    parts: Parts,
    body: Incoming,
    labels: &mut RequestLabels,
) -> Reply {
    let path = parts.uri.path().to_owned();
    if let Err(status) = check_host(shared, &parts) {
        return answer::status(&status, Style::PLAIN);
    }
    if let Some(aside) = aside::find(shared, &parts.method, &path) {
        return aside::answer(shared, aside, &parts, body).await;
    }
    let user = match authenticated(shared, peer, &parts, &path) {
        Ok(user) => user,
        Err(status) => return answer::status(&status, Style::PLAIN),
    };
    if let Err(status) = check_headers(&parts.headers) {
        return answer::status(&status, Style::PLAIN);
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    // What a stream needs of the connection travels with the body.
    let mut carrier = hyper::Request::new(body);
    *carrier.version_mut() = parts.version;
    *carrier.extensions_mut() = parts.extensions;
    let request = Request { method: parts.method, query, headers: parts.headers, user };
    let result = match info::parse(&path) {
        None => Err(Status::bad_request("the path of the request is not valid percent-encoded UTF-8")),
        Some(Info::Path(segments)) => {
            let words: Vec<&str> = segments.iter().map(String::as_str).collect();
            shared.limits.enter(Load::Read).and_then(|_place| discover::answer(shared, &request, &words))
        }
        Some(Info::Resource { target, watch_prefix }) => {
            resource(shared, &request, target, watch_prefix, carrier, labels).await
        }
    };
    result.unwrap_or_else(|status| refused(&status, &request))
}

fn refused(status: &Status, request: &Request) -> Reply {
    let mut reply = answer::status(status, request.plain_style());
    if status.code == 429 && !reply.headers().contains_key(RETRY_AFTER) {
        reply.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// A page in a browser can be made to call a name that resolves to us: names that are not ours are refused.
fn check_host(shared: &Shared, parts: &Parts) -> Result<(), Status> {
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

/// Refuses headers that would change what the request means and that this server does not act on.
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

/// The name in `name`, `name:port` or `[address]:port`.
fn host_name(host: &str) -> &str {
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    if host.matches(':').count() == 1 { host.split(':').next().unwrap_or_default() } else { host }
}

fn authenticated(shared: &Shared, peer: Option<&User>, parts: &Parts, path: &str) -> Result<User, Status> {
    match shared.auth.user(peer, &parts.headers)? {
        Some(user) => Ok(user),
        None if auth::is_public(path) => Ok(User {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..User::default()
        }),
        None => Err(Status::unauthorized()),
    }
}

async fn resource(
    shared: &Arc<Shared>,
    request: &Request,
    target: Target,
    watch_prefix: bool,
    carrier: hyper::Request<Incoming>,
    labels: &mut RequestLabels,
) -> Result<Reply, Status> {
    let found = shared.engine.registry().find(&target.group, &target.version, &target.resource);
    let told = if found.is_none() { told::find(shared, &target) } else { None };
    if found.is_some() || told.is_some() {
        labels.group = target.group.to_string();
        labels.resource = target.resource.to_string();
    }
    if let Some(place) = told {
        return told::answer(shared, request, place, target, carrier.into_body(), labels).await;
    }
    let Some((resource, version)) = found else {
        return discover::unknown(shared, &target.group);
    };
    // Only the old prefix watches one object: without it the path of an object is a plain read, whatever the query says.
    let watch = watch_prefix || (target.name.is_empty() && request.query.flag("watch").unwrap_or(false));
    let verb = Verb::of(&request.method, &target, watch).ok_or_else(Status::method_not_allowed)?;
    labels.verb = verb.word().to_owned();
    verb::check(&resource, version, &target, verb)?;
    if let Some(part) = Part::of(&target) {
        return streams::answer(shared, request, &target, part, carrier).await;
    }
    let place = Place { resource, version };
    let deadline = deadline(shared.bounds.deadline, request)?;
    let work = handle(shared, request, &place, target, verb, carrier);
    let mut reply = timeout(deadline, work).await.unwrap_or_else(|_| Err(too_slow(deadline)))?;
    let deprecation = &place.resource.versions[place.version].deprecation;
    answer::warn(&mut reply, Some(deprecation.as_str()).filter(|text| !text.is_empty()));
    Ok(reply)
}

pub(super) fn deadline(bound: Duration, request: &Request) -> Result<Duration, Status> {
    Ok(request.query.timeout()?.map_or(bound, |asked| asked.min(bound)))
}

pub(super) fn too_slow(deadline: Duration) -> Status {
    let message = format!("Timeout: request did not complete within {} s", deadline.as_secs());
    Status::new(504, "Timeout", message)
}

async fn handle(
    shared: &Arc<Shared>,
    request: &Request,
    place: &Place,
    target: Target,
    verb: Verb,
    carrier: hyper::Request<Incoming>,
) -> Result<Reply, Status> {
    if verb == Verb::Watch {
        return reads::begin_watch(shared, request, place, &target, carrier).await;
    }
    let _room = shared.limits.enter(verb.load())?;
    match verb {
        Verb::Get => reads::get(shared, request, place, &target).await,
        Verb::List => reads::list(shared, request, place, &target).await,
        _ => {
            let bytes = body::read(carrier.into_body()).await?;
            writes::write(shared, request, place, target, verb, &bytes).await
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
