//! The granularity of ownership: atomic values as a whole, maps by key, lists by item, as the schema defines.

use muster_tree::{Text, Tree};

use crate::node::{ListKind, Node, Shape, View};

/// The granularity at which a value is owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topology {
    /// Atomic: the value is one field.
    Whole,
    /// One field per map key.
    Map,
    /// One field per list item.
    List,
}

/// The granularity of `value` at this schema position. Without a schema (`None`, or preserved unknown fields), maps are
/// owned by key and lists are atomic.
pub(crate) fn topology(view: Option<View<'_>>, value: &Tree) -> Topology {
    let node = view.map(View::node);
    match value {
        Tree::Map(_) => match node {
            Some(node) if node.atomic_map || !is_open(node) => Topology::Whole,
            _ => Topology::Map,
        },
        Tree::List(_) => match node {
            Some(node) if is_list(node) => Topology::List,
            _ => Topology::Whole,
        },
        // Nothing at all is as good as an empty map or list.
        Tree::Null => match node {
            Some(node) if is_list(node) => Topology::List,
            Some(node) if !node.atomic_map && is_open(node) => Topology::Map,
            _ => Topology::Whole,
        },
        _ => Topology::Whole,
    }
}

/// Whether a map may stand here.
fn is_open(node: &Node) -> bool {
    match node.shape {
        Shape::Fields(_) | Shape::Map(_) => true,
        Shape::Any => node.preserve_unknown,
        _ => false,
    }
}

fn is_list(node: &Node) -> bool {
    matches!(node.shape, Shape::List(_)) && node.list != ListKind::Atomic
}

/// Whether the schema names this field, as opposed to a free key of a map.
pub(crate) fn is_named(view: Option<View<'_>>, key: &str) -> bool {
    view.is_some_and(|view| matches!(view.node().shape, Shape::Fields(_)) && view.below(key).is_some())
}

/// The element that stands for an item of a list: `k:{…}` or `v:…`.
pub(crate) fn key_of(list: View<'_>, item: &Tree) -> Text {
    let mut json = Vec::with_capacity(48);
    match &list.node().list {
        ListKind::Map(keys) => {
            let mut keys: Vec<&Text> = keys.iter().collect();
            keys.sort_unstable();
            json.extend_from_slice(b"k:{");
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    json.push(b',');
                }
                Tree::Text(key.clone()).write_json(&mut json);
                json.push(b':');
                key_value(list, item, key).write_json(&mut json);
            }
            json.push(b'}');
        }
        _ => {
            json.extend_from_slice(b"v:");
            item.write_json(&mut json);
        }
    }
    Text::from(String::from_utf8(json).expect("JSON is UTF-8"))
}

/// Whether two items of a list have the same key.
pub(crate) fn has_same_key(list: View<'_>, a: &Tree, b: &Tree) -> bool {
    match &list.node().list {
        ListKind::Map(keys) => keys.iter().all(|key| match (a.get(key), b.get(key)) {
            (Some(a), Some(b)) => a == b,
            _ => key_value(list, a, key) == key_value(list, b, key),
        }),
        _ => a == b,
    }
}

/// A key field of an item; where it is absent, its default or else its zero value.
pub(crate) fn key_value(list: View<'_>, item: &Tree, key: &str) -> Tree {
    if let Some(value) = item.get(key) {
        return value.clone();
    }
    let view = list.item().and_then(|item| item.below(key));
    view.map(|view| view.node().default.clone().unwrap_or_else(|| zero(view))).unwrap_or_default()
}

/// The zero value of a place, as Go writes it.
pub(crate) fn zero(view: View<'_>) -> Tree {
    let node = view.node();
    match node.shape {
        Shape::Bool => Tree::Bool(false),
        Shape::Int | Shape::Number => Tree::Int(0),
        Shape::Text if matches!(node.format.as_str(), "date-time" | "micro-time") => Tree::Null,
        Shape::Text => Tree::from(""),
        Shape::Fields(_) => Tree::empty_map(),
        Shape::Any if node.int_or_string => Tree::Int(0),
        Shape::Any if node.format == "quantity" => Tree::from("0"),
        _ => Tree::Null,
    }
}
