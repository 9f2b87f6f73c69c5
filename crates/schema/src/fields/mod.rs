//! Field sets in the format of `managedFields` (FieldsV1).
//!
//! A set is a tree of path elements: `f:<name>` for a field or map key, `k:<json>` for a list item with these key fields,
//! `v:<json>` for an item of a set. An element with an empty tree is in the set; one with a non-empty tree is in the set
//! if it contains `.`, and otherwise only leads to elements below.
//!
//! # Guarantees
//!
//! - Every element leads to a member: the empty set is the empty map.
//! - Operations share unchanged branches, and their cost is that of the smaller operand.
//! - Sets contain paths: a member `a` does not imply `a.b`. Only [`exclude`] removes paths below a member.

mod compare;
mod of;
mod paths;
mod remove;
#[cfg(test)]
mod tests;
mod topology;

use muster_tree::{Text, Tree, literal};

pub use compare::{Delta, compare};
pub use of::{named, of};
pub use paths::paths;
pub use remove::remove;
pub(crate) use topology::{Topology, key_of, topology};

/// Marks that the place itself is in the set.
const SELF: &str = ".";

/// Whether a set has no fields.
#[must_use]
pub fn is_empty(set: &Tree) -> bool {
    set.entries().is_empty()
}

/// Fields in either set.
#[must_use]
pub fn union(a: &Tree, b: &Tree) -> Tree {
    match (is_empty(a), is_empty(b)) {
        (_, true) => a.clone(),
        (true, _) => b.clone(),
        _ => join(a, b),
    }
}

/// Fields of `a` that are not in `b`.
#[must_use]
pub fn difference(a: &Tree, b: &Tree) -> Tree {
    cut(a, b, false, &|a, b| part(a, b, is_member(a) && !is_member(b))).unwrap_or_else(Tree::empty_map)
}

/// Fields in both sets.
#[must_use]
pub fn intersection(a: &Tree, b: &Tree) -> Tree {
    common(a, b, false).unwrap_or_else(Tree::empty_map)
}

/// Fields of `a` that are neither in `b` nor below a field of `b`.
#[must_use]
pub fn exclude(a: &Tree, b: &Tree) -> Tree {
    exclude_below(a, b, false).unwrap_or_else(Tree::empty_map)
}

/// Whether all fields of `b` are in `a`.
#[must_use]
pub fn contains(a: &Tree, b: &Tree) -> bool {
    is_empty(&difference(b, a))
}

/// The set of one field of an object, at the end of a path of names.
#[must_use]
pub fn at(path: &[&str]) -> Tree {
    path.iter().rev().fold(Tree::empty_map(), |below, name| Tree::map([(format!("f:{name}"), below)]))
}

/// Whether the element with this tree is itself in the set.
fn is_member(element: &Tree) -> bool {
    is_empty(element) || element.get(SELF).is_some()
}

/// The elements below a place.
fn children(place: &Tree) -> impl Iterator<Item = &(Text, Tree)> {
    place.entries().iter().filter(|(key, _)| key != SELF)
}

/// A place with these elements below it; `None` when there is nothing to say.
fn place(is_member: bool, mut below: Vec<(Text, Tree)>) -> Option<Tree> {
    match (below.is_empty(), is_member) {
        (true, true) => Some(Tree::empty_map()),
        (true, false) => None,
        (false, false) => Some(Tree::map(below)),
        (false, true) => {
            below.push((literal!("."), Tree::empty_map()));
            Some(Tree::map(below))
        }
    }
}

fn join(a: &Tree, b: &Tree) -> Tree {
    if a.same_branch(b) {
        return a.clone();
    }
    match (is_empty(a), is_empty(b)) {
        (true, true) => return a.clone(),
        (true, false) => return b.with_key(SELF, Tree::empty_map()),
        (false, true) => return a.with_key(SELF, Tree::empty_map()),
        _ => {}
    }
    let mut joined = a.clone();
    let mut fresh = Vec::new();
    for (key, theirs) in b.entries() {
        match a.get(key) {
            // Both members with nothing below, `.` included: the common case.
            Some(ours) if is_empty(ours) && is_empty(theirs) => {}
            Some(ours) => joined = joined.with_key(key, join(ours, theirs)),
            None => fresh.push((key.clone(), theirs.clone())),
        }
    }
    if fresh.is_empty() {
        return joined;
    }
    fresh.extend_from_slice(joined.entries());
    Tree::map(fresh)
}

/// What is left of an element that both sides have.
type Rest<'a> = &'a dyn Fn(&Tree, &Tree) -> Option<Tree>;

/// The place `a` with each element that `b` also has reduced to what `rest` leaves of it.
fn cut(a: &Tree, b: &Tree, keeps_self: bool, rest: Rest<'_>) -> Option<Tree> {
    let mut kept = a.clone();
    for (key, theirs) in children(b) {
        let Some(ours) = a.get(key) else { continue };
        kept = match rest(ours, theirs) {
            Some(left) => kept.with_key(key, left),
            None => kept.without_key(key),
        };
    }
    if kept.same_branch(a) && (keeps_self == a.get(SELF).is_some()) {
        return Some(kept);
    }
    let below = kept.without_key(SELF);
    match (is_empty(&below), keeps_self) {
        (true, true) => Some(Tree::empty_map()),
        (true, false) => None,
        (false, true) => Some(below.with_key(SELF, Tree::empty_map())),
        (false, false) => Some(below),
    }
}

/// Path by path difference of an element.
fn part(a: &Tree, b: &Tree, keeps_self: bool) -> Option<Tree> {
    if is_empty(a) {
        return keeps_self.then(|| a.clone());
    }
    cut(a, b, keeps_self, &|a, b| part(a, b, is_member(a) && !is_member(b)))
}

fn exclude_below(a: &Tree, b: &Tree, keeps_self: bool) -> Option<Tree> {
    if is_empty(a) {
        return keeps_self.then(|| a.clone());
    }
    cut(a, b, keeps_self, &|a, b| if is_member(b) { None } else { exclude_below(a, b, is_member(a)) })
}

fn common(a: &Tree, b: &Tree, is_member_of_both: bool) -> Option<Tree> {
    if a.same_branch(b) && (is_member_of_both || a.get(SELF).is_none()) {
        return (is_member_of_both || !is_empty(a)).then(|| a.clone());
    }
    let (few, many) = if a.entries().len() <= b.entries().len() { (a, b) } else { (b, a) };
    let both = children(few).filter_map(|(key, x)| {
        let y = many.get(key)?;
        Some((key.clone(), common(x, y, is_member(x) && is_member(y))?))
    });
    place(is_member_of_both, both.collect())
}
