//! Helpers for the tests of this crate.

use std::collections::BTreeSet;

use muster_tree::{Text, Tree};

/// Where two trees differ, in words that fit on a screen.
pub(crate) fn differences(found: &Tree, want: &Tree) -> Vec<String> {
    differences_below("", found, want)
}

fn differences_below(path: &str, found: &Tree, want: &Tree) -> Vec<String> {
    if found.is_map() && want.is_map() {
        let keys: BTreeSet<&Text> =
            found.entries().iter().chain(want.entries()).map(|(key, _)| key).collect();
        let at = |tree: &Tree, key: &str| tree.get(key).cloned().unwrap_or_default();
        let below = |key: &Text| differences_below(&format!("{path}.{key}"), &at(found, key), &at(want, key));
        return keys.into_iter().flat_map(below).collect();
    }
    if found.items().len() == want.items().len() && found.is_list() && want.is_list() {
        let pairs = found.items().iter().zip(want.items()).enumerate();
        return pairs.flat_map(|(i, (a, b))| differences_below(&format!("{path}[{i}]"), a, b)).collect();
    }
    if found == want { Vec::new() } else { vec![format!("{path}: {found}, not {want}")] }
}
