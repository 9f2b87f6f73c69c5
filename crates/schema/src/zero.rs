//! Zero values of built-in kinds: which of them mean absence, and which are serialized.
//!
//! Upstream decodes built-in kinds into Go structs. A non-pointer field cannot distinguish `0` or `""` from absence, and
//! its `omitempty` tag decides whether the zero value is serialized. Clients see the effects: `hostNetwork: false` is
//! dropped, a container without resources is returned with `resources: {}`, a probe with `periodSeconds: 0` gets the
//! default.
//!
//! # Guarantees
//!
//! - `absent`, then defaults, then `written` gives what upstream would store and return.
//! - Both functions are idempotent, and return the same allocation if they change nothing.
//!
//! # Deliberately absent
//!
//! Custom resources: there, every value that was written stays.

use muster_tree::{Text, Tree};

use crate::node::{Field, NodeId, Shape};
use crate::table::{Table, Zero};

/// The tree without `null`s and without the zero values that mean absence, but with the structs that are always
/// there, be they empty: what defaulting should see.
#[must_use]
pub fn absent(table: &Table, id: NodeId, tree: &Tree) -> Tree {
    match &table.schema.nodes[id.0 as usize].shape {
        Shape::Fields(fields) if tree.is_map() => {
            let zeros = table.zeros(id);
            let kept = tree.map_entries(|name, value| match place(fields, name) {
                Some(at) => field_or_nothing(table, &fields[at], zeros.get(at), value),
                None => Some(value.clone()),
            });
            let structs = fields.iter().zip(zeros).filter(|(field, zero)| is_fixed(table, field, **zero));
            with_missing(&kept, structs, |field, _| absent(table, field.node, &Tree::empty_map()))
        }
        Shape::List(item) if tree.is_list() => tree.map_items(|_, value| item_of(table, *item, value)),
        Shape::Map(values) if tree.is_map() => {
            tree.map_entries(|_, value| Some(item_of(table, *values, value)))
        }
        _ => tree.clone(),
    }
}

/// An item of a list or map: `null` is the zero value there, since an item cannot be absent.
fn item_of(table: &Table, id: NodeId, value: &Tree) -> Tree {
    let zero = if value.is_null() { zero_of(table, id) } else { value.clone() };
    absent(table, id, &zero)
}

/// The value of a field, unless it means absence.
fn field_or_nothing(table: &Table, field: &Field, zero: Option<&Zero>, value: &Tree) -> Option<Tree> {
    let value = absent(table, field.node, value);
    let zero = *zero.unwrap_or(&Zero::Kept);
    let is_kept = zero.is_value() || is_fixed(table, field, zero) || !is_zero(&value);
    (!value.is_null() && is_kept).then_some(value)
}

/// Whether a field is a struct that is always there.
fn is_fixed(table: &Table, field: &Field, zero: Zero) -> bool {
    zero == Zero::Written && matches!(table.schema.nodes[field.node.0 as usize].shape, Shape::Fields(_))
}

/// The tree with the zero values that Go writes out: what is stored and answered.
#[must_use]
pub fn written(table: &Table, id: NodeId, tree: &Tree) -> Tree {
    match &table.schema.nodes[id.0 as usize].shape {
        Shape::Fields(fields) if tree.is_map() => {
            let below = tree.map_entries(|name, value| match place(fields, name) {
                Some(at) => Some(written(table, fields[at].node, value)),
                None => Some(value.clone()),
            });
            let is_always = |zero: &Zero| matches!(zero, Zero::Written | Zero::KeptOrNull);
            let always = fields.iter().zip(table.zeros(id)).filter(|(_, zero)| is_always(zero));
            with_missing(&below, always, |field, zero| match zero {
                Zero::KeptOrNull => Tree::Null,
                _ => zero_of(table, field.node),
            })
        }
        Shape::List(item) if tree.is_list() => tree.map_items(|_, value| written(table, *item, value)),
        Shape::Map(values) if tree.is_map() => {
            tree.map_entries(|_, value| Some(written(table, *values, value)))
        }
        _ => tree.clone(),
    }
}

/// Adds those of the fields that are not there.
fn with_missing<'a>(
    tree: &Tree,
    fields: impl Iterator<Item = (&'a Field, &'a Zero)>,
    value: impl Fn(&Field, Zero) -> Tree,
) -> Tree {
    let missing = fields.filter(|(field, _)| tree.get(&field.name).is_none());
    let added: Vec<(Text, Tree)> =
        missing.map(|(field, zero)| (field.name.clone(), value(field, *zero))).collect();
    if added.is_empty() {
        return tree.clone();
    }
    Tree::map(tree.entries().iter().cloned().chain(added))
}

/// The zero value of a type, as Go writes it.
fn zero_of(table: &Table, id: NodeId) -> Tree {
    let node = &table.schema.nodes[id.0 as usize];
    match (&node.shape, node.format.as_str()) {
        (Shape::Bool, _) => Tree::Bool(false),
        (Shape::Int | Shape::Number, _) | (Shape::Any, "int-or-string") => Tree::Int(0),
        (Shape::Any, "quantity") => Tree::from("0"),
        (Shape::Text, "date-time" | "micro-time" | "byte") => Tree::Null,
        (Shape::Text, _) => Tree::Text(Text::new()),
        (Shape::Fields(_), _) => written(table, id, &Tree::empty_map()),
        (Shape::Any | Shape::List(_) | Shape::Map(_), _) => Tree::Null,
    }
}

/// Where a field stands among its sorted siblings.
fn place(fields: &[Field], name: &str) -> Option<usize> {
    fields.binary_search_by(|field| field.name.as_str().cmp(name)).ok()
}

fn is_zero(tree: &Tree) -> bool {
    tree.is_empty() || matches!(tree, Tree::Bool(false) | Tree::Int(0))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::table::builtin;

    fn pod() -> NodeId {
        builtin().root("", "v1", "Pod").expect("Pod").id
    }

    #[test]
    fn zero_values_of_plain_fields_mean_absence_and_those_of_pointers_do_not() {
        let sent = tree!({"kind": "Pod", "metadata": {"name": "p", "labels": {}, "creationTimestamp": null}, "spec": {
            "hostNetwork": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 0, "nodeName": "",
            "securityContext": {}, "tolerations": [], "unknown": "",
            "containers": [{"name": "c", "args": ["", null], "resources": {}, "livenessProbe": {"periodSeconds": 0}}],
        }});
        let want = tree!({"kind": "Pod", "metadata": {"name": "p"}, "status": {}, "spec": {
            "enableServiceLinks": false, "terminationGracePeriodSeconds": 0, "securityContext": {}, "unknown": "",
            "containers": [{"name": "c", "args": ["", ""], "resources": {}, "livenessProbe": {}}],
        }});
        let found = absent(builtin(), pod(), &sent);
        assert_eq!(found, want);
        assert!(absent(builtin(), pod(), &found).same_branch(&found), "a second time changes nothing");
    }

    #[test]
    fn fields_without_omitempty_are_written() {
        let sent = tree!({"spec": {"containers": [{"image": "i"}]}});
        let want = tree!({"metadata": {}, "spec": {"containers": [{"image": "i", "name": "", "resources": {}}]}, "status": {}});
        let found = written(builtin(), pod(), &sent);
        assert_eq!(found, want);
        assert!(written(builtin(), pod(), &found).same_branch(&found), "a second time changes nothing");
    }
}
