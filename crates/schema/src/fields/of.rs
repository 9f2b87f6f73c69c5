//! The field set of an object.

use muster_tree::{Text, Tree};

use super::topology::{Topology, is_named, key_of, topology};
use super::{children, is_member, place};
use crate::node::View;

/// All fields of an object, as an applier owns them: leaves, items of lists, and free keys.
#[must_use]
pub fn of(view: View<'_>, tree: &Tree) -> Tree {
    below(Some(view), tree).1.unwrap_or_else(Tree::empty_map)
}

/// Whether the value is one field, and the elements below it.
fn below(view: Option<View<'_>>, value: &Tree) -> (bool, Option<Tree>) {
    match topology(view, value) {
        Topology::Whole => (true, None),
        Topology::Map => (false, place(false, entries(view, value))),
        Topology::List => (false, view.and_then(|view| place(false, items(view, value)))),
    }
}

fn entries(view: Option<View<'_>>, map: &Tree) -> Vec<(Text, Tree)> {
    let element = |(key, value): &(Text, Tree)| {
        let (is_whole, inner) = below(view.and_then(|view| view.below(key)), value);
        let is_bare = value.is_null() || (value.is_map() && value.is_empty());
        let is_member = is_whole || is_bare || !is_named(view, key);
        let inner = inner.map_or_else(Vec::new, |inner| inner.entries().to_vec());
        Some((Text::from(format!("f:{key}")), place(is_member, inner)?))
    };
    map.entries().iter().filter_map(element).collect()
}

fn items(view: View<'_>, list: &Tree) -> Vec<(Text, Tree)> {
    let mut all: Vec<(Text, Tree)> = list
        .items()
        .iter()
        .map(|item| {
            let inner = below(view.item(), item).1;
            let inner = inner.map_or_else(Vec::new, |inner| inner.entries().to_vec());
            (key_of(view, item), place(true, inner).expect("a member is never nothing"))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    // Items with duplicate keys are owned as one field, without the fields within them.
    for i in 1..all.len() {
        if all[i - 1].0 == all[i].0 {
            all[i - 1].1 = Tree::empty_map();
            all[i].1 = Tree::empty_map();
        }
    }
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

/// The set with every field that the schema names and that leads to something in the set.
#[must_use]
pub fn named(view: View<'_>, set: &Tree) -> Tree {
    name_below(Some(view), set)
}

fn name_below(view: Option<View<'_>>, set: &Tree) -> Tree {
    set.map_entries(|key, element| {
        if element.is_empty() {
            return Some(element.clone());
        }
        let (inner_view, is_name) = match key.strip_prefix("f:") {
            Some(name) => (view.and_then(|view| view.below(name)), is_named(view, name)),
            None => (view.and_then(View::item), false),
        };
        let inner = name_below(inner_view, element);
        if is_name && !is_member(element) {
            return place(true, children(&inner).cloned().collect());
        }
        Some(inner)
    })
}
