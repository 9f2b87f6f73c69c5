//! Watch streams: one JSON document per line, or length-prefixed protobuf events, each sent as soon as it is
//! published.
//!
//! # Invariants
//!
//! - A stream is a cursor, not a queue: a slow watcher delays nothing, and gets 410 when history has been compacted
//!   past it.
//! - Bookmarks are sent only to clients that asked for them.
//! - A stream ends at its timeout, with a last bookmark shortly before.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_api::environment::Clock;
use muster_schema::{proto, table, zero};
use muster_tree::{Text, Tree, tree};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};

use super::metrics::ApiServerMetrics;
use super::negotiation::{Encoding, MetaVersion, Representation};
use super::read_handlers::in_version;
use super::response::no_protobuf;
use super::serialization_cache::SerializationCache;
use super::shutdown::StopSignal;
use crate::engine::ResourceWatch;
use crate::registry::Resource;
use crate::request::{EventType, WatchEvent};
use crate::status::Status;
use crate::tables::{self, IncludeObject, ListMeta};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a stream sends the last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Maximum number of events that one read takes from history.
const EVENTS_AT_ONCE: usize = 256;
/// A chunk is sent when it reaches this size, or when no event is left.
const CHUNK_BYTES: usize = 64 << 10;
/// Chunks that are buffered between encoder and socket.
pub const CHUNKS_MAX: usize = 4;

/// Encodes the events of one stream.
pub struct WatchEncoder {
    pub resource: Arc<Resource>,
    pub version: usize,
    pub shape: Representation,
    pub encoding: Encoding,
    /// `includeObject` of Table rows.
    pub include: IncludeObject,
    /// For ages in Tables.
    pub clock: Arc<dyn Clock>,
    /// Events that were serialized for other watchers.
    pub lines: Arc<SerializationCache>,
}

pub struct WatchStream {
    pub watch: ResourceWatch,
    pub lens: WatchEncoder,
    pub bookmarks: bool,
    pub lasts: Duration,
    pub permit: OwnedSemaphorePermit,
    pub stop: StopSignal,
}

/// Sends events until the stream ends or the client disconnects.
pub async fn send(metrics: ApiServerMetrics, mut stream: WatchStream, chunks: mpsc::Sender<Bytes>) {
    // The permit is held until the task ends, not only until the response head was sent.
    metrics.watches.inc();
    stream.run(&chunks).await;
    metrics.watches.dec();
    drop(stream.permit);
}

impl WatchStream {
    async fn run(&mut self, chunks: &mpsc::Sender<Bytes>) {
        let begin = Instant::now();
        // The timeout runs from the start of the stream, not from the last event.
        let end = begin + self.lasts;
        let mut columns_sent = false;
        let mut bookmark_at = self.first_bookmark(begin, end);
        loop {
            // Register the listener before reading: an event published in between must wake the task.
            let news = self.watch.listen();
            match self.next_chunk(&mut columns_sent) {
                Ok(chunk) if !chunk.is_empty() => {
                    if chunks.send(chunk.into()).await.is_err() {
                        return;
                    }
                    continue;
                }
                Ok(_) => {}
                Err(status) => {
                    let _ = chunks.send(error_event(&status, self.lens.encoding).into()).await;
                    return;
                }
            }
            tokio::select! {
                () = news => {}
                () = chunks.closed() => return,
                () = self.stop.stopped() => return,
                () = sleep_until(end) => return,
                () = sleep_until(bookmark_at.unwrap_or(end)), if bookmark_at.is_some() => {
                    // Read first: it advances the bookmark past revisions of other resources.
                    let Ok(mut chunk) = self.next_chunk(&mut columns_sent) else { continue };
                    chunk.extend(self.bookmark_chunk());
                    if chunks.send(chunk.into()).await.is_err() {
                        return;
                    }
                    bookmark_at = next_bookmark(Instant::now(), end);
                }
            }
        }
    }

    /// Encodes pending events, up to about [`CHUNK_BYTES`]; empty when there are none.
    fn next_chunk(&mut self, columns_sent: &mut bool) -> Result<Vec<u8>, Status> {
        let mut out = Vec::new();
        while out.len() < CHUNK_BYTES {
            let events = self.watch.next(EVENTS_AT_ONCE)?;
            if events.is_empty() {
                break;
            }
            for event in &events {
                self.lens.write(event, columns_sent, &mut out);
            }
        }
        Ok(out)
    }

    fn bookmark_chunk(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.lens.write(&self.watch.bookmark(), &mut true, &mut out);
        out
    }

    fn first_bookmark(&self, begin: Instant, end: Instant) -> Option<Instant> {
        if self.bookmarks { next_bookmark(begin, end) } else { None }
    }
}

