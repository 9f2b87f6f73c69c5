//! Encodes long lists in chunks, so that neither a tree nor a buffer of the whole list is built (kube-apiserver's
//! streaming collection encoding).

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_schema::object::StoredObject;
use muster_tree::{Tree, tree};
use tokio::sync::mpsc;

use super::negotiation::Encoding;
use super::read_handlers::RequestScope;
use super::response::{self, GZIP_BYTES_MIN, HttpResponse, SerializerOptions};
use super::watch::CHUNKS_MAX;
use crate::tables::ListMeta;

/// Target size of a chunk.
const CHUNK_BYTES: usize = 64 << 10;

/// The response for a list. Only compact JSON is streamed.
#[must_use]
pub fn list(
    place: RequestScope,
    objects: Vec<StoredObject>,
    meta: &ListMeta,
    style: SerializerOptions,
) -> HttpResponse {
    if style.encoding != Encoding::Json || style.pretty {
        return response::tree(200, &whole(&place, &objects, meta), style);
    }
    let mut encoder = Encoder::new(place, objects, meta);
    let mut first = Vec::new();
    // Buffer up to the gzip threshold first: a short list is sent with `Content-Length` and uncompressed.
    while first.len() <= GZIP_BYTES_MIN {
        let Some(chunk) = encoder.next_chunk() else {
            return response::bytes(200, style.media_type(), first, false);
        };
        first.extend_from_slice(&chunk);
    }
    let (sender, receiver) = mpsc::channel(CHUNKS_MAX);
    let mut reply = response::chunked(200, style.media_type(), receiver);
    if style.gzip {
        response::mark_compressed(&mut reply);
        tokio::spawn(send_compressed(first, encoder, sender));
    } else {
        tokio::spawn(send(first, encoder, sender));
    }
    reply
}

/// The list as one tree, for encodings that are not streamed.
pub(super) fn whole(place: &RequestScope, objects: &[StoredObject], meta: &ListMeta) -> Tree {
    tree!({
        "apiVersion": place.resource.api_version(place.version),
        "kind": &place.resource.list_kind,
        "metadata": meta.to_tree(),
        "items": Tree::list(objects.iter().map(|object| item(place, object))),
    })
}

/// Items of built-in lists leave out `apiVersion` and `kind`, as in Go's typed lists; items of custom resources have
/// both.
fn item(place: &RequestScope, object: &StoredObject) -> Tree {
    let tree = place.resource.present(object, place.version);
    if place.resource.custom { tree } else { tree.without_key("apiVersion").without_key("kind") }
}

async fn send(first: Vec<u8>, mut encoder: Encoder, sender: mpsc::Sender<Bytes>) {
    let mut next = Some(first);
    while let Some(chunk) = next {
        if sender.send(chunk.into()).await.is_err() {
            return;
        }
        next = encoder.next_chunk();
    }
}

async fn send_compressed(first: Vec<u8>, mut encoder: Encoder, sender: mpsc::Sender<Bytes>) {
    // Fast compression: CPU time on the request path matters more than ratio.
    let mut gzip = GzEncoder::new(Vec::with_capacity(CHUNK_BYTES), Compression::fast());
    let mut next = Some(first);
    while let Some(chunk) = next {
        gzip.write_all(&chunk).expect("writing to memory cannot fail");
        let ready = std::mem::take(gzip.get_mut());
        if !ready.is_empty() && sender.send(ready.into()).await.is_err() {
            return;
        }
        next = encoder.next_chunk();
    }
    let rest = gzip.finish().expect("writing to memory cannot fail");
    let _ = sender.send(rest.into()).await;
}

/// Encodes a list chunk by chunk, keys in canonical order.
struct Encoder {
    place: RequestScope,
    objects: std::vec::IntoIter<StoredObject>,
    head: Option<Vec<u8>>,
    tail: Option<Vec<u8>>,
    started: bool,
}

impl Encoder {
    fn new(place: RequestScope, objects: Vec<StoredObject>, meta: &ListMeta) -> Self {
        let api_version = Tree::from(place.resource.api_version(place.version)).to_json();
        let kind = Tree::from(&place.resource.list_kind).to_json();
        let head = format!("{{\"apiVersion\":{api_version},\"items\":[").into_bytes();
        let tail = format!("],\"kind\":{kind},\"metadata\":{}}}\n", meta.to_tree().to_json()).into_bytes();
        Self { place, objects: objects.into_iter(), head: Some(head), tail: Some(tail), started: false }
    }

    fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let mut out = self.head.take().unwrap_or_default();
        while out.len() < CHUNK_BYTES {
            let Some(object) = self.objects.next() else {
                match self.tail.take() {
                    Some(tail) => out.extend_from_slice(&tail),
                    None if out.is_empty() => return None,
                    None => {}
                }
                break;
            };
            if std::mem::replace(&mut self.started, true) {
                out.push(b',');
            }
            item(&self.place, &object).write_json(&mut out);
        }
        Some(out)
    }
}
