//! Merges two lists: by merge key if the items are maps, as sets if they are scalars.

use muster_tree::Tree;

use super::order::arrange;
use super::{PATCH, PatchError, confused, merge_map};
use crate::node::View;
use crate::spelled::spelled;

/// The live list changed by a list of the patch. `view` is the schema of the list.
pub(super) fn merge_list(
    view: View<'_>,
    live: &Tree,
    patch: &Tree,
    is_deletion: bool,
) -> Result<Tree, PatchError> {
    let rule = &view.node().patch;
    if !rule.merge && !is_deletion {
        return Ok(patch.clone());
    }
    if live.is_empty() && patch.is_empty() {
        return Ok(live.clone());
    }
    match common_type(live, patch)? {
        "object" => merge_maps(view, live, patch, rule.merge_key.as_str()),
        _ if is_deletion => Ok(without_items(live, patch)),
        _ => {
            let new = patch.items().iter().filter(|v| !live.items().contains(v));
            let mut all: Vec<Tree> = live.items().to_vec();
            for value in new {
                if !all.contains(value) {
                    all.push(value.clone());
                }
            }
            Ok(arrange(all, patch.items(), live.items(), ""))
        }
    }
}

/// The one type of all items.
pub(super) fn common_type(live: &Tree, patch: &Tree) -> Result<&'static str, PatchError> {
    let mut words = live.items().iter().chain(patch.items()).map(Tree::type_word);
    match words.next() {
        None => confused("no elements in any of the given slices".into()),
        Some("array") => Err(PatchError::Unfit("lists of lists are not supported".into())),
        Some(first) if words.all(|word| word == first) => Ok(first),
        Some(_) => {
            confused(format!("list element types are not identical: [{} {}]", spelled(live), spelled(patch)))
        }
    }
}

fn without_items(live: &Tree, gone: &Tree) -> Tree {
    Tree::list(live.items().iter().filter(|v| !gone.items().contains(v)).cloned())
}

fn merge_maps(view: View<'_>, live: &Tree, patch: &Tree, key: &str) -> Result<Tree, PatchError> {
    if key.is_empty() {
        return confused("cannot merge lists without merge key".into());
    }
    let (live, patch) = obey_directives(live, patch, key)?;
    let item_view = view.item().unwrap_or(view);
    let mut merged = live.clone();
    for change in &patch {
        let value = key_of(change, key)?;
        match merged.iter().position(|item| item.get(key) == Some(value)) {
            Some(at) => merged[at] = merge_map(item_view, &merged[at], change)?,
            None => merged.push(change.clone()),
        }
    }
    for item in merged.iter().chain(&live) {
        key_of(item, key)?;
    }
    Ok(arrange(merged, &patch, &live, key))
}

/// The merge key of an item.
pub(super) fn key_of<'a>(item: &'a Tree, key: &str) -> Result<&'a Tree, PatchError> {
    match item.get(key) {
        Some(value) => Ok(value),
        None => confused(format!("map: {} does not contain declared merge key: {key}", spelled(item))),
    }
}

/// Carries out the `$patch` items: the live items that stay, and the items left to merge.
fn obey_directives(live: &Tree, patch: &Tree, key: &str) -> Result<(Vec<Tree>, Vec<Tree>), PatchError> {
    let mut live = live.items().to_vec();
    let mut rest = Vec::new();
    let mut is_replaced = false;
    for item in patch.items() {
        match item.get(PATCH).map(|directive| directive.as_str().unwrap_or_default()) {
            None => rest.push(item.clone()),
            Some("delete") => {
                let gone = key_of(item, key)?;
                live.retain(|old| old.get(key) != Some(gone));
            }
            Some("replace") => is_replaced = true,
            Some("merge") => return confused("merging lists cannot yet be specified in the patch".into()),
            Some(other) => return confused(format!("unknown patch type: {other} in map: {}", spelled(item))),
        }
    }
    Ok(if is_replaced { (rest, Vec::new()) } else { (live, rest) })
}
