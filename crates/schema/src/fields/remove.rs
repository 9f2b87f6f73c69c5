//! Removes the fields of a set from an object.

use muster_tree::Tree;

use super::topology::{Topology, key_of, topology};
use super::{children, is_member};
use crate::node::View;

/// Removes these fields from an object. A list or map that becomes empty and is not itself in the set becomes `null`:
/// the field still exists for its owners.
#[must_use]
pub fn remove(view: View<'_>, tree: &Tree, set: &Tree) -> Tree {
    if set.is_empty() { tree.clone() } else { remove_below(Some(view), tree, set) }
}

fn remove_below(view: Option<View<'_>>, value: &Tree, set: &Tree) -> Tree {
    match topology(view, value) {
        Topology::Map => {
            let left = value.map_entries(|key, inner| {
                let below = view.and_then(|view| view.below(key));
                reduced(below, inner, set.get(&format!("f:{key}")))
            });
            if left.is_empty() { Tree::Null } else { left }
        }
        Topology::List => {
            let Some(list) = view else { return value.clone() };
            let left = value.items().iter().filter_map(|item| {
                let element = set.get(&key_of(list, item));
                reduced(list.item(), item, element)
            });
            let left: Vec<Tree> = left.collect();
            if left.is_empty() { Tree::Null } else { Tree::list(left) }
        }
        Topology::Whole if value.is_map() || value.is_list() => Tree::Null,
        Topology::Whole => value.clone(),
    }
}

fn reduced(view: Option<View<'_>>, value: &Tree, element: Option<&Tree>) -> Option<Tree> {
    match element {
        None => Some(value.clone()),
        Some(element) if is_member(element) => None,
        Some(element) if children(element).next().is_none() => Some(value.clone()),
        Some(element) => Some(remove_below(view, value, element)),
    }
}