fn next_bookmark(now: Instant, end: Instant) -> Option<Instant> {
    let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now)?;
    Some(last.min(now + BOOKMARK_EVERY))
}

/// The ERROR event that ends a stream.
#[must_use]
pub fn error_event(status: &Status, encoding: Encoding) -> Vec<u8> {
    event("ERROR", &status.to_tree(), encoding)
}

fn event(kind: &str, object: &Tree, encoding: Encoding) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    write_event(kind, object, encoding, &mut out);
    out
}

fn write_event(kind: &str, object: &Tree, encoding: Encoding, out: &mut Vec<u8>) {
    if encoding != Encoding::Protobuf {
        return write_line(kind, object, out);
    }
    let encoded = proto::encode_event(kind, object).or_else(|why| {
        // The stream's encoding is settled: an object without a protobuf form is sent as an ERROR event.
        proto::encode_event("ERROR", &no_protobuf(&why).to_tree())
    });
    let encoded = encoded.expect("a Status has a form in protobuf");
    let length = u32::try_from(encoded.len()).expect("objects are bounded by the size of bodies");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&encoded);
}

fn write_line(kind: &str, object: &Tree, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    object.write_json(out);
    out.extend_from_slice(b"}\n");
}

impl WatchEncoder {
    fn write(&self, changed: &WatchEvent, columns_sent: &mut bool, out: &mut Vec<u8>) {
        let kind = match changed.kind {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark | EventType::InitialEventsEnd => "BOOKMARK",
        };
        if kind == "BOOKMARK" || !matches!(self.shape, Representation::Whole) {
            return write_event(kind, &self.shown(changed, columns_sent), self.encoding, out);
        }
        let key = (changed.object.revision, self.version, kind, self.encoding);
        let encode = || event(kind, &self.resource.present(&changed.object, self.version), self.encoding);
        out.extend_from_slice(&self.lines.get(key, &self.resource, encode));
    }

    fn shown(&self, event: &WatchEvent, columns_sent: &mut bool) -> Tree {
        if matches!(event.kind, EventType::Bookmark | EventType::InitialEventsEnd) {
            return self.bookmark(event);
        }
        let object = self.resource.present(&event.object, self.version);
        match self.shape {
            Representation::Table(of) => {
                let meta = ListMeta { resource_version: revision_text(event), ..ListMeta::default() };
                let table = self.table(std::slice::from_ref(&object), &meta, of);
                // Only the first event carries column definitions; clients keep them.
                if std::mem::replace(columns_sent, true) {
                    table.with_key("columnDefinitions", Tree::Null)
                } else {
                    table
                }
            }
            Representation::Partial(of) | Representation::PartialList(of) => partial(&object, of),
            _ => object,
        }
    }

    fn table(&self, objects: &[Tree], meta: &ListMeta, of: MetaVersion) -> Tree {
        let now = self.clock.now();
        let table = tables::table(&self.resource, self.version, objects, self.include, now, meta);
        in_version(&table, self.include, of)
    }

    /// The object of a bookmark has only a resourceVersion.
    fn bookmark(&self, event: &WatchEvent) -> Tree {
        let mut meta = tree!({"resourceVersion": revision_text(event)});
        if event.kind == EventType::InitialEventsEnd {
            meta = meta.with_key("annotations", tree!({"k8s.io/initial-events-end": "true"}));
        }
        let (api_version, kind) = match self.shape {
            Representation::Table(of) => {
                let object = partial(&tree!({"metadata": meta.clone()}), MetaVersion::V1);
                let rows = tree!([{"cells": [], "object": object}]);
                let meta = tree!({"resourceVersion": revision_text(event)});
                return tree!({
                    "apiVersion": of.api_version(), "kind": "Table", "metadata": meta,
                    "columnDefinitions": null, "rows": rows,
                });
            }
            Representation::Partial(of) | Representation::PartialList(of) => {
                (Text::from(of.api_version()), Text::from("PartialObjectMetadata"))
            }
            _ => (self.resource.api_version(self.version), self.resource.kind.clone()),
        };
        let bookmark = tree!({"apiVersion": api_version, "kind": kind, "metadata": meta});
        // Built-in kinds include zero values, as everywhere: they come from Go structs.
        if self.resource.custom || !matches!(self.shape, Representation::Whole) {
            return bookmark;
        }
        let schema = self.resource.versions[self.version].schema.id;
        zero::written(table::builtin(), schema, &bookmark)
    }
}

fn revision_text(event: &WatchEvent) -> Text {
    Text::from(event.object.revision.to_string())
}

/// `PartialObjectMetadata` of an object.
#[must_use]
pub fn partial(object: &Tree, of: MetaVersion) -> Tree {
    tables::partial_metadata(object).with_key("apiVersion", of.api_version().into())
}
