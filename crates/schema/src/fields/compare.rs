//! The difference of two objects as field sets.
//!
//! It runs on every write, so it visits only branches that the objects do not share.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use super::topology::{Topology, has_same_key, key_of, topology, zero};
use super::{exclude, is_empty, place};
use crate::node::View;

/// Beyond so many comparisons of keys it is cheaper to make all keys and sort them.
const KEY_COMPARISONS_MAX: usize = 64;

/// The fields in which two objects differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Delta {
    /// Fields that only the old one has.
    pub removed: Tree,
    /// Fields that only the new one has, or that differ.
    pub changed: Tree,
}

impl Delta {
    /// Returns whether the objects have no differing fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        is_empty(&self.removed) && is_empty(&self.changed)
    }

    /// The same without some fields and all that is below them.
    #[must_use]
    pub fn excluding(&self, ignored: &Tree) -> Self {
        Self { removed: exclude(&self.removed, ignored), changed: exclude(&self.changed, ignored) }
    }
}

/// Compares two versions of an object.
#[must_use]
pub fn compare(view: View<'_>, old: &Tree, new: &Tree) -> Delta {
    let pair = walk(Some(view), Some(old), Some(new));
    // The root of an object is not a field and has no owner.
    let inner = |element: Option<Tree>| element.map_or_else(Tree::empty_map, |e| e.without_key(super::SELF));
    Delta { removed: inner(pair.removed), changed: inner(pair.changed) }
}

/// The elements of one place in the two sets.
#[derive(Default)]
struct Pair {
    removed: Option<Tree>,
    changed: Option<Tree>,
}

/// A place in the two sets, under construction.
#[derive(Default)]
struct Place {
    removed: Vec<(Text, Tree)>,
    changed: Vec<(Text, Tree)>,
    is_removed: bool,
    is_changed: bool,
}

impl Place {
    fn add(&mut self, key: &Text, pair: Pair) {
        self.removed.extend(pair.removed.map(|element| (key.clone(), element)));
        self.changed.extend(pair.changed.map(|element| (key.clone(), element)));
    }

    fn finish(self) -> Pair {
        Pair { removed: place(self.is_removed, self.removed), changed: place(self.is_changed, self.changed) }
    }
}

fn walk(view: Option<View<'_>>, old: Option<&Tree>, new: Option<&Tree>) -> Pair {
    let mut place = Place::default();
    match (old, new) {
        (Some(old), Some(new)) if old.same_branch(new) => return Pair::default(),
        (Some(old), Some(new)) => {
            let (old_topology, new_topology) = (topology(view, old), topology(view, new));
            descend(view, old_topology, Some(old), Some(new), &mut place);
            // A value that changed its form is gone in the old form and there in the new one.
            if old_topology != new_topology {
                descend(view, new_topology, Some(old), Some(new), &mut place);
            }
        }
        (Some(old), None) => descend(view, topology(view, old), Some(old), None, &mut place),
        (None, Some(new)) => descend(view, topology(view, new), None, Some(new), &mut place),
        (None, None) => {}
    }
    place.finish()
}

fn descend(
    view: Option<View<'_>>,
    topology: Topology,
    old: Option<&Tree>,
    new: Option<&Tree>,
    place: &mut Place,
) {
    let has_elements = |value: Option<&Tree>| match topology {
        Topology::Whole => false,
        Topology::Map => value.is_some_and(|v| v.is_map() && (!v.is_empty() || has_always(view))),
        Topology::List => value.is_some_and(|v| v.is_list() && !v.is_empty()),
    };
    let is_leaf = !has_elements(old) && !has_elements(new);
    match (old, new) {
        (None, _) => place.is_changed = true,
        (_, None) => place.is_removed = true,
        (Some(old), Some(new)) if is_leaf && old != new => place.is_changed = true,
        _ => {}
    }
    match (topology, view) {
        _ if is_leaf => {}
        (Topology::Map, _) => maps(view, old, new, place),
        (Topology::List, Some(view)) => lists(view, old, new, place),
        _ => {}
    }
}

fn has_always(view: Option<View<'_>>) -> bool {
    view.is_some_and(|view| !view.node().always.is_empty())
}

