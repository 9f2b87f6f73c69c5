//! Server-side apply and field ownership (`metadata.managedFields`).
//!
//! Every field manager has an entry in `metadata.managedFields`. An applier owns the fields of its last configuration: a
//! field that it omits next time is removed unless another manager owns it. An updater owns the fields it changed.
//!
//! # Guarantees
//!
//! - A field has several owners only while they agree on its value.
//! - The cost of [`update`] is proportional to the difference of the two objects: shared branches are skipped.
//! - Entries are sorted as upstream sorts them, and an entry without fields is removed.
//!
//! # Deliberately absent
//!
//! Conversion. Entries of another version of the kind are taken as if they named fields of this one. And a schema
//! that turns a list or map from atomic to granular, or back, does not rewrite old entries.

mod check;
mod conflict;
mod kubectl;
mod managers;
mod merge;
mod prune;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use muster_tree::{Text, Tree};

pub use check::check;
pub use conflict::{Conflict, message};
pub use managers::of_request;

use crate::fields::{self, Delta};
use crate::node::View;
use crate::object::{Managed, StoredObject};

/// Owns the fields of an object that was never tracked, from the first apply on.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// The field manager of a write, and how it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The field manager; empty means `unknown`.
    pub manager: Text,
    /// The version in which the request names fields, e.g. `batch/v1`.
    pub api_version: Text,
    /// The subresource written through; empty for the main one.
    pub subresource: Text,
    /// Now, RFC 3339 in whole seconds.
    pub time: Text,
}

/// Tracks an update or patch: the writer becomes the owner of changed fields, and removed fields lose all owners.
///
/// `live` is what was stored before, `None` when the object is new. An object that exists without being tracked
/// (its `managed` is empty: tracking was reset) stays so. `ignored` are fields this endpoint cannot own.
#[must_use]
pub fn update(
    view: View<'_>,
    live: Option<&StoredObject>,
    new: &Tree,
    writer: &Writer,
    ignored: &Tree,
) -> Arc<[Managed]> {
    let nothing = Tree::empty_map();
    let old = match live {
        Some(live) if live.managed.is_empty() => return live.managed.clone(),
        Some(live) => &live.tree,
        None => &nothing,
    };
    let delta = fields::compare(view, old, new).excluding(ignored);
    match live {
        Some(live) if delta.is_empty() => live.managed.clone(),
        Some(live) => track(&live.managed, &delta, writer),
        None => track(&[], &delta, writer),
    }
}

/// The entries after a write by update.
fn track(managed: &[Managed], delta: &Delta, writer: &Writer) -> Arc<[Managed]> {
    let taken = fields::union(&delta.changed, &delta.removed);
    let mut all = managers::without(managed, &taken, |_| true);
    let own = fields::difference(&delta.changed, managers::untracked());
    if !fields::is_empty(&own) {
        let before = managed.iter().find(|entry| managers::is_updater(entry, writer));
        let before = before.map(|entry| fields::difference(&entry.fields, &taken));
        all.retain(|entry| !managers::is_updater(entry, writer));
        all.push(Managed {
            manager: managers::name(writer),
            applied: false,
            api_version: writer.api_version.clone(),
            subresource: writer.subresource.clone(),
            time: writer.time.clone(),
            fields: before.map_or_else(|| own.clone(), |before| fields::union(&before, &own)),
        });
    }
    managers::cap(&mut all);
    managers::sort(&mut all);
    all.into()
}

/// Entries in the order in which Kubernetes shows them.
#[must_use]
pub fn sorted(mut all: Vec<Managed>) -> Arc<[Managed]> {
    managers::sort(&mut all);
    all.into()
}

/// Applies a configuration to an object.
///
/// `live` is the stored object, or an empty one when there is none. The configuration must have passed [`check`].
/// The result still has to be defaulted, admitted and validated; its revision is that of `live`.
///
/// # Errors
///
/// Fields that others own with another value, unless `force` takes them.
pub fn apply(
    view: View<'_>,
    live: &StoredObject,
    applied: &Tree,
    writer: &Writer,
    force: bool,
    ignored: &Tree,
) -> Result<StoredObject, Vec<Conflict>> {
    let managed = tracked(view, live, writer, ignored);
    let result = attempt(view, live, &managed, applied, writer, force, ignored);
    if writer.manager != kubectl::MANAGER {
        return result;
    }
    let result = match result {
        Err(conflicts) if kubectl::allows(view, &live.tree, &conflicts, &writer.api_version) => {
            attempt(view, live, &managed, applied, writer, true, ignored)
        }
        Err(conflicts) => Err(kubectl::disallowed(view, &live.tree, conflicts, &writer.api_version)),
        done => done,
    };
    result.map(|object| kubectl::sync_last_applied(object, applied))
}

/// The entries of an object; one that was never tracked is owned by [`BEFORE_FIRST_APPLY`].
fn tracked(view: View<'_>, live: &StoredObject, writer: &Writer, ignored: &Tree) -> Arc<[Managed]> {
    if !live.managed.is_empty() {
        return live.managed.clone();
    }
    let delta = fields::compare(view, &Tree::empty_map(), &live.tree).excluding(ignored);
    let before = Writer { manager: Text::from(BEFORE_FIRST_APPLY), ..writer.clone() };
    track(&[], &delta, &before)
}

fn attempt(
    view: View<'_>,
    live: &StoredObject,
    managed: &[Managed],
    applied: &Tree,
    writer: &Writer,
    force: bool,
    ignored: &Tree,
) -> Result<StoredObject, Vec<Conflict>> {
    let set = fields::exclude(&fields::of(view, applied), ignored);
    let last = managed.iter().find(|entry| managers::is_applier(entry, writer));
    let others = || managed.iter().filter(|entry| !managers::is_applier(entry, writer));
    let merged = merge::merge(view, &live.tree, applied);
    let pruned = match last {
        Some(last) => {
            let owned = others().fold(set.clone(), |all, entry| fields::union(&all, &entry.fields));
            prune::prune(view, &merged, &last.fields, &owned)
        }
        None => merged.clone(),
    };
    let delta = fields::compare(view, &live.tree, &pruned).excluding(ignored);
    let conflicts = conflict::find(others(), &delta.changed);
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    let taken = fields::union(&delta.changed, &delta.removed);
    let mut all = managers::without(managed, &taken, |entry| !managers::is_applier(entry, writer));
    all.retain(|entry| !managers::is_applier(entry, writer));
    let is_changed = pruned != live.tree;
    let own = fields::difference(&set, managers::untracked());
    if !fields::is_empty(&own) {
        // The time is that of the last change; an apply without changes keeps it, so that a repeated apply writes nothing.
        let before = last.map(|last| last.time.clone()).unwrap_or_default();
        all.push(Managed {
            manager: managers::name(writer),
            applied: true,
            api_version: writer.api_version.clone(),
            subresource: writer.subresource.clone(),
            time: if is_changed { writer.time.clone() } else { before },
            fields: own,
        });
    }
    managers::sort(&mut all);
    let tree = if is_changed { prune::settle(view, &merged, &pruned) } else { live.tree.clone() };
    Ok(StoredObject { tree, managed: all.into(), revision: live.revision })
}
