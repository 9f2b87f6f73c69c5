//! Long lists on their way out, piece by piece: no tree and no text of a whole list is ever built.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_schema::object::Object;
use muster_tree::{Tree, tree};
use tokio::sync::mpsc;

use super::accept::Encoding;
use super::answer::{self, GZIP_BYTES_MIN, Reply, Style};
use super::reads::Place;
use super::watch::PIECES_MAX;
use crate::tables::ListMeta;

/// Pieces are about this long.
const PIECE_BYTES: usize = 64 << 10;

/// An answer that lists these objects.
#[must_use]
pub fn list(place: Place, objects: Vec<Object>, meta: &ListMeta, style: Style) -> Reply {
    if style.encoding != Encoding::Json || style.pretty {
        return answer::tree(200, &whole(&place, &objects, meta), style);
    }
    let mut encoder = Encoder::new(place, objects, meta);
    let mut first = Vec::new();
    while first.len() <= GZIP_BYTES_MIN {
        let Some(piece) = encoder.next_piece() else {
            return answer::bytes(200, style.media_type(), first, false);
        };
        first.extend_from_slice(&piece);
    }
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    let mut reply = answer::pieces(200, style.media_type(), receiver);
    if style.gzip {
        answer::mark_compressed(&mut reply);
        tokio::spawn(send_compressed(first, encoder, sender));
    } else {
        tokio::spawn(send(first, encoder, sender));
    }
    reply
}

/// The whole list as a tree, for answers that are not sent piece by piece.
pub(super) fn whole(place: &Place, objects: &[Object], meta: &ListMeta) -> Tree {
    tree!({
        "apiVersion": place.resource.api_version(place.version),
        "kind": &place.resource.list_kind,
        "metadata": meta.to_tree(),
        "items": Tree::list(objects.iter().map(|object| item(place, object))),
    })
}

/// Items of built-in lists do not repeat what the list says.
fn item(place: &Place, object: &Object) -> Tree {
    let tree = place.resource.present(object, place.version);
    if place.resource.custom { tree } else { tree.without_key("apiVersion").without_key("kind") }
}

async fn send(first: Vec<u8>, mut encoder: Encoder, sender: mpsc::Sender<Bytes>) {
    let mut next = Some(first);
    while let Some(piece) = next {
        if sender.send(piece.into()).await.is_err() {
            return;
        }
        next = encoder.next_piece();
    }
}

async fn send_compressed(first: Vec<u8>, mut encoder: Encoder, sender: mpsc::Sender<Bytes>) {
    let mut gzip = GzEncoder::new(Vec::with_capacity(PIECE_BYTES), Compression::fast());
    let mut next = Some(first);
    while let Some(piece) = next {
        gzip.write_all(&piece).expect("writing to memory cannot fail");
        let ready = std::mem::take(gzip.get_mut());
        if !ready.is_empty() && sender.send(ready.into()).await.is_err() {
            return;
        }
        next = encoder.next_piece();
    }
    let rest = gzip.finish().expect("writing to memory cannot fail");
    let _ = sender.send(rest.into()).await;
}

/// Writes a list in the order of its keys.
struct Encoder {
    place: Place,
    objects: std::vec::IntoIter<Object>,
    head: Option<Vec<u8>>,
    tail: Option<Vec<u8>>,
    begun: bool,
}

impl Encoder {
    fn new(place: Place, objects: Vec<Object>, meta: &ListMeta) -> Self {
        let api_version = Tree::from(place.resource.api_version(place.version)).to_json();
        let kind = Tree::from(&place.resource.list_kind).to_json();
        let head = format!("{{\"apiVersion\":{api_version},\"items\":[").into_bytes();
        let tail = format!("],\"kind\":{kind},\"metadata\":{}}}\n", meta.to_tree().to_json()).into_bytes();
        Self { place, objects: objects.into_iter(), head: Some(head), tail: Some(tail), begun: false }
    }

    fn next_piece(&mut self) -> Option<Vec<u8>> {
        let mut out = self.head.take().unwrap_or_default();
        while out.len() < PIECE_BYTES {
            let Some(object) = self.objects.next() else {
                match self.tail.take() {
                    Some(tail) => out.extend_from_slice(&tail),
                    None if out.is_empty() => return None,
                    None => {}
                }
                break;
            };
            if std::mem::replace(&mut self.begun, true) {
                out.push(b',');
            }
            item(&self.place, &object).write_json(&mut out);
        }
        Some(out)
    }
}
