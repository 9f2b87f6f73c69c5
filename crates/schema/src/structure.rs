//! Defaulting, pruning of unknown fields, and type checks.
//!
//! All three run on every write and are optimized for objects that they do not change.
//!
//! # Guarantees
//!
//! - Each node of the object is visited once.
//! - An unchanged branch is returned as the same allocation, without allocating.
//! - All are idempotent.
//!
//! # Deliberately absent
//!
//! Defaults that depend on other fields, and rules about values ([`crate::validate`]).

mod edit;
mod types;

use muster_tree::{Text, Tree};
pub use types::{check_metadata, check_types};

use self::edit::{Edit, Entries, edit_entries, edit_items};
use crate::node::{Field, Shape, View};
use crate::path::Path;

/// Keys that an embedded resource always has, independent of its schema.
const EMBEDDED_KEYS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Fills in the defaults of the schema at every depth.
///
/// A `null` in a non-nullable field counts as absent: it is replaced by the default or removed.
#[must_use]
pub fn default(view: View<'_>, tree: &Tree) -> Tree {
    filled(view, tree).unwrap_or_else(|| tree.clone())
}

/// Removes fields that the schema does not know; their paths are added to `unknown`.
#[must_use]
pub fn prune(view: View<'_>, tree: &Tree, unknown: &mut Vec<String>) -> Tree {
    pruned(view, tree, &Path::Root(""), unknown).unwrap_or_else(|| tree.clone())
}

/// The changed tree, or `None` when there is nothing to fill in.
fn filled(view: View<'_>, tree: &Tree) -> Option<Tree> {
    match (&view.node().shape, tree) {
        (Shape::Fields(fields), Tree::Map(_)) => filled_fields(view, fields, tree.entries()),
        (Shape::Map(values), Tree::Map(_)) => {
            let values = view.to(*values);
            edit_entries(tree.entries(), |_, value| fill_in(values, value))
        }
        (Shape::List(item), Tree::List(_)) => {
            let item = view.to(*item);
            edit_items(tree.items(), |_, value| match fill_in(item, value) {
                Edit::Set(value) => Some(value),
                // Positions matter: a null without a default stays, and validation refuses it.
                Edit::Drop | Edit::Keep => None,
            })
        }
        _ => None,
    }
}

/// Walks fields and entries side by side; both are sorted by name.
fn filled_fields(view: View<'_>, fields: &[Field], entries: &[(Text, Tree)]) -> Option<Tree> {
    let mut out = Entries::over(entries);
    let mut at = 0;
    for field in fields {
        while entries.get(at).is_some_and(|(key, _)| *key < field.name) {
            at += 1;
        }
        let node = view.to(field.node);
        if let Some((_, value)) = entries.get(at).filter(|(key, _)| *key == field.name) {
            out.edit(at, fill_in(node, value));
        } else if let Some(value) = default_of(node) {
            out.insert(at, field.name.clone(), value);
        }
    }
    out.finish()
}

fn fill_in(view: View<'_>, value: &Tree) -> Edit {
    if value.is_null() && !view.node().nullable {
        return default_of(view).map_or(Edit::Drop, Edit::Set);
    }
    filled(view, value).map_or(Edit::Keep, Edit::Set)
}

/// The default at this place, itself filled in.
fn default_of(view: View<'_>) -> Option<Tree> {
    view.node().default.as_ref().map(|value| default(view, value))
}

/// The changed tree, or `None` when there is nothing to drop.
fn pruned(view: View<'_>, tree: &Tree, path: &Path<'_>, unknown: &mut Vec<String>) -> Option<Tree> {
    match (&view.node().shape, tree) {
        (Shape::Fields(_), Tree::Map(_)) => {
            edit_entries(tree.entries(), |key, value| match view.below(key) {
                Some(below) => prune_below(below, value, &path.key(key), unknown),
                None if keeps(view, key) => Edit::Keep,
                None => {
                    unknown.push(path.key(key).to_string());
                    Edit::Drop
                }
            })
        }
        (Shape::Map(values), Tree::Map(_)) => {
            let values = view.to(*values);
            edit_entries(tree.entries(), |key, value| prune_below(values, value, &path.key(key), unknown))
        }
        (Shape::List(item), Tree::List(_)) => {
            let item = view.to(*item);
            edit_items(tree.items(), |index, value| pruned(item, value, &path.item(index), unknown))
        }
        _ => None,
    }
}

fn prune_below(view: View<'_>, value: &Tree, path: &Path<'_>, unknown: &mut Vec<String>) -> Edit {
    pruned(view, value, path, unknown).map_or(Edit::Keep, Edit::Set)
}

/// Whether a key without a schema stays.
fn keeps(view: View<'_>, key: &str) -> bool {
    let node = view.node();
    node.preserve_unknown || (node.embedded_resource && EMBEDDED_KEYS.contains(&key))
}

#[cfg(test)]
#[path = "structure/tests.rs"]
mod tests;
