//! The order of merged lists: `$setElementOrder`, with other live items at their relative position.

use muster_tree::Tree;

use super::lists::{common_type, key_of, merge_list};
use super::{PATCH, PatchError, below, confused, without_directives};
use crate::node::View;
use crate::spelled::spelled;

/// Obeys `$setElementOrder/<field>`: merges the list of the patch, if any, and brings the result in order.
pub(super) fn set_order(
    view: View<'_>,
    live: &Tree,
    patch: &Tree,
    field: &str,
    wanted: &Tree,
) -> Result<Tree, PatchError> {
    for list in [Some(wanted), live.get(field), patch.get(field)].into_iter().flatten() {
        if !list.is_list() {
            return confused(format!("expected a []interface {{}}, but received a {}", go_word(list)));
        }
    }
    let view = below(view, field)?;
    let key = view.node().patch.merge_key.as_str();
    let empty = Tree::empty_list();
    let (old, new) = (live.get(field), patch.get(field));
    check_order(new.unwrap_or(&empty), wanted, key)?;
    let merged = match (old, new) {
        (None, None) => return Ok(live.clone()),
        (Some(old), None) => old.clone(),
        (None, Some(new)) => without_directives(new).unwrap_or_else(Tree::empty_list),
        (Some(old), Some(new)) => merge_list(view, old, new, false)?,
    };
    if !key.is_empty() {
        for item in merged.items().iter().chain(wanted.items()) {
            key_of(item, key)?;
        }
    }
    common_type(old.unwrap_or(&empty), new.unwrap_or(&empty))?;
    let old = old.unwrap_or(&empty);
    Ok(live.with_key(field, arrange(merged.items().to_vec(), wanted.items(), old.items(), key)))
}

/// The type of a value in the words of the messages that clients know.
fn go_word(value: &Tree) -> &'static str {
    match value {
        Tree::Null => "%!s(<nil>)",
        Tree::Bool(_) => "bool",
        Tree::Int(_) => "int64",
        Tree::Float(_) => "float64",
        Tree::Text(_) => "string",
        Tree::List(_) => "[]interface {}",
        Tree::Map(_) => "map[string]interface {}",
    }
}

/// The items of the patch must stand in the wanted order, all of them.
fn check_order(patch: &Tree, wanted: &Tree, key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let kept = patch.items().iter().filter(|item| item.get(PATCH).is_none());
    let mut rest = wanted.items().iter();
    for item in kept {
        if !key.is_empty() {
            key_of(item, key)?;
        }
        loop {
            let Some(next) = rest.next() else {
                return confused(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    spelled(patch),
                    spelled(wanted)
                ));
            };
            if !key.is_empty() {
                key_of(next, key)?;
            }
            if is_same(item, next, key) {
                break;
            }
        }
    }
    Ok(())
}

/// Whether two items are one: by key when there is one, else by value.
fn is_same(a: &Tree, b: &Tree, key: &str) -> bool {
    if key.is_empty() { a == b } else { a.get(key) == b.get(key) }
}

fn place(of: &Tree, among: &[Tree], key: &str) -> Option<usize> {
    among.iter().position(|item| is_same(of, item, key))
}

/// Items that `wanted` names come in its order; the others are put between them by their place in `live`.
pub(super) fn arrange(all: Vec<Tree>, wanted: &[Tree], live: &[Tree], key: &str) -> Tree {
    let (mut named, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|item| place(item, wanted, key).is_some());
    named.sort_by_key(|item| place(item, wanted, key));
    others.sort_by_key(|item| place(item, live, key));
    let mut arranged = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(name), Some(other)) = (named.peek(), others.peek()) {
        let comes_first = match (place(other, live, key), place(name, live, key)) {
            (Some(other), Some(name)) => other < name,
            _ => false,
        };
        arranged.extend(if comes_first { others.next() } else { named.next() });
    }
    arranged.extend(named.chain(others));
    Tree::list(arranged)
}
