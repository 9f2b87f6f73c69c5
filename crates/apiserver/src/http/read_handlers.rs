//! Handlers of get, list and watch requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use muster_schema::object::StoredObject;
use muster_schema::proto;
use muster_tree::{Text, Tree};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::limits::InFlightClass;
use super::list_encoder;
use super::negotiation::{
    self, Encoding, EndpointRestrictions, MetaVersion, NegotiatedMedia, Representation,
};
use super::response::{self, HttpResponse};
use super::server_state::{RequestHead, ServerState};
use super::watch::{self, CHUNKS_MAX, WatchEncoder, WatchStream, partial};
use super::watch_websocket::WatchWebSocket;
use crate::registry::Resource;
use crate::request::{ListOptions, ListReply, ReplyObject, ResourcePath};
use crate::status::Status;
use crate::tables::{self, IncludeObject, ListMeta};

const SCALE: &str = "scale";
/// How long a read waits for a resourceVersion that is not reached yet.
const FUTURE_WAIT_MAX: Duration = Duration::from_secs(3);
/// Range of the watch timeout when the client sets none (kube-apiserver: `--min-request-timeout`).
const WATCH_LASTS: (Duration, Duration) = (Duration::from_secs(1_800), Duration::from_secs(3_600));

/// A resource and the version of the request (kube-apiserver's RequestScope).
#[derive(Clone)]
pub struct RequestScope {
    pub resource: Arc<Resource>,
    pub version: usize,
}

impl RequestScope {
    /// The representations of an object or subresource.
    #[must_use]
    pub fn offer(&self, request: &RequestHead, target: &ResourcePath) -> EndpointRestrictions {
        let is_stored = self.resource.versions[self.version].verbs.iter().any(|verb| verb != "create");
        match target.subresource.as_str() {
            "" | "status" | SCALE if is_stored && self.is_custom(request) => EndpointRestrictions::Custom,
            "" | "status" | SCALE if is_stored => EndpointRestrictions::Objects,
            _ => EndpointRestrictions::Ephemeral,
        }
    }

    /// The representations of a collection.
    fn offer_all(&self, request: &RequestHead) -> EndpointRestrictions {
        if self.is_custom(request) { EndpointRestrictions::Custom } else { EndpointRestrictions::Collection }
    }

    /// Whether the resource has no protobuf form: a custom one, or a version that no Kubernetes release publishes.
    /// Descriptors are loaded only for clients that accept protobuf.
    fn is_custom(&self, request: &RequestHead) -> bool {
        let resource = &self.resource;
        let is_known = || proto::is_known(&resource.api_version(self.version), &resource.kind);
        resource.custom || (request.accepts_protobuf() && !is_known())
    }
}

/// Handles GET of an object or subresource.
///
/// # Errors
/// The engine's error; 406.
pub async fn get(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    target: &ResourcePath,
) -> Result<HttpResponse, Status> {
    let agreed = request.negotiate(place.offer(request, target))?;
    refuse_list_of_one(place, agreed)?;
    let options = request.query.list_options()?;
    wait_for_revision(shared, &options).await;
    let shown = shared.engine.show(target, &options)?;
    show(shared, request, place, agreed, 200, &shown)
}

/// Handles GET of a collection.
///
/// # Errors
/// The engine's error; 406.
pub async fn list(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    target: &ResourcePath,
) -> Result<HttpResponse, Status> {
    let agreed = request.negotiate(place.offer_all(request))?;
    refuse_partial_of_list(place, agreed)?;
    let options = request.query.list_options()?;
    wait_for_revision(shared, &options).await;
    let reply = shared.engine.list(target, &options)?;
    show_list(shared, request, place, agreed, reply)
}

fn refuse_partial_of_list(place: &RequestScope, agreed: NegotiatedMedia) -> Result<(), Status> {
    if !matches!(agreed.shape, Representation::Partial(_)) {
        return Ok(());
    }
    let kind = if place.resource.custom {
        "*unstructured.UnstructuredList".to_owned()
    } else {
        format!("*{}List", place.resource.inner_type())
    };
    let message = format!("you requested PartialObjectMetadata, but the requested object is a list ({kind})");
    Err(Status::new(406, "NotAcceptable", message))
}

