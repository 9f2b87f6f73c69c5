//! Sets and map lists: detection of duplicates, and correlation with stored items by key.

use std::collections::HashSet;
use std::hash::Hash;

use muster_tree::{Text, Tree};

use super::Walk;
use crate::error::FieldError;
use crate::node::{ListKind, View};
use crate::path::Path;

/// Up to this many items a plain scan is cheaper than a table.
const SCAN_MAX: usize = 16;

impl Walk {
    pub(super) fn check_unique(&mut self, view: View<'_>, items: &[Tree], path: &Path<'_>) {
        match &view.node().list {
            ListKind::Atomic => {}
            ListKind::Set => self.report_twins(items, path, Tree::clone),
            ListKind::Map(_) if !items.iter().all(Tree::is_map) => self.report_strangers(items, path),
            ListKind::Map(keys) => {
                let all: Vec<_> = items.iter().map(|item| key_of(view, keys, item)).collect();
                self.report_twins(&all, path, |key| {
                    let present = keys.iter().zip(key).filter_map(|(k, v)| Some((k.clone(), (*v)?.clone())));
                    Tree::map(present)
                });
            }
        }
    }

    fn report_strangers(&mut self, items: &[Tree], path: &Path<'_>) {
        const DETAIL: &str = "must be an object for an array of list-type map";
        for (index, item) in items.iter().enumerate().filter(|(_, item)| !item.is_map()) {
            self.lists.push(FieldError::invalid(path.item(index).to_string(), item, DETAIL));
        }
    }

    /// Reports the second of each group of equals.
    fn report_twins<K: Eq + Hash>(&mut self, keys: &[K], path: &Path<'_>, show: impl Fn(&K) -> Tree) {
        let mut seen = (keys.len() > SCAN_MAX).then(HashSet::new);
        let mut reported: Vec<&K> = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            let twin = match &mut seen {
                Some(seen) => !seen.insert(key),
                None => keys[..index].contains(key),
            };
            if twin && !reported.contains(&key) {
                reported.push(key);
                self.lists.push(FieldError::duplicate(path.item(index).to_string(), show(key)));
            }
        }
    }
}

/// The values of the key fields; a missing one counts as its default.
fn key_of<'t>(view: View<'t>, keys: &[Text], item: &'t Tree) -> Vec<Option<&'t Tree>> {
    keys.iter().map(|key| key_value(view, key, item)).collect()
}

fn key_value<'t>(view: View<'t>, key: &str, item: &'t Tree) -> Option<&'t Tree> {
    item.get(key).or_else(|| view.item()?.below(key)?.node().default.as_ref())
}

/// The item of the stored list `old` that has the same key as `item`; none in lists without keys.
pub(crate) fn correlate<'t>(view: View<'t>, old: &'t Tree, item: &Tree) -> Option<&'t Tree> {
    let ListKind::Map(keys) = &view.node().list else {
        return None;
    };
    let same = |key: &Text, other: &Tree| key_value(view, key, item) == key_value(view, key, other);
    old.items().iter().find(|other| keys.iter().all(|key| same(key, other)))
}
