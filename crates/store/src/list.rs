//! Lists: a page of one resource at the published or an earlier revision.
//!
//! An earlier revision is reconstructed by undoing the history: for each object that changed since, the `before` state
//! of its first later change.

use std::collections::BTreeMap;
use std::iter;
use std::ops::Bound;

use muster_tree::Text;

use crate::state::{Name, ResourceState, State};
use crate::{Expired, Page, Range, StoredObject};

/// States of objects at an earlier revision; `None` for an object that did not exist.
type Undone<'a> = BTreeMap<Name, Option<&'a StoredObject>>;

impl State {
    /// Lists the objects of a resource that `range` selects.
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

impl ResourceState {
    /// The current objects of the range, in key order.
    fn within<'a>(&'a self, range: &'a Range) -> impl Iterator<Item = (&'a Name, &'a StoredObject)> {
        let from = start(range);
        let objects = self.objects.range((from, Bound::Unbounded));
        objects.take_while(|(name, _)| fits(range, name))
    }

    /// The states at `revision` of the objects of the range that changed after it.
    fn undone(&self, revision: u64, range: &Range) -> Result<Undone<'_>, Expired> {
        let mut undone = Undone::new();
        for record in self.ring.after(revision)?.rev() {
            let name = (record.key.namespace.clone(), record.key.name.clone());
            if holds(range, &name) {
                // Newest to oldest: the last insert is the first change after `revision`, whose `before` is the wanted state.
                undone.insert(name, record.before.as_ref());
            }
        }
        Ok(undone)
    }
}

/// The lower bound of the range.
fn start(range: &Range) -> Bound<Name> {
    let first = range.namespace.as_ref().map(|namespace| (namespace.clone(), range.beginning.clone()));
    match (first, &range.after) {
        (Some(first), Some(after)) if first > *after => Bound::Included(first),
        (_, Some(after)) => Bound::Excluded(after.clone()),
        (Some(first), None) => Bound::Included(first),
        (None, None) => Bound::Unbounded,
    }
}

/// Returns whether `name` matches the namespace and prefix of the range.
fn fits(range: &Range, name: &Name) -> bool {
    let is_there = |only: &Text| name.0 == *only && name.1.starts_with(range.beginning.as_str());
    range.namespace.as_ref().is_none_or(is_there)
}

/// Returns whether `name` is in the range.
fn holds(range: &Range, name: &Name) -> bool {
    fits(range, name) && range.after.as_ref().is_none_or(|after| name > after)
}

/// Merges the current objects with the states in `undone`, in key order.
fn merged<'a>(
    now: impl Iterator<Item = (&'a Name, &'a StoredObject)>,
    undone: &Undone<'a>,
) -> impl Iterator<Item = &'a StoredObject> {
    let mut now = now.filter(|(name, _)| !undone.contains_key(*name)).peekable();
    let mut then = undone.iter().filter_map(|(name, object)| object.map(|o| (name, o))).peekable();
    iter::from_fn(move || match (now.peek(), then.peek()) {
        (Some((a, _)), Some((b, _))) if b < a => then.next().map(|(_, object)| object),
        (None, _) => then.next().map(|(_, object)| object),
        _ => now.next().map(|(_, object)| object),
    })
}
