//! Protobuf request bodies of built-in kinds, read into trees.
//!
//! Go clients send them and do not fall back to JSON. The reader is driven by the published descriptors and by
//! what Go's types say: names, inlined structs, and which fields are pointers. On the wire a field that is no
//! pointer always stands there, with its zero value if need be; such values are left out, while the zero value
//! of a pointer (`backoffLimit: 0`) is a value and stays.
//!
//! # Invariants
//!
//! - The tree is what the same client would have sent as JSON, without the zero values that mean absence.
//! - Unknown fields are ignored; anything malformed is an error, never a panic.
//!
//! # Deliberately absent
//!
//! Writing protobuf: every client takes JSON in answers. Custom resources, which have no protobuf form.

mod special;
#[cfg(test)]
mod tests;
mod walk;

use std::sync::OnceLock;

use muster_tree::{Text, Tree};
use prost_reflect::{DynamicMessage, MessageDescriptor};

use crate::table;
use walk::Wire;

/// Descriptors of all messages.
const DESCRIPTORS: &[u8] = include_bytes!("../data/descriptors.bin.lz4");
/// The four bytes that open a body.
const MAGIC: &[u8] = b"k8s\0";
/// The message that follows them.
const ENVELOPE: &str = "k8s.io.apimachinery.pkg.runtime.Unknown";
/// Options and answers are sent under the version of any group, but are of this package.
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

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

fn wire() -> &'static Wire {
    static WIRE: OnceLock<Wire> = OnceLock::new();
    WIRE.get_or_init(|| Wire::load(&table::decompress(DESCRIPTORS)))
}

/// The message of a kind.
fn descriptor_of(wire: &Wire, api_version: &str, kind: &str) -> Option<MessageDescriptor> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let table = table::builtin();
    let root = table.root(group, version, kind);
    let component = match root.as_ref().and_then(|root| table.component_name(root.id)) {
        Some(name) => name.to_owned(),
        None => format!("{META}.{kind}"),
    };
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
