//! Converts trees to protobuf messages.
//!
//! # Guarantees
//!
//! - The bytes are those of Go's marshallers: fields ordered by number, map entries ordered by key, zero values of
//!   non-pointer fields included.
//! - A value of the wrong type is an error. Fields that the message lacks are omitted, as Go's types do.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::time::Time;
use muster_tree::Tree;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{Kind, MessageDescriptor};

use super::walk::{Wire, WireField};
use super::{ProtoError, special};

const MICROS_PER_SEC: i64 = 1_000_000;

impl Wire {
    /// Writes the message of a tree; `null` is its zero value.
    pub(super) fn write(
        &self,
        message: &MessageDescriptor,
        tree: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        if self.write_special(message, tree, out)? {
            return Ok(());
        }
        if !tree.is_map() && !tree.is_null() {
            return Err(mismatch(tree, message.name()));
        }
        let fields = self.messages.get(message.full_name()).expect("every message of the pool is known");
        for (number, field) in fields {
            self.write_field(*number, field, tree, out)?;
        }
        Ok(())
    }

    fn write_field(
        &self,
        number: u32,
        field: &WireField,
        parent: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        let kind = field.descriptor.kind();
        if field.inline {
            return self.write_value(number, &kind, parent, out);
        }
        let value = parent.get(&field.name).filter(|value| !value.is_null());
        match value {
            Some(entries) if field.descriptor.is_map() => self.write_map(number, &kind, entries, out),
            Some(items) if field.descriptor.is_list() => {
                if !items.is_list() {
                    return Err(mismatch(items, &field.name));
                }
                items.items().iter().try_for_each(|item| self.write_value(number, &kind, item, out))
            }
            Some(value) => self.write_value(number, &kind, value, out),
            None if field.pointer || kind == Kind::Bytes => Ok(()),
            None if field.descriptor.is_list() || field.descriptor.is_map() => Ok(()),
            None => self.write_value(number, &kind, &Tree::Null, out),
        }
    }