fn refuse_list_of_one(place: &RequestScope, agreed: NegotiatedMedia) -> Result<(), Status> {
    if !matches!(agreed.shape, Representation::PartialList(_)) {
        return Ok(());
    }
    let kind = if place.resource.custom {
        "*unstructured.Unstructured".to_owned()
    } else {
        format!("*{}", place.resource.inner_type())
    };
    let message =
        format!("you requested PartialObjectMetadataList, but the requested object is not a list ({kind})");
    Err(Status::new(406, "NotAcceptable", message))
}

/// Renders the engine's reply in the negotiated representation.
///
/// # Errors
/// 400 for an invalid `includeObject`.
pub fn show(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    agreed: NegotiatedMedia,
    code: u16,
    shown: &ReplyObject,
) -> Result<HttpResponse, Status> {
    let style = request.serializer(agreed);
    match shown {
        ReplyObject::Object(object) => {
            let tree = place.resource.present(object, place.version);
            let tree = shaped(shared, request, place, agreed.shape, tree)?;
            Ok(response::tree(code, &tree, style))
        }
        ReplyObject::Objects(objects, revision) => {
            let reply = ListReply {
                objects: objects.clone(),
                revision: *revision,
                continue_token: Text::new(),
                remaining: None,
            };
            show_list(shared, request, place, agreed, reply)
        }
        ReplyObject::Tree(tree) => {
            let tree = match agreed.shape {
                Representation::Table(of) => scale_table(shared, request, tree, of)?,
                Representation::Partial(of) | Representation::PartialList(of) => partial(tree, of),
                Representation::Whole | Representation::Discovery(_) => tree.clone(),
            };
            Ok(response::tree(code, &tree, style))
        }
        ReplyObject::Status(status) => Ok(response::tree(code, &status.to_tree(), style)),
    }
}

fn shaped(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    shape: Representation,
    object: Tree,
) -> Result<Tree, Status> {
    match shape {
        Representation::Table(of) => {
            let resource_version = object.text_at(&["metadata", "resourceVersion"]);
            let meta = ListMeta { resource_version, ..ListMeta::default() };
            table(shared, request, place, &[object], &meta, of)
        }
        Representation::Partial(of) | Representation::PartialList(of) => Ok(partial(&object, of)),
        Representation::Whole | Representation::Discovery(_) => Ok(object),
    }
}

fn table(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    objects: &[Tree],
    meta: &ListMeta,
    of: MetaVersion,
) -> Result<Tree, Status> {
    let include = IncludeObject::parse(request.query.get("includeObject").unwrap_or_default())?;
    let now = shared.clock.now();
    let table = tables::table(&place.resource, place.version, objects, include, now, meta);
    Ok(in_version(&table, include, of))
}

/// Of objects that are not stored, only Scales have columns.
fn scale_table(
    shared: &ServerState,
    request: &RequestHead,
    scale: &Tree,
    of: MetaVersion,
) -> Result<Tree, Status> {
    let include = IncludeObject::parse(request.query.get("includeObject").unwrap_or_default())?;
    Ok(in_version(&tables::scale(scale, include, shared.clock.now()), include, of))
}

/// Converts a Table, and the metadata in its rows, to a version of `meta.k8s.io`.
pub fn in_version(table: &Tree, include: IncludeObject, of: MetaVersion) -> Tree {
    let version = Tree::from(of.api_version());
    let rows = table.items_at(&["rows"]).iter().map(|row| match include {
        IncludeObject::Metadata => row.with(&["object", "apiVersion"], version.clone()),
        IncludeObject::None | IncludeObject::Object => row.clone(),
    });
    let table = if of == MetaVersion::V1 { table.clone() } else { table.with_key("rows", Tree::list(rows)) };
    table.with_key("apiVersion", version)
}

fn show_list(
    shared: &ServerState,
    request: &RequestHead,
    place: &RequestScope,
    agreed: NegotiatedMedia,
    reply: ListReply,
) -> Result<HttpResponse, Status> {
    let meta = ListMeta {
        resource_version: Text::from(reply.revision.to_string()),
        continue_token: reply.continue_token,
        remaining: reply.remaining,
        says_the_end: place.resource.custom && matches!(agreed.shape, Representation::Whole),
    };
    let style = request.serializer(agreed);
    let present = |object: &StoredObject| place.resource.present(object, place.version);
    match agreed.shape {
        Representation::Table(of) => {
            let objects: Vec<Tree> = reply.objects.iter().map(present).collect();
            Ok(response::tree(200, &table(shared, request, place, &objects, &meta, of)?, style))
        }
        Representation::Partial(of) | Representation::PartialList(of) => {
            let items = reply.objects.iter().map(|object| partial(&present(object), of));
            let tree = tables::partial_metadata_list(&[], &meta)
                .with_key("items", Tree::list(items))
                .with_key("apiVersion", of.api_version().into());
            Ok(response::tree(200, &tree, style))
        }
        Representation::Whole | Representation::Discovery(_) => {
            Ok(list_encoder::list(place.clone(), reply.objects, &meta, style))
        }
    }
}

