//! Strategic merge patch: a merge patch that merges lists by the keys in the schema.
//!
//! Maps merge and `null` deletes, as in a JSON merge patch. Lists with patch strategy `merge` are merged item by item
//! (`lists`), others are replaced. Directives are `$patch`, `$retainKeys`, `$deleteFromPrimitiveList/<field>` and
//! `$setElementOrder/<field>`.
//!
//! # Guarantees
//!
//! - Unchanged branches are shared with the live object.
//! - A new item of a merged list is added with its `null`s and directives, as upstream does; the pruning of every write
//!   removes them.
//!
//! # Deliberately absent
//!
//! Computing patches from two objects: clients do that.

mod lists;
mod order;

use std::collections::BTreeSet;

use muster_tree::{Text, Tree};

use crate::node::View;
pub use crate::patch::PatchError;
use crate::spelled::{json_word, spelled};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_LIST: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";

/// The live object changed by the patch.
///
/// # Errors
///
/// `Malformed` when the patch or a directive is not of its form, `Confused` when the patch contradicts itself, the
/// schema or the live object.
pub fn merge(view: View<'_>, live: &Tree, patch: &Tree) -> Result<Tree, PatchError> {
    match patch {
        Tree::Map(_) => merge_map(view, live, patch),
        Tree::Null => Ok(live.clone()),
        other => {
            let word = json_word(other);
            let wanted = "Go value of type map[string]interface {}";
            Err(PatchError::Malformed(format!("json: cannot unmarshal {word} into {wanted}")))
        }
    }
}

fn confused<T>(text: String) -> Result<T, PatchError> {
    Err(PatchError::Confused(text))
}

fn malformed<T>(text: &str) -> Result<T, PatchError> {
    Err(PatchError::Malformed(text.into()))
}

fn merge_map(view: View<'_>, live: &Tree, patch: &Tree) -> Result<Tree, PatchError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => Ok(patch.without_key(PATCH)),
            Some("delete") => Ok(Tree::empty_map()),
            _ => confused(format!("unknown patch type: {} in map: {}", spelled(directive), spelled(patch))),
        };
    }
    let mut merged = retain_keys(live, patch)?;
    let mut done = BTreeSet::from([RETAIN_KEYS]);
    for (directive, wanted) in patch.entries().iter().filter(|(key, _)| key.starts_with(ORDER)) {
        let field = field_of(directive, ORDER)?;
        merged = order::set_order(view, &merged, patch, field, wanted)?;
        // An ordered list was merged together with its order.
        done.extend([directive.as_str(), field]);
    }
    let rest = patch.entries().iter().filter(|(key, _)| !done.contains(key.as_str()));
    rest.into_iter().try_fold(merged, |merged, (key, change)| merge_field(view, &merged, key, change))
}

/// The field that a directive of the form `$name/field` speaks of.
fn field_of<'a>(directive: &'a Text, name: &str) -> Result<&'a str, PatchError> {
    match directive.split_once('/') {
        Some((prefix, field)) if prefix == name => Ok(field),
        _ if name == ORDER => malformed("invalid patch format of setElementOrder list"),
        _ => malformed("invalid patch format of primitive list"),
    }
}

/// The live map without the keys that `$retainKeys` does not list.
fn retain_keys(live: &Tree, patch: &Tree) -> Result<Tree, PatchError> {
    let kept = match patch.get(RETAIN_KEYS) {
        None => return Ok(live.clone()),
        Some(Tree::List(kept)) => &kept.slice,
        Some(_) => return malformed("invalid patch format of retainKeys"),
    };
    let is_kept = |key: &Text| kept.iter().any(|k| k.as_text() == Some(key));
    let is_free = |key: &Text| key == RETAIN_KEYS || key.starts_with(DELETE_LIST) || key.starts_with(ORDER);
    if patch.entries().iter().any(|(key, value)| !value.is_null() && !is_free(key) && !is_kept(key)) {
        return malformed("invalid patch format of retainKeys");
    }
    Ok(live.map_entries(|key, value| is_kept(key).then(|| value.clone())))
}

fn merge_field(view: View<'_>, live: &Tree, key: &Text, change: &Tree) -> Result<Tree, PatchError> {
    let is_deletion = key.starts_with(DELETE_LIST);
    let field = if is_deletion { field_of(key, DELETE_LIST)? } else { key.as_str() };
    if change.is_null() {
        return Ok(live.without_key(field));
    }
    let new = match (live.get(field), change) {
        (Some(old @ Tree::Map(_)), Tree::Map(_)) => merge_map(below(view, field)?, old, change)?,
        (Some(old @ Tree::List(_)), Tree::List(_)) => {
            lists::merge_list(below(view, field)?, old, change, is_deletion)?
        }
        _ if is_deletion => return Ok(live.clone()),
        _ => match without_directives(change) {
            Some(new) => new,
            None => return Ok(live.without_key(field)),
        },
    };
    Ok(if live.get(field) == Some(&new) { live.clone() } else { live.with_key(field, new) })
}

fn below<'a>(view: View<'a>, field: &str) -> Result<View<'a>, PatchError> {
    match view.below(field) {
        Some(view) => Ok(view),
        None => confused(format!("unable to find api field for the json field {field:?}")),
    }
}

/// A value that did not meet a live one: without `null`s in maps, and without maps that carry a `$patch`.
fn without_directives(value: &Tree) -> Option<Tree> {
    match value {
        Tree::Map(_) if value.get(PATCH).is_some() => None,
        Tree::Map(_) => {
            Some(value.map_entries(|_, v| if v.is_null() { None } else { without_directives(v) }))
        }
        Tree::List(items) if items.slice.iter().any(|v| without_directives(v).as_ref() != Some(v)) => {
            Some(Tree::list(items.slice.iter().filter_map(without_directives)))
        }
        _ => Some(value.clone()),
    }
}

#[cfg(test)]
mod tests;
