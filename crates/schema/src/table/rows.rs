//! Loads the rows of kinds.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use super::{KindName, KindRow, SubRow};
use crate::node::NodeId;

/// The rows under `kinds`.
pub(super) fn read(data: &Tree, roots: &BTreeMap<KindName, NodeId>) -> Vec<KindRow> {
    data.items_at(&["kinds"]).iter().map(|row| kind(row, roots)).collect()
}

fn kind(row: &Tree, roots: &BTreeMap<KindName, NodeId>) -> KindRow {
    let name = kind_name(row);
    let root = *roots.get(&name).unwrap_or_else(|| panic!("no schema for {name:?}"));
    let (group, version, kind) = name;
    KindRow {
        group,
        version,
        kind,
        plural: row.text_at(&["plural"]),
        singular: row.text_at(&["singular"]),
        list_kind: row.text_at(&["listKind"]),
        namespaced: row.bool_at(&["namespaced"]).unwrap_or(false),
        verbs: texts(row, "verbs"),
        short_names: texts(row, "shortNames"),
        categories: texts(row, "categories"),
        subresources: row.items_at(&["subresources"]).iter().map(sub).collect(),
        root,
    }
}

fn sub(row: &Tree) -> SubRow {
    SubRow { name: row.text_at(&["name"]), response_kind: kind_name(row), verbs: texts(row, "verbs") }
}

/// Group, version and kind of an entry that spells them.
pub(super) fn kind_name(entry: &Tree) -> KindName {
    (entry.text_at(&["group"]), entry.text_at(&["version"]), entry.text_at(&["kind"]))
}

/// A list of texts under a key.
pub(super) fn texts(entry: &Tree, key: &str) -> Vec<Text> {
    entry.items_at(&[key]).iter().filter_map(Tree::as_text).cloned().collect()
}
