//! Protobuf bodies of built-in kinds: decoding of requests and encoding of responses.
//!
//! Go clients send protobuf and do not fall back to JSON. Decoder and encoder use the published descriptors and facts
//! about Go's types: field names, inlined structs, and which fields are pointers. A non-pointer field is always on the
//! wire, with its zero value if unset, so the decoder drops zero values; the zero value of a pointer (`backoffLimit: 0`)
//! is kept.
//!
//! # Guarantees
//!
//! - A decoded tree is what the same client would have sent as JSON, without the zero values that mean absence.
//! - Encoded bytes equal those of Go's marshallers for the same object.
//! - Unknown fields are ignored; a malformed message is an error, never a panic.
//!
//! # Deliberately absent
//!
//! Custom resources, which have no protobuf form.

mod special;
#[cfg(test)]
mod tests;
mod walk;
mod write;

use std::sync::OnceLock;

use muster_tree::{Text, Tree};
use prost_reflect::{DynamicMessage, MessageDescriptor};

use crate::table;
use walk::Wire;
use write::put_bytes;

/// Descriptors of all messages.
const DESCRIPTORS: &[u8] = include_bytes!("../data/descriptors.bin.lz4");
/// The four bytes that open a body.
const MAGIC: &[u8] = b"k8s\0";
/// The message that follows them.
const ENVELOPE: &str = "k8s.io.apimachinery.pkg.runtime.Unknown";
/// Options and answers are sent under the version of any group, but are of this package.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
/// One event of a watch.
const EVENT: &str = "k8s.io.apimachinery.pkg.apis.meta.v1.WatchEvent";
/// What the keys and lengths of an envelope take at most.
const ENVELOPE_BYTES: usize = 64;

/// A body as a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The `apiVersion` of the envelope.
    pub api_version: Text,
    /// The `kind` of the envelope.
    pub kind: Text,
    /// The object, with `apiVersion` and `kind` in their places.
    pub tree: Tree,
}

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum ProtoError {
    /// The first four bytes are not those of a Kubernetes protobuf body.
    #[error("provided data does not appear to be a protobuf message, expected prefix 6b387300")]
    NoEnvelope,
    /// No built-in kind has this name, or it has no protobuf form.
    #[error("no kind {kind:?} is registered for version {api_version:?} in protobuf")]
    UnknownKind {
        /// The `apiVersion` of the envelope.
        api_version: String,
        /// The `kind` of the envelope.
        kind: String,
    },
    /// The bytes are not a message of the kind they claim to be.
    #[error("{0}")]
    Malformed(String),
}

/// Reads the body of an `application/vnd.kubernetes.protobuf` request.
pub fn decode(bytes: &[u8]) -> Result<Decoded, ProtoError> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(ProtoError::NoEnvelope)?;
    let wire = wire();
    let descriptor = wire.pool.get_message_by_name(ENVELOPE).expect("the descriptors have the envelope");
    let envelope = parse(descriptor, envelope)?;
    let type_meta = message_at(&envelope, 1);
    let api_version = type_meta.as_ref().map(|meta| text_at(meta, 1)).unwrap_or_default();
    let kind = type_meta.as_ref().map(|meta| text_at(meta, 2)).unwrap_or_default();
    if !text_at(&envelope, 3).is_empty() {
        return Err(ProtoError::Malformed(format!("unknown content encoding {:?}", text_at(&envelope, 3))));
    }
    let Some(descriptor) = descriptor_of(wire, &api_version, &kind) else {
        return Err(ProtoError::UnknownKind { api_version, kind });
    };
    let raw = envelope.get_field_by_number(2).and_then(|raw| raw.as_bytes().cloned()).unwrap_or_default();
    let object = wire.object(&parse(descriptor, &raw)?)?;
    let tree = object.with_key("apiVersion", Tree::from(&api_version)).with_key("kind", Tree::from(&kind));
    Ok(Decoded { api_version: api_version.into(), kind: kind.into(), tree })
}

