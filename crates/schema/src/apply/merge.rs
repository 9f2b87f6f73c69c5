//! Merges a configuration into an object: scalars replace, maps merge by key, lists by item.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::{Text, Tree};

use crate::fields::{Topology, key_of, topology};
use crate::node::View;

/// Merges the configuration into the live object.
pub(super) fn merge(view: View<'_>, live: &Tree, applied: &Tree) -> Tree {
    merge_value(Some(view), live, applied)
}

fn merge_value(view: Option<View<'_>>, live: &Tree, applied: &Tree) -> Tree {
    if live == applied {
        return live.clone();
    }
    match (topology(view, applied), live, applied) {
        (Topology::Map, Tree::Map(_), Tree::Map(_)) if !(live.is_empty() && applied.is_empty()) => {
            merge_maps(view, live, applied)
        }
        (Topology::List, Tree::List(_), Tree::List(_)) if !(live.is_empty() && applied.is_empty()) => {
            view.map_or_else(|| applied.clone(), |view| merge_lists(view, live, applied))
        }
        // `null` clears a scalar, but does not remove the items of a granular list or map.
        (Topology::Map | Topology::List, Tree::Map(_) | Tree::List(_), Tree::Null) if !live.is_empty() => {
            live.clone()
        }
        _ => applied.clone(),
    }
}

fn merge_maps(view: Option<View<'_>>, live: &Tree, applied: &Tree) -> Tree {
    applied.entries().iter().fold(live.clone(), |merged, (key, value)| {
        let new = match live.get(key) {
            Some(old) => merge_value(view.and_then(|view| view.below(key)), old, value),
            None => value.clone(),
        };
        if live.get(key) == Some(&new) { merged } else { merged.with_key(key, new) }
    })
}

/// The items of a list by key; a duplicate key has no item to merge with.
struct Keyed<'a> {
    keys: Vec<Text>,
    items: &'a [Tree],
    by_key: BTreeMap<Text, Option<&'a Tree>>,
}

impl<'a> Keyed<'a> {
    fn of(view: View<'_>, list: &'a Tree) -> Self {
        let items = list.items();
        let keys: Vec<Text> = items.iter().map(|item| key_of(view, item)).collect();
        let mut by_key = BTreeMap::new();
        for (key, item) in keys.iter().zip(items) {
            by_key.entry(key.clone()).and_modify(|known| *known = None).or_insert(Some(item));
        }
        Self { keys, items, by_key }
    }
}

/// Merges by item. The order of the configuration takes precedence; items that only the live list has keep their
/// position relative to common items.
fn merge_lists(view: View<'_>, live: &Tree, applied: &Tree) -> Tree {
    let (old, new) = (Keyed::of(view, live), Keyed::of(view, applied));
    let merge_item = |key: &Text| match (old.by_key.get(key), new.by_key.get(key)) {
        (Some(Some(old)), Some(Some(new))) => merge_value(view.item(), old, new),
        (_, Some(Some(new))) => (*new).clone(),
        _ => Tree::Null,
    };
    let mut shared = new.keys.iter().filter(|key| old.by_key.contains_key(*key)).peekable();
    let mut merged: Vec<Tree> = Vec::with_capacity(old.keys.len().max(new.keys.len()));
    let mut done: BTreeSet<&Text> = BTreeSet::new();
    let (mut o, mut n) = (0, 0);
    while o < old.keys.len() || n < new.keys.len() {
        if let (Some(left), Some(right)) = (old.keys.get(o), new.keys.get(n)) {
            if left == right {
                done.insert(left);
                merged.push(merge_item(left));
                (o, n) = (o + 1, n + 1);
                shared.next();
                continue;
            }
            // A common item that comes later in the new order.
            if new.by_key.contains_key(left) && shared.peek().is_some_and(|next| *next != left) {
                o += 1;
                continue;
            }
        }
        if let Some(left) = old.keys.get(o) {
            if !new.by_key.contains_key(left) {
                merged.push(old.items[o].clone());
                o += 1;
                continue;
            }
            if done.contains(left) {
                o += 1;
            }
        }
        if let Some(right) = new.keys.get(n) {
            done.insert(right);
            merged.push(merge_item(right));
            n += 1;
            shared.next_if(|next| *next == right);
        }
    }
    Tree::list(merged)
}
