//! Watch streams: one JSON document per line, or one protobuf event after its length, each sent as soon as it is known.
//!
//! # Invariants
//!
//! - A stream is a cursor, not a queue: a slow reader holds back nobody and in the end is told 410.
//! - Bookmarks are sent only to those who asked.
//! - A stream ends by its own clock, with a last bookmark shortly before.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use muster_api::ports::Clock;
use muster_schema::{proto, table, zero};
use muster_tree::{Text, Tree, tree};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until};

use super::accept::{Encoding, MetaVersion, Shape};
use super::answer::no_protobuf;
use super::lines::Lines;
use super::metrics::Metrics;
use super::reads::in_version;
use super::stop::Stop;
use crate::engine::Watch;
use crate::registry::Resource;
use crate::request::{EventType, WatchEvent};
use crate::status::Status;
use crate::tables::{self, Include, ListMeta};

/// How often those who asked get a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long before its end a stream sends a last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// How many events are taken from the history at once.
const EVENTS_AT_ONCE: usize = 256;
/// A piece is sent when it has grown to this size, or when nothing more is known.
const PIECE_BYTES: usize = 64 << 10;
/// Pieces on their way to the socket.
pub const PIECES_MAX: usize = 4;

/// How the objects of a stream are shown.
pub struct Lens {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Place of the version.
    pub version: usize,
    /// Their shape.
    pub shape: Shape,
    /// Their encoding.
    pub encoding: Encoding,
    /// What rows of tables carry.
    pub include: Include,
    /// For ages in tables.
    pub clock: Arc<dyn Clock>,
    /// Lines that others may have sent before.
    pub lines: Arc<Lines>,
}

/// A stream that is about to begin.
pub struct Stream {
    /// Where events come from.
    pub watch: Watch,
    /// How they look.
    pub lens: Lens,
    /// Whether bookmarks were asked for.
    pub bookmarks: bool,
    /// How long it lasts.
    pub lasts: Duration,
    /// Its place among the watches.
    pub permit: OwnedSemaphorePermit,
    /// Tells when the server stops.
    pub stop: Stop,
}

/// Sends a stream until it ends, or nobody reads any more.
pub async fn send(metrics: Metrics, mut stream: Stream, pieces: mpsc::Sender<Bytes>) {
    metrics.watches.inc();
    stream.run(&pieces).await;
    metrics.watches.dec();
    drop(stream.permit);
}

impl Stream {
    async fn run(&mut self, pieces: &mpsc::Sender<Bytes>) {
        let begin = Instant::now();
        let end = begin + self.lasts;
        let mut columns_sent = false;
        let mut mark_at = self.first_mark(begin, end);
        loop {
            // Listening begins before looking: what is published in between wakes us.
            let news = self.watch.listen();
            match self.batch(&mut columns_sent) {
                Ok(piece) if !piece.is_empty() => {
                    if pieces.send(piece.into()).await.is_err() {
                        return;
                    }
                    continue;
                }
                Ok(_) => {}
                Err(status) => {
                    let _ = pieces.send(error_event(&status, self.lens.encoding).into()).await;
                    return;
                }
            }
            tokio::select! {
                () = news => {}
                () = pieces.closed() => return,
                () = self.stop.stopped() => return,
                () = sleep_until(end) => return,
                () = sleep_until(mark_at.unwrap_or(end)), if mark_at.is_some() => {
                    // Looking first takes the bookmark past what happened to other resources.
                    let Ok(mut piece) = self.batch(&mut columns_sent) else { continue };
                    piece.extend(self.mark());
                    if pieces.send(piece.into()).await.is_err() {
                        return;
                    }
                    mark_at = next_mark(Instant::now(), end);
                }
            }
        }
    }

    /// Lines of what has happened, up to about [`PIECE_BYTES`]; empty when nothing has.
    fn batch(&mut self, columns_sent: &mut bool) -> Result<Vec<u8>, Status> {
        let mut out = Vec::new();
        while out.len() < PIECE_BYTES {
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

    fn mark(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.lens.write(&self.watch.bookmark(), &mut true, &mut out);
        out
    }

    fn first_mark(&self, begin: Instant, end: Instant) -> Option<Instant> {
        if self.bookmarks { next_mark(begin, end) } else { None }
    }
}

fn next_mark(now: Instant, end: Instant) -> Option<Instant> {
    let last = end.checked_sub(BOOKMARK_BEFORE_END).filter(|last| *last > now)?;
    Some(last.min(now + BOOKMARK_EVERY))
}

/// The event of a stream that failed: its last one.
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
        // The objects of a stream were agreed on in this encoding: one that has no form in it ends up as an error.
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

impl Lens {
    fn write(&self, changed: &WatchEvent, columns_sent: &mut bool, out: &mut Vec<u8>) {
        let kind = match changed.kind {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
            EventType::Bookmark | EventType::InitialEventsEnd => "BOOKMARK",
        };
        if kind == "BOOKMARK" || !matches!(self.shape, Shape::Whole) {
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
            Shape::Table(of) => {
                let meta = ListMeta { resource_version: revision_text(event), ..ListMeta::default() };
                let table = self.table(std::slice::from_ref(&object), &meta, of);
                // The columns do not change during a stream: clients keep those of the first event.
                if std::mem::replace(columns_sent, true) {
                    table.with_key("columnDefinitions", Tree::Null)
                } else {
                    table
                }
            }
            Shape::Partial(of) | Shape::PartialList(of) => partial(&object, of),
            _ => object,
        }
    }

    fn table(&self, objects: &[Tree], meta: &ListMeta, of: MetaVersion) -> Tree {
        let now = self.clock.now();
        let table = tables::table(&self.resource, self.version, objects, self.include, now, meta);
        in_version(&table, self.include, of)
    }

    /// A bookmark carries the revision and nothing of any object.
    fn bookmark(&self, event: &WatchEvent) -> Tree {
        let mut meta = tree!({"resourceVersion": revision_text(event)});
        if event.kind == EventType::InitialEventsEnd {
            meta = meta.with_key("annotations", tree!({"k8s.io/initial-events-end": "true"}));
        }
        let (api_version, kind) = match self.shape {
            Shape::Table(of) => {
                let object = partial(&tree!({"metadata": meta.clone()}), MetaVersion::V1);
                let rows = tree!([{"cells": [], "object": object}]);
                let meta = tree!({"resourceVersion": revision_text(event)});
                return tree!({
                    "apiVersion": of.api_version(), "kind": "Table", "metadata": meta,
                    "columnDefinitions": null, "rows": rows,
                });
            }
            Shape::Partial(of) | Shape::PartialList(of) => {
                (Text::from(of.api_version()), Text::from("PartialObjectMetadata"))
            }
            _ => (self.resource.api_version(self.version), self.resource.kind.clone()),
        };
        let bookmark = tree!({"apiVersion": api_version, "kind": kind, "metadata": meta});
        // Built-in kinds show their empty parts here as everywhere.
        if self.resource.custom || !matches!(self.shape, Shape::Whole) {
            return bookmark;
        }
        let schema = self.resource.versions[self.version].schema.id;
        zero::written(table::builtin(), schema, &bookmark)
    }
}

fn revision_text(event: &WatchEvent) -> Text {
    Text::from(event.object.revision.to_string())
}

/// The metadata of an object in wire form.
#[must_use]
pub fn partial(object: &Tree, of: MetaVersion) -> Tree {
    tables::partial_metadata(object).with_key("apiVersion", of.api_version().into())
}
