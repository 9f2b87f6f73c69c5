//! Labels as sorted lists of pairs.

pub use muster_api::selector::{LabelSelector, find_label as find};
use muster_tree::{Text, Tree};

/// Labels, sorted by key.
pub type Labels = Vec<(Text, Text)>;

/// The labels in a tree.
#[must_use]
pub fn read(entries: &[(Text, Tree)]) -> Labels {
    entries.iter().filter_map(|(key, value)| Some((key.clone(), value.as_text()?.clone()))).collect()
}

/// The strings of a list.
#[must_use]
pub fn texts(items: &[Tree]) -> Vec<Text> {
    items.iter().filter_map(|item| item.as_text().cloned()).collect()
}
