//! Paths that are no resources: discovery, OpenAPI, health, version, metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Method, Response, StatusCode};
use muster_store::Range;
use muster_tree::{Tree, tree};

use super::accept::{Encoding, Offer, Shape};
use super::answer::{self, AnswerBody, Reply, Style};
use super::context::{Request, Shared};
use super::health;
use super::told::{self, with_told};
use crate::discovery::{self, Form, Root};
use crate::openapi::{Documents, v2};
use crate::status::Status;

/// What clients may keep a document of known hash for.
const FOR_EVER: &str = "public, immutable";

/// Answers that are made once per generation of the registry.
#[derive(Default)]
pub struct Discovery {
    documents: Documents,
    aggregated: Mutex<BTreeMap<(bool, &'static str), Kept>>,
}

#[derive(Clone)]
struct Kept {
    generation: u64,
    bytes: Arc<Vec<u8>>,
    etag: String,
}

impl Discovery {
    fn aggregated(&self, shared: &Shared, root: Root, form: Form) -> Kept {
        let registry = shared.engine.registry();
        let key = (root == Root::Core, form.version());
        let mut all = self.aggregated.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |kept: &&Kept| kept.generation == registry.generation();
        if let Some(kept) = all.get(&key).filter(fresh) {
            return kept.clone();
        }
        let bytes = discovery::aggregated(&with_told(shared), root, form).to_json_bytes();
        let etag = discovery::etag(&bytes);
        let kept = Kept { generation: registry.generation(), bytes: Arc::new(bytes), etag };
        all.insert(key, kept.clone());
        kept
    }
}

/// Answers a path that is no resource.
///
/// # Errors
/// 404, 405 or 406.
pub fn answer(shared: &Shared, request: &Request, path: &[&str]) -> Result<Reply, Status> {
    if !matches!(request.method, Method::GET | Method::HEAD) && !is_probe(path) {
        return Err(Status::method_not_allowed());
    }
    match path {
        // The root and the index of OpenAPI are JSON, whatever is accepted.
        [] => {
            Ok(answer::tree(200, &roots(shared), Style { encoding: Encoding::Json, ..request.plain_style() }))
        }
        ["version"] => version(request),
        [probe @ ("healthz" | "livez" | "readyz"), one @ ..] => {
            let one = (!one.is_empty()).then(|| one.join("/"));
            let reply = health::probe(probe, one.as_deref(), &request.query, &shared.checks);
            Ok(reply.unwrap_or_else(not_found))
        }
        ["metrics"] => Ok(metrics(shared)),
        ["api"] => roots_of_discovery(shared, request, Root::Core),
        ["apis"] => roots_of_discovery(shared, request, Root::Named),
        ["api", version] => listed(shared, request, "", version),
        ["apis", group] => match discovery::group(&with_told(shared), group) {
            Some(tree) => plain(request, &tree),
            None => Ok(not_found()),
        },
        ["apis", group, version] => listed(shared, request, group, version),
        ["openapi", "v2"] => openapi_v2(request),
        ["openapi", "v3"] => openapi_index(shared, request),
        ["openapi", "v3", "api", version] => openapi(shared, request, "", version),
        ["openapi", "v3", "apis", group, version] => openapi(shared, request, group, version),
        _ => Ok(not_found()),
    }
}

fn openapi_v2(request: &Request) -> Result<Reply, Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains(v2::ASKED) {
        return Ok(answer::bytes(200, v2::ANSWERED, v2::protobuf(), false));
    }
    plain(request, &v2::json())
}

/// The version has a JSON form and no other.
fn version(request: &Request) -> Result<Reply, Status> {
    let accepted = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut types = accepted.split(',').map(|it| it.split(';').next().unwrap_or_default().trim());
    if !types.any(|it| matches!(it, "" | "*/*" | "application/*" | "application/json")) {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        return Err(Status::general(406, "NotAcceptable", message));
    }
    Ok(answer::tree(200, &health::version(), Style { encoding: Encoding::Json, ..request.plain_style() }))
}

fn is_probe(path: &[&str]) -> bool {
    matches!(path, ["healthz" | "livez" | "readyz", ..])
}

/// The answer to a path that nobody serves.
#[must_use]
pub fn not_found() -> Reply {
    answer::text(404, "404 page not found\n")
}

/// Below a served group an unknown path is a refusal; a group that is not served is an unknown page.
///
/// # Errors
/// 404.
pub fn unknown(shared: &Shared, group: &str) -> Result<Reply, Status> {
    let is_stored = || shared.engine.registry().all().iter().any(|r| r.group == group);
    let is_served = group.is_empty() || is_stored() || told::has_group(shared, group);
    if is_served { Err(Status::unknown_path()) } else { Ok(not_found()) }
}

