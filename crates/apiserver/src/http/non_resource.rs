//! Non-resource paths: discovery, OpenAPI, health, version, metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, HeaderValue, IF_NONE_MATCH, VARY};
use http::{Method, Response, StatusCode};
use muster_store::Range;
use muster_tree::{Tree, tree};

use super::health;
use super::negotiation::{Encoding, EndpointRestrictions, Representation};
use super::response::{self, HttpResponse, ResponseBody, SerializerOptions};
use super::server_state::{RequestHead, ServerState};
use super::virtual_api::{self, with_virtual};
use crate::discovery::{self, DiscoveryVersion, Root};
use crate::openapi::{OpenApiCache, v2};
use crate::status::Status;

/// `Cache-Control` of a document that is requested by its hash.
const FOR_EVER: &str = "public, immutable";

/// Documents that are built once per generation of the registry.
#[derive(Default)]
pub struct DiscoveryCache {
    documents: OpenApiCache,
    aggregated: Mutex<BTreeMap<(bool, &'static str), CachedDocument>>,
}

#[derive(Clone)]
struct CachedDocument {
    generation: u64,
    bytes: Arc<Vec<u8>>,
    etag: String,
}

impl DiscoveryCache {
    fn aggregated(&self, shared: &ServerState, root: Root, form: DiscoveryVersion) -> CachedDocument {
        let registry = shared.engine.registry();
        let key = (root == Root::Core, form.version());
        let mut all = self.aggregated.lock().unwrap_or_else(PoisonError::into_inner);
        // The generation increments with every change of the registry, so a stale document is never served.
        let fresh = |cached: &&CachedDocument| cached.generation == registry.generation();
        if let Some(cached) = all.get(&key).filter(fresh) {
            return cached.clone();
        }
        let bytes = discovery::aggregated(&with_virtual(shared), root, form).to_json_bytes();
        let etag = discovery::etag(&bytes);
        let cached = CachedDocument { generation: registry.generation(), bytes: Arc::new(bytes), etag };
        all.insert(key, cached.clone());
        cached
    }
}

/// Serves a non-resource path.
///
/// # Errors
/// 404, 405 or 406.
pub fn answer(shared: &ServerState, request: &RequestHead, path: &[&str]) -> Result<HttpResponse, Status> {
    if !matches!(request.method, Method::GET | Method::HEAD) && !is_probe(path) {
        return Err(Status::method_not_allowed());
    }
    match path {
        // The root and the OpenAPI index are always JSON.
        [] => Ok(response::tree(
            200,
            &roots(shared),
            SerializerOptions { encoding: Encoding::Json, ..request.error_serializer() },
        )),
        ["version"] => version(request),
        [probe @ ("healthz" | "livez" | "readyz"), one @ ..] => {
            let one = (!one.is_empty()).then(|| one.join("/"));
            let reply = health::probe(probe, one.as_deref(), &request.query, &shared.checks);
            Ok(reply.unwrap_or_else(not_found))
        }
        // Metrics need authentication, like every path that is not public.
        ["metrics"] => Ok(metrics(shared)),
        ["api"] => roots_of_discovery(shared, request, Root::Core),
        ["apis"] => roots_of_discovery(shared, request, Root::Named),
        ["api", version] => listed(shared, request, "", version),
        ["apis", group] => match discovery::group(&with_virtual(shared), group) {
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

fn openapi_v2(request: &RequestHead) -> Result<HttpResponse, Status> {
    let accept = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains(v2::ASKED) {
        return Ok(response::bytes(200, v2::ANSWERED, v2::protobuf(), false));
    }
    plain(request, &v2::json())
}

/// `/version` is served as JSON only.
fn version(request: &RequestHead) -> Result<HttpResponse, Status> {
    let accepted = request.headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut types = accepted.split(',').map(|it| it.split(';').next().unwrap_or_default().trim());
    if !types.any(|it| matches!(it, "" | "*/*" | "application/*" | "application/json")) {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        return Err(Status::general(406, "NotAcceptable", message));
    }
    Ok(response::tree(
        200,
        &health::version(),
        SerializerOptions { encoding: Encoding::Json, ..request.error_serializer() },
    ))
}

fn is_probe(path: &[&str]) -> bool {
    matches!(path, ["healthz" | "livez" | "readyz", ..])
}

/// The 404 of an unknown path: plain text, as from Go's mux.
#[must_use]
pub fn not_found() -> HttpResponse {
    response::text(404, "404 page not found\n")
}

/// An unknown resource of a served group is a `Status`; an unknown group is plain text.
///
/// # Errors
/// 404.
pub fn unknown(shared: &ServerState, group: &str) -> Result<HttpResponse, Status> {
    let is_stored = || shared.engine.registry().all().iter().any(|r| r.group == group);
    let is_served = group.is_empty() || is_stored() || virtual_api::has_group(shared, group);
    if is_served { Err(Status::unknown_path()) } else { Ok(not_found()) }
}

pub(super) fn plain(request: &RequestHead, tree: &Tree) -> Result<HttpResponse, Status> {
    let agreed = request.negotiate(EndpointRestrictions::Plain)?;
    Ok(response::tree(200, tree, request.serializer(agreed)))
}

fn roots(shared: &ServerState) -> Tree {
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
    for (group, version) in discovery::served_group_versions(&with_virtual(shared)) {
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

fn roots_of_discovery(
    shared: &ServerState,
    request: &RequestHead,
    root: Root,
) -> Result<HttpResponse, Status> {
    let agreed = request.negotiate(EndpointRestrictions::Discovery)?;
    let Representation::Discovery(form) = agreed.shape else {
        let tree = match root {
            Root::Core => discovery::versions(&shared.address.to_string()),
            Root::Named => discovery::group_list(&with_virtual(shared)),
        };
        return Ok(varies(response::tree(200, &tree, request.serializer(agreed))));
    };
    let cached = shared.discovery.aggregated(shared, root, form);
    if is_known(request, &cached.etag) {
        return Ok(unchanged(&cached.etag));
    }
    let bytes = cached.bytes.as_ref().clone();
    let mut reply = varies(response::bytes(200, form.media_type(), bytes, request.accepts_gzip()));
    set_etag(&mut reply, &cached.etag);
    Ok(reply)
}

/// Sets `Vary`, so that proxies do not mix the forms of discovery.
fn varies(mut reply: HttpResponse) -> HttpResponse {
    reply.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
    reply
}

fn listed(
    shared: &ServerState,
    request: &RequestHead,
    group: &str,
    version: &str,
) -> Result<HttpResponse, Status> {
    match discovery::resource_list(&with_virtual(shared), group, version) {
        Some(tree) => plain(request, &tree),
        None => unknown(shared, group),
    }
}

fn openapi_index(shared: &ServerState, request: &RequestHead) -> Result<HttpResponse, Status> {
    let registry = shared.engine.registry();
    let index = shared.discovery.documents.index(&registry);
    Ok(response::tree(
        200,
        &index,
        SerializerOptions { encoding: Encoding::Json, ..request.error_serializer() },
    ))
}

fn openapi(
    shared: &ServerState,
    request: &RequestHead,
    group: &str,
    version: &str,
) -> Result<HttpResponse, Status> {
    request.negotiate(EndpointRestrictions::Text)?;
    let registry = shared.engine.registry();
    let Some(document) = shared.discovery.documents.document(&registry, group, version) else {
        return Ok(not_found());
    };
    let etag = format!("\"{}\"", document.hash);
    if is_known(request, &etag) {
        return Ok(unchanged(&etag));
    }
    let mut reply = if request.accepts_gzip() {
        let mut reply = Response::new(ResponseBody::Full(Some(document.gzip.clone())));
        response::mark_compressed(&mut reply);
        reply
    } else {
        Response::new(ResponseBody::Full(Some(Bytes::from(document.plain()))))
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

fn is_known(request: &RequestHead, etag: &str) -> bool {
    let known = request.headers.get(IF_NONE_MATCH).and_then(|v| v.to_str().ok());
    known.is_some_and(|known| known.split(',').any(|k| k.trim() == etag))
}

fn unchanged(etag: &str) -> HttpResponse {
    let mut reply = Response::new(ResponseBody::Full(None));
    *reply.status_mut() = StatusCode::NOT_MODIFIED;
    set_etag(&mut reply, etag);
    reply
}

fn set_etag(reply: &mut HttpResponse, etag: &str) {
    if let Ok(value) = HeaderValue::from_str(etag) {
        reply.headers_mut().insert(ETAG, value);
    }
}

fn metrics(shared: &ServerState) -> HttpResponse {
    let registry = shared.engine.registry();
    let store = shared.engine.store();
    // An empty page still has the remaining item count.
    let none = Range { limit: Some(0), ..Range::default() };
    let counts = registry.all().iter().filter_map(|resource| {
        let page = store.list(&resource.storage, &none).ok()?;
        Some((resource.storage.to_string(), page.remaining))
    });
    shared.metrics.set_store_gauges(store.revision(), counts.filter(|(_, count)| *count > 0));
    response::bytes(200, super::metrics::EXPOSITION, shared.metrics.to_text().into_bytes(), false)
}
