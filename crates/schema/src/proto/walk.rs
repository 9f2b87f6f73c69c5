//! Converts protobuf messages to trees.

use std::collections::{BTreeMap, HashMap};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_tree::{Text, Tree};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, MapKey, MessageDescriptor, ReflectMessage as _, Value,
};

use super::{ProtoError, special};
use crate::table;

/// Everything needed to read and write messages.
pub(super) struct Wire {
    /// Descriptors of all messages.
    pub(super) pool: DescriptorPool,
    /// Fields by message name and number. Messages are only looked up; fields are written in the order of their numbers.
    pub(super) messages: HashMap<String, BTreeMap<u32, WireField>>,
}

/// What becomes of a field of a message.
pub(super) struct WireField {
    /// Its name in JSON.
    pub(super) name: Text,
    /// Whether its own fields stand in its parent.
    pub(super) inline: bool,
    /// Whether its zero value is a value.
    pub(super) pointer: bool,
    /// Its type on the wire.
    pub(super) descriptor: FieldDescriptor,
}

/// The protobuf name of a component: `io.k8s.api.core.v1.Pod` is `k8s.io.api.core.v1.Pod`.
pub(super) fn message_name(component: &str) -> String {
    format!("k8s.io.{}", component.strip_prefix("io.k8s.").unwrap_or(component)).replace('-', "_")
}

/// The component of a message, the opposite of [`message_name`]. No package has an underscore of its own.
fn component_name(message: &str) -> String {
    format!("io.k8s.{}", message.strip_prefix("k8s.io.").unwrap_or(message)).replace('_', "-")
}

impl Wire {
    /// Reads the descriptors. They are part of the binary: whatever is wrong with them is a broken build.
    pub(super) fn load(descriptors: &[u8]) -> Self {
        let pool = DescriptorPool::decode(descriptors).expect("checked-in descriptors are whole");
        let messages = pool.all_messages().map(|m| (m.full_name().to_owned(), fields_of(&m))).collect();
        Self { pool, messages }
    }

    /// The object that a message stands for.
    pub(super) fn object(&self, message: &DynamicMessage) -> Result<Tree, ProtoError> {
        let mut entries = Vec::new();
        self.collect(message, &mut entries)?;
        Ok(Tree::map(entries))
    }

    /// Adds the fields of a message, and of those inlined into it.
    fn collect(&self, message: &DynamicMessage, to: &mut Vec<(Text, Tree)>) -> Result<(), ProtoError> {
        let descriptor = message.descriptor();
        let known = self.messages.get(descriptor.full_name()).expect("every message of the pool is known");
        for (field, value) in message.fields() {
            let fact = known.get(&field.number()).expect("every field of a message is known");
            match value {
                Value::Message(below) if fact.inline => self.collect(below, to)?,
                _ => {
                    let tree = self.value(value)?;
                    if !tree.is_null() && (fact.pointer || !is_zero(&tree)) {
                        to.push((fact.name.clone(), tree));
                    }
                }
            }
        }
        Ok(())
    }

    /// The tree of one value; `null` when it stands for absence.
    pub(super) fn value(&self, value: &Value) -> Result<Tree, ProtoError> {
        Ok(match value {
            Value::Bool(b) => Tree::Bool(*b),
            Value::I32(n) | Value::EnumNumber(n) => Tree::from(*n),
            Value::I64(n) => Tree::Int(*n),
            Value::U32(n) => Tree::from(*n),
            Value::U64(n) => i64::try_from(*n).map_or_else(|_| number(*n as f64), Tree::Int),
            Value::F32(n) => number(f64::from(*n)),
            Value::F64(n) => number(*n),
            Value::String(text) => Tree::from(text),
            Value::Bytes(bytes) => Tree::from(STANDARD.encode(bytes)),
            Value::Message(message) => match special::read(self, message)? {
                Some(tree) => tree,
                None => self.object(message)?,
            },
            Value::List(items) => {
                Tree::list(items.iter().map(|item| self.value(item)).collect::<Result<Vec<_>, _>>()?)
            }
            Value::Map(entries) => {
                let entry = |(key, value): (&MapKey, &Value)| Ok((key_text(key), self.value(value)?));
                Tree::map(entries.iter().map(entry).collect::<Result<Vec<_>, ProtoError>>()?)
            }
        })
    }
}

/// The facts of a message's fields.
fn fields_of(message: &MessageDescriptor) -> BTreeMap<u32, WireField> {
    let component = component_name(message.full_name());
    let facts = table::builtin().facts(&component);
    let fact = |descriptor: FieldDescriptor| {
        let name = Text::from(facts.json_name(descriptor.name()));
        let pointer = facts.zero(&name).is_value();
        let inline = facts.is_inline(descriptor.name());
        (descriptor.number(), WireField { name, inline, pointer, descriptor })
    };
    message.fields().map(fact).collect()
}

fn is_zero(tree: &Tree) -> bool {
    tree.is_empty() || matches!(tree, Tree::Bool(false) | Tree::Int(0))
}

/// A number as Go writes it: without a fraction when it has none.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
fn number(n: f64) -> Tree {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= WHOLE_MAX { Tree::Int(n as i64) } else { Tree::Float(n) }
}

fn key_text(key: &MapKey) -> Text {
    match key {
        MapKey::Bool(b) => Text::from(b.to_string()),
        MapKey::I32(n) => Text::from(n.to_string()),
        MapKey::I64(n) => Text::from(n.to_string()),
        MapKey::U32(n) => Text::from(n.to_string()),
        MapKey::U64(n) => Text::from(n.to_string()),
        MapKey::String(text) => Text::from(text.as_str()),
    }
}