pub(super) fn plain(request: &Request, tree: &Tree) -> Result<Reply, Status> {
    let agreed = request.negotiate(Offer::Plain)?;
    Ok(answer::tree(200, tree, request.style(agreed)))
}

fn roots(shared: &Shared) -> Tree {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/readyz",
        "/version",
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    for (group, version) in discovery::served_group_versions(&with_told(shared)) {
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.push(format!("/apis/{group}"));
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    paths.sort();
    paths.dedup();
    tree!({"paths": paths})
}

fn roots_of_discovery(shared: &Shared, request: &Request, root: Root) -> Result<Reply, Status> {
    let agreed = request.negotiate(Offer::Discovery)?;
    let Shape::Discovery(form) = agreed.shape else {
        let tree = match root {
            Root::Core => discovery::versions(&shared.address.to_string()),
            Root::Named => discovery::group_list(&with_told(shared)),
        };
        return Ok(varies(answer::tree(200, &tree, request.style(agreed))));
    };
    let kept = shared.discovery.aggregated(shared, root, form);
    if is_known(request, &kept.etag) {
        return Ok(unchanged(&kept.etag));
    }
    let bytes = kept.bytes.as_ref().clone();
    let mut reply = varies(answer::bytes(200, form.media_type(), bytes, request.takes_gzip()));
    set_etag(&mut reply, &kept.etag);
    Ok(reply)
}

/// Caches between must not mix the forms of discovery up.
fn varies(mut reply: Reply) -> Reply {
    reply.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    reply
}

fn listed(shared: &Shared, request: &Request, group: &str, version: &str) -> Result<Reply, Status> {
    match discovery::resource_list(&with_told(shared), group, version) {
        Some(tree) => plain(request, &tree),
        None => unknown(shared, group),
    }
}

fn openapi_index(shared: &Shared, request: &Request) -> Result<Reply, Status> {
    let registry = shared.engine.registry();
    let index = shared.discovery.documents.index(&registry);
    Ok(answer::tree(200, &index, Style { encoding: Encoding::Json, ..request.plain_style() }))
}

fn openapi(shared: &Shared, request: &Request, group: &str, version: &str) -> Result<Reply, Status> {
    request.negotiate(Offer::Text)?;
    let registry = shared.engine.registry();
    let Some(document) = shared.discovery.documents.document(&registry, group, version) else {
        return Ok(not_found());
    };
    let etag = format!("\"{}\"", document.hash);
    if is_known(request, &etag) {
        return Ok(unchanged(&etag));
    }
    let mut reply = if request.takes_gzip() {
        let mut reply = Response::new(AnswerBody::Full(Some(document.gzip.clone())));
        answer::mark_compressed(&mut reply);
        reply
    } else {
        Response::new(AnswerBody::Full(Some(Bytes::from(document.plain()))))
    };
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if request.query.get("hash") == Some(document.hash.as_str()) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
        headers.insert(EXPIRES, HeaderValue::from_static("Fri, 01 Jan 2100 00:00:00 GMT"));
    }
    set_etag(&mut reply, &etag);
    Ok(reply)
}

fn is_known(request: &Request, etag: &str) -> bool {
    let known = request.headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    known.is_some_and(|known| known.split(',').any(|k| k.trim() == etag))
}

fn unchanged(etag: &str) -> Reply {
    let mut reply = Response::new(AnswerBody::Full(None));
    *reply.status_mut() = StatusCode::NOT_MODIFIED;
    set_etag(&mut reply, etag);
    reply
}

fn set_etag(reply: &mut Reply, etag: &str) {
    if let Ok(value) = HeaderValue::from_str(etag) {
        reply.headers_mut().insert(ETAG, value);
    }
}

fn metrics(shared: &Shared) -> Reply {
    let registry = shared.engine.registry();
    let store = shared.engine.store();
    // A page of nothing still says how many come after it.
    let none = Range { limit: Some(0), ..Range::default() };
    let counts = registry.all().iter().filter_map(|resource| {
        let page = store.list(&resource.storage, &none).ok()?;
        Some((resource.storage.to_string(), page.remaining))
    });
    shared.metrics.store_is(store.revision(), counts.filter(|(_, count)| *count > 0));
    answer::bytes(200, super::metrics::EXPOSITION, shared.metrics.to_text().into_bytes(), false)
}
