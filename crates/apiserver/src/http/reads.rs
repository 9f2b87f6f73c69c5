//! Reading objects: get, list, and the beginning of a watch.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Incoming;
use muster_schema::object::Object;
use muster_schema::proto;
use muster_tree::{Text, Tree};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::accept::{self, Answer, Encoding, MetaVersion, Offer, Shape};
use super::answer::{self, Reply};
use super::context::{Request, Shared};
use super::limits::Load;
use super::pieces;
use super::watch::{self, Lens, PIECES_MAX, Stream, partial};
use super::watch_socket::Socket;
use crate::registry::Resource;
use crate::request::{ListOptions, ListReply, Shown, Target};
use crate::status::Status;
use crate::tables::{self, Include, ListMeta};

/// The subresource of replicas.
const SCALE: &str = "scale";
/// How long a read waits for a revision that lies in the future.
const FUTURE_WAIT_MAX: Duration = Duration::from_secs(3);
/// The shortest and the longest watch when the client does not say.
const WATCH_LASTS: (Duration, Duration) = (Duration::from_secs(1_800), Duration::from_secs(3_600));

/// A resource in the version it was asked for.
#[derive(Clone)]
pub struct Place {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Place of the version.
    pub version: usize,
}

impl Place {
    /// What answers about one object, or about a part of it, can be.
    #[must_use]
    pub fn offer(&self, request: &Request, target: &Target) -> Offer {
        let is_stored = self.resource.versions[self.version].verbs.iter().any(|verb| verb != "create");
        match target.subresource.as_str() {
            "" | "status" | SCALE if is_stored && self.is_custom(request) => Offer::Custom,
            "" | "status" | SCALE if is_stored => Offer::Objects,
            _ => Offer::Answered,
        }
    }

    /// What answers about a collection can be.
    fn offer_all(&self, request: &Request) -> Offer {
        if self.is_custom(request) { Offer::Custom } else { Offer::Collection }
    }

    /// Whether the resource has no protobuf form: a custom one, or a version that no Kubernetes release publishes. The
    /// descriptors are loaded for clients that accept protobuf, and for no others.
    fn is_custom(&self, request: &Request) -> bool {
        let resource = &self.resource;
        let is_known = || proto::is_known(&resource.api_version(self.version), &resource.kind);
        resource.custom || (request.accepts_protobuf() && !is_known())
    }
}

/// Answers the GET of one object or of a part of it.
///
/// # Errors
/// What the engine refuses; 406.
pub async fn get(
    shared: &Shared,
    request: &Request,
    place: &Place,
    target: &Target,
) -> Result<Reply, Status> {
    let agreed = request.negotiate(place.offer(request, target))?;
    refuse_list_of_one(place, agreed)?;
    let options = request.query.list_options()?;
    until_reached(shared, &options).await;
    let shown = shared.engine.show(target, &options)?;
    show(shared, request, place, agreed, 200, &shown)
}

/// Answers the GET of a collection.
///
/// # Errors
/// What the engine refuses; 406.
pub async fn list(
    shared: &Shared,
    request: &Request,
    place: &Place,
    target: &Target,
) -> Result<Reply, Status> {
    let agreed = request.negotiate(place.offer_all(request))?;
    refuse_partial_of_list(place, agreed)?;
    let options = request.query.list_options()?;
    until_reached(shared, &options).await;
    let reply = shared.engine.list(target, &options)?;
    show_list(shared, request, place, agreed, reply)
}