fn maps(view: Option<View<'_>>, old: Option<&Tree>, new: Option<&Tree>, place: &mut Place) {
    let (old, new) = (old.map(|map| completed(view, map)), new.map(|map| completed(view, map)));
    let entries = |map: &'_ Option<Cow<'_, Tree>>| map.as_ref().map_or(0, |map| map.entries().len());
    let (old_len, new_len) = (entries(&old), entries(&new));
    let (mut o, mut n) = (0, 0);
    while o < old_len || n < new_len {
        let left = old.as_ref().and_then(|map| map.entries().get(o));
        let right = new.as_ref().and_then(|map| map.entries().get(n));
        let order = match (left, right) {
            (Some(left), Some(right)) => left.0.cmp(&right.0),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let (left, right) = (left.filter(|_| order.is_le()), right.filter(|_| order.is_ge()));
        (o, n) = (o + usize::from(order.is_le()), n + usize::from(order.is_ge()));
        entry(view, left, right, place);
    }
}

/// Compares what stands under one key.
fn entry(
    view: Option<View<'_>>,
    left: Option<&(Text, Tree)>,
    right: Option<&(Text, Tree)>,
    place: &mut Place,
) {
    if let (Some((_, old)), Some((_, new))) = (left, right)
        && (old.same_branch(new) || (is_scalar(old) && old == new))
    {
        return;
    }
    let Some((key, _)) = left.or(right) else { return };
    let below = view.and_then(|view| view.below(key));
    let pair = walk(below, left.map(|entry| &entry.1), right.map(|entry| &entry.1));
    if pair.removed.is_some() || pair.changed.is_some() {
        place.add(&Text::from(["f:", key].concat()), pair);
    }
}

fn is_scalar(value: &Tree) -> bool {
    !value.is_map() && !value.is_list()
}

/// The map with the fields that every object of this type has.
fn completed<'a>(view: Option<View<'_>>, map: &'a Tree) -> Cow<'a, Tree> {
    let Some(view) = view else { return Cow::Borrowed(map) };
    let missing = view.node().always.iter().filter(|key| map.get(key).is_none());
    let missing: Vec<(Text, Tree)> =
        missing.filter_map(|key| Some((key.clone(), zero(view.below(key)?)))).collect();
    if missing.is_empty() {
        return Cow::Borrowed(map);
    }
    Cow::Owned(Tree::map(map.entries().iter().cloned().chain(missing)))
}

fn lists(view: View<'_>, old: Option<&Tree>, new: Option<&Tree>, place: &mut Place) {
    let (old, new) = (old.map(Tree::items).unwrap_or_default(), new.map(Tree::items).unwrap_or_default());
    let (old, new) = unshared(view, old, new);
    if let ([old], [new]) = (old, new)
        && has_same_key(view, old, new)
    {
        let pair = walk(view.item(), Some(old), Some(new));
        if pair.removed.is_some() || pair.changed.is_some() {
            place.add(&key_of(view, new), pair);
        }
        return;
    }
    let mut all: BTreeMap<Text, (Vec<&Tree>, Vec<&Tree>)> = BTreeMap::new();
    for item in old {
        all.entry(key_of(view, item)).or_default().0.push(item);
    }
    for item in new {
        all.entry(key_of(view, item)).or_default().1.push(item);
    }
    for (key, (old, new)) in all {
        place.add(&key, items(view, &old, &new));
    }
}

/// Both lists without the items that they share at the beginning and at the end: most changes touch one item, and
/// making keys is what costs. Repeated items must be seen together, so lists that may have some stay whole.
fn unshared<'a>(view: View<'_>, old: &'a [Tree], new: &'a [Tree]) -> (&'a [Tree], &'a [Tree]) {
    let begun = old.iter().zip(new).take_while(|(a, b)| a.same_branch(b)).count();
    let (old_rest, new_rest) = (&old[begun..], &new[begun..]);
    let ended =
        old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a.same_branch(b)).count();
    let old_middle = &old_rest[..old_rest.len() - ended];
    let new_middle = &new_rest[..new_rest.len() - ended];
    let shared = || old[..begun].iter().chain(&old_rest[old_middle.len()..]);
    let middle = old_middle.len() + new_middle.len();
    let is_cheap = middle * (begun + ended) <= KEY_COMPARISONS_MAX;
    let repeats = |item: &Tree| shared().any(|known| has_same_key(view, known, item));
    if is_cheap && !old_middle.iter().chain(new_middle).any(repeats) {
        return (old_middle, new_middle);
    }
    (old, new)
}

/// Compares the items of one key; there should be one on each side, but lists may be ill-formed.
fn items(view: View<'_>, old: &[&Tree], new: &[&Tree]) -> Pair {
    let item = view.item();
    let one = |items: &[&Tree]| walk(item, items.first().copied(), None).removed;
    match (old, new) {
        ([] | [_], [] | [_]) => walk(item, old.first().copied(), new.first().copied()),
        ([_, _, ..], [_, _, ..]) => Pair { removed: None, changed: (old != new).then(Tree::empty_map) },
        // Repeated items were one field; what is left of them is there anew.
        ([_, _, ..], _) => {
            Pair { removed: Some(Tree::empty_map()), changed: walk(item, None, new.first().copied()).changed }
        }
        (_, [_, _, ..]) => Pair { removed: one(old), changed: Some(Tree::empty_map()) },
    }
}
