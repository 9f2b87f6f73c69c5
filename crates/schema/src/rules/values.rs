//! Converts trees to CEL values, guided by the schema.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine;
use kube_cel::cel::Value;
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use muster_tree::{Text, Tree};

use super::scope::is_shown_metadata;
use super::{Needs, names};
use crate::formats::go_duration_nanos;
use crate::node::{ListKind, Node, OBJECT_META, Shape, View};
use crate::validate::correlate;

/// The value of a branch, as far as it is needed.
pub(super) fn value(view: View<'_>, tree: &Tree, needs: &Needs) -> Value {
    match (&view.node().shape, tree) {
        (Shape::Fields(_), Tree::Map(_)) => {
            let entries = tree.entries().iter().filter(|(name, _)| needs.has(name));
            fields(view, entries)
        }
        _ => whole(view, tree),
    }
}

/// The old value, with lists that have no order put into the order of the new ones: then equal means equal.
pub(super) fn old_value(view: View<'_>, old: &Tree, new: &Tree, needs: &Needs) -> Value {
    value(view, &in_order_of(view, old, new), needs)
}

/// A value that may be absent.
pub(super) fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

fn whole(view: View<'_>, tree: &Tree) -> Value {
    let node = view.node();
    match (&node.shape, tree) {
        (Shape::List(item), Tree::List(_)) => {
            let item = view.to(*item);
            list(tree.items().iter().map(|value| whole(item, value)))
        }
        (Shape::Map(values), Tree::Map(_)) => {
            let values = view.to(*values);
            map(tree.entries().iter().map(|(key, value)| (key.to_string(), whole(values, value))))
        }
        (Shape::Fields(_), Tree::Map(_)) => fields(view, tree.entries().iter()),
        (Shape::Number, Tree::Int(_)) => Value::Float(tree.as_float().unwrap_or_default()),
        #[expect(clippy::cast_possible_truncation, reason = "validation let only whole numbers pass")]
        (Shape::Int, Tree::Float(n)) => Value::Int(*n as i64),
        (_, Tree::Text(words)) => text(node, words),
        _ => plain(tree),
    }
}

fn fields<'t>(view: View<'_>, entries: impl Iterator<Item = &'t (Text, Tree)>) -> Value {
    let hides = view.node().name == OBJECT_META;
    let mut out = HashMap::new();
    for (name, tree) in entries.filter(|(name, _)| !hides || is_shown_metadata(name)) {
        let value = view.below(name).map_or_else(|| plain(tree), |below| whole(below, tree));
        if names::is_reserved(name) {
            // A reserved word can be written either way after a point.
            out.insert(key(name.to_string()), value.clone());
        }
        out.insert(key(names::escape(name)), value);
    }
    Value::Map(Map { map: Arc::new(out) })
}

/// Text, or what its format makes of it.
fn text(node: &Node, words: &str) -> Value {
    let special = match node.format.as_str() {
        _ if node.int_or_string => None,
        "date-time" | "datetime" => chrono::DateTime::parse_from_rfc3339(words).ok().map(Value::Timestamp),
        "date" => {
            let midnight = format!("{words}T00:00:00Z");
            chrono::DateTime::parse_from_rfc3339(&midnight).ok().map(Value::Timestamp)
        }
        "duration" => go_duration_nanos(words).map(|n| Value::Duration(chrono::Duration::nanoseconds(n))),
        "byte" => {
            let bytes = base64::engine::general_purpose::STANDARD.decode(words).ok();
            bytes.map(|bytes| Value::Bytes(Arc::new(bytes)))
        }
        _ => None,
    };
    special.unwrap_or_else(|| Value::String(Arc::new(words.to_owned())))
}

/// A value that no schema describes.
fn plain(tree: &Tree) -> Value {
    match tree {
        Tree::Null => Value::Null,
        Tree::Bool(b) => Value::Bool(*b),
        Tree::Int(n) => Value::Int(*n),
        Tree::Float(n) => Value::Float(*n),
        Tree::Text(words) => Value::String(Arc::new(words.to_string())),
        Tree::List(_) => list(tree.items().iter().map(plain)),
        Tree::Map(_) => map(tree.entries().iter().map(|(key, value)| (key.to_string(), plain(value)))),
    }
}

fn list(items: impl Iterator<Item = Value>) -> Value {
    Value::List(Arc::new(items.collect()))
}

fn map(entries: impl Iterator<Item = (String, Value)>) -> Value {
    Value::Map(Map { map: Arc::new(entries.map(|(name, value)| (key(name), value)).collect()) })
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

/// `old` with its sets and keyed lists in the order of `new`; the same tree when they are already.
fn in_order_of(view: View<'_>, old: &Tree, new: &Tree) -> Tree {
    if old == new {
        return old.clone();
    }
    match (&view.node().shape, old, new) {
        (Shape::Fields(_) | Shape::Map(_), Tree::Map(_), Tree::Map(_)) => {
            old.map_entries(|name, old| match (view.below(name), new.get(name)) {
                (Some(below), Some(new)) => Some(in_order_of(below, old, new)),
                _ => Some(old.clone()),
            })
        }
        (Shape::List(item), Tree::List(_), Tree::List(_)) if view.node().list != ListKind::Atomic => {
            Tree::list(ordered(view, view.to(*item), old, new))
        }
        _ => old.clone(),
    }
}

/// First the items that the new list has too, then the others.
fn ordered(view: View<'_>, item: View<'_>, old: &Tree, new: &Tree) -> Vec<Tree> {
    let twin = |list: &Tree, value: &Tree| match view.node().list {
        ListKind::Set => list.items().iter().find(|other| *other == value).cloned(),
        _ => correlate(view, list, value).cloned(),
    };
    let kept = new.items().iter().filter_map(|value| Some(in_order_of(item, &twin(old, value)?, value)));
    let gone = old.items().iter().filter(|value| twin(new, value).is_none()).cloned();
    kept.chain(gone).collect()
}