/// Handles a watch: responds at once and streams the events.
///
/// # Errors
/// The engine's error, except 410: an expired resourceVersion is sent as the stream's only event.
pub async fn begin_watch(
    shared: &Arc<ServerState>,
    request: &RequestHead,
    place: &RequestScope,
    target: &ResourcePath,
    carrier: hyper::Request<Incoming>,
) -> Result<HttpResponse, Status> {
    let agreed = request.negotiate(place.offer_all(request))?;
    negotiation::check_stream(agreed)?;
    let include = IncludeObject::parse(request.query.get("includeObject").unwrap_or_default())?;
    let mut options = request.query.list_options()?;
    narrow_to_name(&mut options, target);
    let lasts = watch_timeout(shared, request)?;
    let socket = WatchWebSocket::of(request, carrier)?;
    // Taken before waiting for the revision: waiting requests count, too.
    let permit = shared.limits.acquire(InFlightClass::Watch)?;
    wait_for_revision(shared, &options).await;
    let (lines, receiver) = mpsc::channel(CHUNKS_MAX);
    let watch = match shared.engine.watch(target, &options) {
        Ok(watch) => watch,
        // As in kube-apiserver, an expired resourceVersion is an ERROR event, after which clients list again.
        Err(status) if status.code == 410 => {
            let event = watch::error_event(&status, agreed.encoding);
            lines.try_send(event.into()).expect("the channel is new and has room");
            return Ok(streamed(agreed.encoding, socket, receiver));
        }
        Err(status) => return Err(status),
    };
    let lens = WatchEncoder {
        resource: place.resource.clone(),
        version: place.version,
        shape: agreed.shape,
        encoding: agreed.encoding,
        include,
        clock: shared.clock.clone(),
        lines: shared.lines.clone(),
    };
    let stop = shared.stop.clone();
    let stream = WatchStream { watch, lens, bookmarks: options.allow_bookmarks, lasts, permit, stop };
    tokio::spawn(watch::send(shared.metrics.clone(), stream, lines));
    Ok(streamed(agreed.encoding, socket, receiver))
}

/// The streaming response, or the WebSocket handshake.
fn streamed(
    encoding: Encoding,
    socket: Option<WatchWebSocket>,
    events: mpsc::Receiver<Bytes>,
) -> HttpResponse {
    let media_type = match encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Encoding::Json | Encoding::Yaml => "application/json",
    };
    match socket {
        Some(socket) => socket.open(encoding, events),
        None => response::chunked(200, media_type, events),
    }
}

/// A watch of one object is a watch of its collection with a field selector on `metadata.name`.
fn narrow_to_name(options: &mut ListOptions, target: &ResourcePath) {
    if !target.name.is_empty() && options.field_selector.is_empty() {
        options.field_selector = Text::from(format!("metadata.name={}", target.name));
    }
}

fn watch_timeout(shared: &ServerState, request: &RequestHead) -> Result<Duration, Status> {
    let asked = request.query.timeout_seconds()?;
    let lasts = asked.unwrap_or_else(|| shared.random_duration(WATCH_LASTS.0, WATCH_LASTS.1));
    Ok(request.query.timeout()?.map_or(lasts, |bound| bound.min(lasts)))
}

/// Waits briefly for a future resourceVersion; the engine answers 504 if it is not reached.
async fn wait_for_revision(shared: &ServerState, options: &ListOptions) {
    let Ok(wanted) = options.resource_version.parse::<u64>() else {
        return;
    };
    let reached = async {
        loop {
            let news = shared.engine.listen();
            if shared.engine.revision() >= wanted {
                return;
            }
            news.await;
        }
    };
    let _ = timeout(FUTURE_WAIT_MAX, reached).await;
}