    /// A map is a list of messages: field 1 is the key, field 2 the value.
    fn write_map(
        &self,
        number: u32,
        kind: &Kind,
        entries: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        let entry = kind.as_message().expect("the items of a map are messages");
        let (of_key, of_value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
        if !entries.is_map() {
            return Err(mismatch(entries, entry.name()));
        }
        for (key, value) in entries.entries() {
            let mut bytes = Vec::new();
            self.write_value(1, &of_key, &Tree::from(key), &mut bytes)?;
            self.write_value(2, &of_value, value, &mut bytes)?;
            put_bytes(number, &bytes, out);
        }
        Ok(())
    }

    fn write_value(
        &self,
        number: u32,
        kind: &Kind,
        value: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        let wrong = || mismatch(value, &format!("{kind:?}"));
        let is_null = value.is_null();
        match kind {
            Kind::Message(message) => {
                let mut bytes = Vec::new();
                self.write(message, value, &mut bytes)?;
                put_bytes(number, &bytes, out);
            }
            Kind::String => {
                let text = if is_null { Some("") } else { value.as_str() };
                put_bytes(number, text.ok_or_else(wrong)?.as_bytes(), out);
            }
            Kind::Bytes => {
                let text = if is_null { Some("") } else { value.as_str() };
                let bytes = text.and_then(|text| STANDARD.decode(text).ok());
                put_bytes(number, &bytes.ok_or_else(wrong)?, out);
            }
            Kind::Bool => {
                let truth = if is_null { Some(false) } else { value.as_bool() };
                put_varint(number, i64::from(truth.ok_or_else(wrong)?), out);
            }
            Kind::Double => {
                let n = if is_null { Some(0.0) } else { value.as_float() };
                encode_key(number, WireType::SixtyFourBit, out);
                out.extend_from_slice(&n.ok_or_else(wrong)?.to_le_bytes());
            }
            Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Enum(_) => {
                let n = if is_null { Some(0) } else { value.as_int() };
                put_varint(number, n.ok_or_else(wrong)?, out);
            }
            // No published message has a field of another type.
            _ => return Err(ProtoError::Malformed(format!("fields of type {kind:?} are not written"))),
        }
        Ok(())
    }

    /// Writes a message with a special JSON form; returns `false` for ordinary ones.
    fn write_special(
        &self,
        message: &MessageDescriptor,
        tree: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<bool, ProtoError> {
        let wrong = || mismatch(tree, message.name());
        match message.full_name() {
            "k8s.io.apimachinery.pkg.apis.meta.v1.Time"
            | "k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime" => {
                if !tree.is_null() {
                    let Time(micros) = tree.as_str().and_then(Time::parse).ok_or_else(wrong)?;
                    put_varint(1, micros.div_euclid(MICROS_PER_SEC), out);
                    put_varint(2, micros.rem_euclid(MICROS_PER_SEC) * 1_000, out);
                }
            }
            "k8s.io.apimachinery.pkg.apis.meta.v1.Duration" => {
                let nanos = if tree.is_null() { Some(0) } else { tree.as_str().and_then(special::nanos) };
                put_varint(1, nanos.ok_or_else(wrong)?, out);
            }
            "k8s.io.apimachinery.pkg.api.resource.Quantity" => {
                let text = match tree {
                    Tree::Null => "0".to_owned(),
                    Tree::Text(text) => text.to_string(),
                    Tree::Int(_) | Tree::Float(_) => tree.to_json(),
                    _ => return Err(wrong()),
                };
                put_bytes(1, text.as_bytes(), out);
            }
            "k8s.io.apimachinery.pkg.util.intstr.IntOrString" => {
                let (kind, int, text) = match tree {
                    Tree::Null => (0, 0, ""),
                    Tree::Int(n) => (0, *n, ""),
                    Tree::Text(text) => (1, 0, text.as_str()),
                    _ => return Err(wrong()),
                };
                put_varint(1, kind, out);
                put_varint(2, int, out);
                put_bytes(3, text.as_bytes(), out);
            }
            // Among the values of an enum `null` is a value.
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON" => {
                put_bytes(1, &tree.to_json_bytes(), out);
            }
            "k8s.io.apimachinery.pkg.apis.meta.v1.FieldsV1"
            | "k8s.io.apimachinery.pkg.runtime.RawExtension" => {
                if !tree.is_null() {
                    put_bytes(1, &tree.to_json_bytes(), out);
                }
            }
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray"
            | "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray" => {
                self.write_either(message, tree, out)?;
            }
            "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool" => {
                // A schema allows what matches it.
                put_varint(1, i64::from(tree.as_bool().unwrap_or(tree.is_map())), out);
                if tree.is_map() {
                    self.write_number(message, 2, tree, out)?;
                }
            }
            _ if special::is_named_list(message) => {
                tree.items().iter().try_for_each(|item| self.write_number(message, 1, item, out))?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// One schema is field 1, a list of anything field 2.
    fn write_either(
        &self,
        message: &MessageDescriptor,
        tree: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        if tree.is_map() {
            return self.write_number(message, 1, tree, out);
        }
        tree.items().iter().try_for_each(|item| self.write_number(message, 2, item, out))
    }

    fn write_number(
        &self,
        message: &MessageDescriptor,
        number: u32,
        value: &Tree,
        out: &mut Vec<u8>,
    ) -> Result<(), ProtoError> {
        let field = message.get_field(number).expect("published messages have their published fields");
        self.write_value(number, &field.kind(), value, out)
    }
}

/// Writes a field of bytes, text or a message.
pub(super) fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a field that is a number; negative ones take ten bytes, as the format has it.
#[expect(clippy::cast_sign_loss, reason = "the wire carries two's complement")]
fn put_varint(number: u32, value: i64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value as u64, out);
}

fn mismatch(value: &Tree, wanted: &str) -> ProtoError {
    ProtoError::Malformed(format!("{} cannot be written as {wanted}", value.type_word()))
}