fn refuse_partial_of_list(place: &Place, agreed: Answer) -> Result<(), Status> {
    if !matches!(agreed.shape, Shape::Partial(_)) {
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

fn refuse_list_of_one(place: &Place, agreed: Answer) -> Result<(), Status> {
    if !matches!(agreed.shape, Shape::PartialList(_)) {
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

/// Shows what an answer of the engine shows.
///
/// # Errors
/// 400 for a wrong `includeObject`.
pub fn show(
    shared: &Shared,
    request: &Request,
    place: &Place,
    agreed: Answer,
    code: u16,
    shown: &Shown,
) -> Result<Reply, Status> {
    let style = request.style(agreed);
    match shown {
        Shown::Object(object) => {
            let tree = place.resource.present(object, place.version);
            let tree = shaped(shared, request, place, agreed.shape, tree)?;
            Ok(answer::tree(code, &tree, style))
        }
        Shown::Objects(objects, revision) => {
            let reply = ListReply {
                objects: objects.clone(),
                revision: *revision,
                continue_token: Text::new(),
                remaining: None,
            };
            show_list(shared, request, place, agreed, reply)
        }
        Shown::Tree(tree) => {
            let tree = match agreed.shape {
                Shape::Table(of) => scale_table(shared, request, tree, of)?,
                Shape::Partial(of) | Shape::PartialList(of) => partial(tree, of),
                Shape::Whole | Shape::Discovery(_) => tree.clone(),
            };
            Ok(answer::tree(code, &tree, style))
        }
        Shown::Status(status) => Ok(answer::tree(code, &status.to_tree(), style)),
    }
}

fn shaped(
    shared: &Shared,
    request: &Request,
    place: &Place,
    shape: Shape,
    object: Tree,
) -> Result<Tree, Status> {
    match shape {
        Shape::Table(of) => {
            let resource_version = object.text_at(&["metadata", "resourceVersion"]);
            let meta = ListMeta { resource_version, ..ListMeta::default() };
            table(shared, request, place, &[object], &meta, of)
        }
        Shape::Partial(of) | Shape::PartialList(of) => Ok(partial(&object, of)),
        Shape::Whole | Shape::Discovery(_) => Ok(object),
    }
}

fn table(
    shared: &Shared,
    request: &Request,
    place: &Place,
    objects: &[Tree],
    meta: &ListMeta,
    of: MetaVersion,
) -> Result<Tree, Status> {
    let include = Include::parse(request.query.get("includeObject").unwrap_or_default())?;
    let now = shared.clock.now();
    let table = tables::table(&place.resource, place.version, objects, include, now, meta);
    Ok(in_version(&table, include, of))
}

/// Of what is made on the way out, Scales alone have columns.
fn scale_table(shared: &Shared, request: &Request, scale: &Tree, of: MetaVersion) -> Result<Tree, Status> {
    let include = Include::parse(request.query.get("includeObject").unwrap_or_default())?;
    Ok(in_version(&tables::scale(scale, include, shared.clock.now()), include, of))
}

/// A table in a version of its group, the metadata in its rows with it.
pub fn in_version(table: &Tree, include: Include, of: MetaVersion) -> Tree {
    let version = Tree::from(of.api_version());
    let rows = table.items_at(&["rows"]).iter().map(|row| match include {
        Include::Metadata => row.with(&["object", "apiVersion"], version.clone()),
        Include::None | Include::Object => row.clone(),
    });
    let table = if of == MetaVersion::V1 { table.clone() } else { table.with_key("rows", Tree::list(rows)) };
    table.with_key("apiVersion", version)
}

fn show_list(
    shared: &Shared,
    request: &Request,
    place: &Place,
    agreed: Answer,
    reply: ListReply,
) -> Result<Reply, Status> {
    let meta = ListMeta {
        resource_version: Text::from(reply.revision.to_string()),
        continue_token: reply.continue_token,
        remaining: reply.remaining,
        says_the_end: place.resource.custom && matches!(agreed.shape, Shape::Whole),
    };
    let style = request.style(agreed);
    let present = |object: &Object| place.resource.present(object, place.version);
    match agreed.shape {
        Shape::Table(of) => {
            let objects: Vec<Tree> = reply.objects.iter().map(present).collect();
            Ok(answer::tree(200, &table(shared, request, place, &objects, &meta, of)?, style))
        }
        Shape::Partial(of) | Shape::PartialList(of) => {
            let items = reply.objects.iter().map(|object| partial(&present(object), of));
            let tree = tables::partial_metadata_list(&[], &meta)
                .with_key("items", Tree::list(items))
                .with_key("apiVersion", of.api_version().into());
            Ok(answer::tree(200, &tree, style))
        }
        Shape::Whole | Shape::Discovery(_) => Ok(pieces::list(place.clone(), reply.objects, &meta, style)),
    }
}

/// Begins a watch: the answer is there at once, its lines follow.
///
/// # Errors
/// What the engine refuses, except for a start that is too old: that is the stream's first and last event.
pub async fn begin_watch(
    shared: &Arc<Shared>,
    request: &Request,
    place: &Place,
    target: &Target,
    carrier: hyper::Request<Incoming>,
) -> Result<Reply, Status> {
    let agreed = request.negotiate(place.offer_all(request))?;
    accept::check_stream(agreed)?;
    let include = Include::parse(request.query.get("includeObject").unwrap_or_default())?;
    let mut options = request.query.list_options()?;
    narrow_to_name(&mut options, target);
    let lasts = lasts(shared, request)?;
    let socket = Socket::of(request, carrier)?;
    let permit = shared.limits.enter(Load::Watch)?;
    until_reached(shared, &options).await;
    let (lines, receiver) = mpsc::channel(PIECES_MAX);
    let watch = match shared.engine.watch(target, &options) {
        Ok(watch) => watch,
        Err(status) if status.code == 410 => {
            let event = watch::error_event(&status, agreed.encoding);
            lines.try_send(event.into()).expect("the channel is new and has room");
            return Ok(streamed(agreed.encoding, socket, receiver));
        }
        Err(status) => return Err(status),
    };
    let lens = Lens {
        resource: place.resource.clone(),
        version: place.version,
        shape: agreed.shape,
        encoding: agreed.encoding,
        include,
        clock: shared.clock.clone(),
        lines: shared.lines.clone(),
    };
    let stop = shared.stop.clone();
    let stream = Stream { watch, lens, bookmarks: options.allow_bookmarks, lasts, permit, stop };
    tokio::spawn(watch::send(shared.metrics.clone(), stream, lines));
    Ok(streamed(agreed.encoding, socket, receiver))
}

/// The answer whose body the events are, or the one that turns the connection into a WebSocket for them.
fn streamed(encoding: Encoding, socket: Option<Socket>, events: mpsc::Receiver<Bytes>) -> Reply {
    let media_type = match encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Encoding::Json | Encoding::Yaml => "application/json",
    };
    match socket {
        Some(socket) => socket.open(encoding, events),
        None => answer::pieces(200, media_type, events),
    }
}

/// The watch of one object is the watch of its collection with its name as a field selector.
fn narrow_to_name(options: &mut ListOptions, target: &Target) {
    if !target.name.is_empty() && options.field_selector.is_empty() {
        options.field_selector = Text::from(format!("metadata.name={}", target.name));
    }
}

fn lasts(shared: &Shared, request: &Request) -> Result<Duration, Status> {
    let asked = request.query.timeout_seconds()?;
    let lasts = asked.unwrap_or_else(|| shared.between(WATCH_LASTS.0, WATCH_LASTS.1));
    Ok(request.query.timeout()?.map_or(lasts, |bound| bound.min(lasts)))
}

/// Gives a revision in the future a little time to come; the engine refuses it if it did not.
async fn until_reached(shared: &Shared, options: &ListOptions) {
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