/// Whether a kind has a protobuf form.
#[must_use]
pub fn is_known(api_version: &str, kind: &str) -> bool {
    descriptor_of(wire(), api_version, kind).is_some()
}

/// Writes the body of an `application/vnd.kubernetes.protobuf` answer: an object or a list with `apiVersion` and `kind`.
///
/// # Errors
/// The kind has no protobuf form, or the tree is no object of it.
pub fn encode(tree: &Tree) -> Result<Vec<u8>, ProtoError> {
    let (api_version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
    let wire = wire();
    let Some(descriptor) = descriptor_of(wire, api_version, kind) else {
        return Err(ProtoError::UnknownKind { api_version: api_version.to_owned(), kind: kind.to_owned() });
    };
    let mut raw = Vec::new();
    wire.write(&descriptor, tree, &mut raw)?;
    let mut type_meta = Vec::new();
    put_bytes(1, api_version.as_bytes(), &mut type_meta);
    put_bytes(2, kind.as_bytes(), &mut type_meta);
    let mut out = MAGIC.to_vec();
    out.reserve(raw.len() + type_meta.len() + ENVELOPE_BYTES);
    put_bytes(1, &type_meta, &mut out);
    put_bytes(2, &raw, &mut out);
    put_bytes(3, b"", &mut out);
    put_bytes(4, b"", &mut out);
    Ok(out)
}

/// Encodes a `WatchEvent` without its length prefix; its object is encoded as by [`encode`].
///
/// # Errors
/// As [`encode`].
pub fn encode_event(kind: &str, object: &Tree) -> Result<Vec<u8>, ProtoError> {
    let mut raw = Vec::new();
    put_bytes(1, &encode(object)?, &mut raw);
    let mut out = Vec::with_capacity(raw.len() + ENVELOPE_BYTES);
    put_bytes(1, kind.as_bytes(), &mut out);
    put_bytes(2, &raw, &mut out);
    Ok(out)
}

/// Reads one event of a watch, without its length: its type and its object.
///
/// # Errors
/// The bytes are no event, or its object cannot be read.
pub fn decode_event(bytes: &[u8]) -> Result<(Text, Decoded), ProtoError> {
    let descriptor = wire().pool.get_message_by_name(EVENT).expect("the descriptors have the event");
    let event = parse(descriptor, bytes)?;
    let object = message_at(&event, 2).and_then(|object| object.get_field_by_number(1)?.as_bytes().cloned());
    Ok((text_at(&event, 1).into(), decode(&object.unwrap_or_default())?))
}

fn wire() -> &'static Wire {
    static WIRE: OnceLock<Wire> = OnceLock::new();
    WIRE.get_or_init(|| Wire::load(&table::decompress(DESCRIPTORS)))
}

/// The message of a kind.
fn descriptor_of(wire: &Wire, api_version: &str, kind: &str) -> Option<MessageDescriptor> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let table = table::builtin();
    let component = |kind: &str| {
        let root = table.root(group, version, kind)?;
        table.component_name(root.id).map(str::to_owned)
    };
    // Lists stand beside their kinds. What has no component of its own is of the package that all groups share.
    let of_list = || Some(format!("{}List", component(kind.strip_suffix("List")?)?));
    let of_meta = || format!("{META}.{kind}");
    // The older list of metadata numbers its fields otherwise.
    if (group, version, kind) == ("meta.k8s.io", "v1beta1", "PartialObjectMetadataList") {
        return None;
    }
    let component = component(kind).or_else(of_list).unwrap_or_else(of_meta);
    wire.pool.get_message_by_name(&walk::message_name(&component))
}

fn parse(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<DynamicMessage, ProtoError> {
    DynamicMessage::decode(descriptor, bytes).map_err(|e| ProtoError::Malformed(e.to_string()))
}

fn message_at(message: &DynamicMessage, number: u32) -> Option<DynamicMessage> {
    message.get_field_by_number(number)?.as_message().cloned()
}

fn text_at(message: &DynamicMessage, number: u32) -> String {
    let value = message.get_field_by_number(number);
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
