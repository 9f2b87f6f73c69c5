//! Lists: a page of one resource, of now or of an earlier revision.
//!
//! An earlier revision is the present state with the history undone: for each object that changed since, the
//! `before` of its first later change.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound;

use muster_tree::Text;

use crate::state::{Name, Shelf, State};
use crate::{Expired, Object, Page, Range};

/// What an object was at an earlier revision; `None` when it did not exist.
type Undone<'a> = BTreeMap<Name, Option<&'a Object>>;

impl State {
    /// The part of `resource` that `range` asks for.
    pub(crate) fn list(&self, resource: &str, range: &Range) -> Result<Page, Expired> {
        let revision = range.revision.unwrap_or(self.revision()).min(self.revision());
        let Some(shelf) = self.shelf(resource) else {
            return Ok(Page { objects: Vec::new(), revision, remaining: 0 });
        };
        let undone = shelf.undone(revision, range)?;
        let mut found = merged(shelf.within(range), &undone);
        let objects = found.by_ref().take(range.limit.unwrap_or(usize::MAX)).cloned().collect();
        Ok(Page { objects, revision, remaining: found.count() })
    }
}

impl Shelf {
    /// The present objects of the range, in order.
    fn within<'a>(&'a self, range: &'a Range) -> impl Iterator<Item = (&'a Name, &'a Object)> {
        let from = start(range);
        let objects = self.objects.range((from, Bound::Unbounded));
        objects.take_while(|(name, _)| fits(range, name))
    }

    /// What the objects of the range that changed after `revision` were at it.
    fn undone(&self, revision: u64, range: &Range) -> Result<Undone<'_>, Expired> {
        let mut undone = Undone::new();
        for record in self.ring.after(revision)?.rev() {
            let name = (record.key.namespace.clone(), record.key.name.clone());
            if holds(range, &name) {
                undone.insert(name, record.before.as_ref());
            }
        }
        Ok(undone)
    }
}

/// Where the range begins.
fn start(range: &Range) -> Bound<Name> {
    let first = range.namespace.as_ref().map(|namespace| (namespace.clone(), range.beginning.clone()));
    match (first, &range.after) {
        (Some(first), Some(after)) if first > *after => Bound::Included(first),
        (_, Some(after)) => Bound::Excluded(after.clone()),
        (Some(first), None) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    }
}

/// Whether `name` is in the namespace of the range and begins as it asks.
fn fits(range: &Range, name: &Name) -> bool {
    let is_there = |only: &Text| name.0 == *only && name.1.starts_with(range.beginning.as_str());
    range.namespace.as_ref().is_none_or(is_there)
}

/// Whether `name` is in the range.
fn holds(range: &Range, name: &Name) -> bool {
    fits(range, name) && range.after.as_ref().is_none_or(|after| name > after)
}

/// The objects of `now`, replaced by what `undone` says of them, in order.
fn merged<'a>(
    now: impl Iterator<Item = (&'a Name, &'a Object)>,
    undone: &Undone<'a>,
) -> impl Iterator<Item = &'a Object> {
    let mut now = now.filter(|(name, _)| !undone.contains_key(*name)).peekable();
    let mut then = undone.iter().filter_map(|(name, object)| object.map(|o| (name, o))).peekable();
    iter::from_fn(move || match (now.peek(), then.peek()) {
        (Some((a, _)), Some((b, _))) if b < a => then.next().map(|(_, object)| object),
        (None, _) => then.next().map(|(_, object)| object),
        _ => now.next().map(|(_, object)| object),
    })
}
