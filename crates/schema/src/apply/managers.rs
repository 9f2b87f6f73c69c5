//! The entries of `managedFields`: identity, order and number.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use muster_tree::{Text, Tree, tree};

use super::Writer;
use crate::fields;
use crate::object::Managed;

/// Largest number of updater entries, upstream's limit.
const UPDATERS_MAX: usize = 10;
/// Manager that the oldest updater entries are merged into, upstream's name.
const ANCIENT: &str = "ancient-changes";

/// Fields without owners: the server sets them.
pub(super) fn untracked() -> &'static Tree {
    static FIELDS: OnceLock<Tree> = OnceLock::new();
    FIELDS.get_or_init(|| {
        tree!({
            "f:apiVersion": {},
            "f:kind": {},
            "f:metadata": {".": {}, "f:name": {}, "f:namespace": {}, "f:creationTimestamp": {}, "f:selfLink": {},
                "f:uid": {}, "f:clusterName": {}, "f:generation": {}, "f:managedFields": {}, "f:resourceVersion": {}},
        })
    })
}

/// The name of the field manager.
pub(super) fn name(writer: &Writer) -> Text {
    if writer.manager.is_empty() { Text::from("unknown") } else { writer.manager.clone() }
}

/// Returns whether the entry is this applier's, in any version.
pub(super) fn is_applier(entry: &Managed, writer: &Writer) -> bool {
    entry.applied && entry.manager == name(writer) && entry.subresource == writer.subresource
}

/// Returns whether the entry is this updater's, in this version.
pub(super) fn is_updater(entry: &Managed, writer: &Writer) -> bool {
    !entry.applied
        && entry.manager == name(writer)
        && entry.subresource == writer.subresource
        && entry.api_version == writer.api_version
}

/// Removes the fields `taken` from the entries that match; empty entries are dropped.
pub(super) fn without(managed: &[Managed], taken: &Tree, whose: impl Fn(&Managed) -> bool) -> Vec<Managed> {
    let reduced = managed.iter().map(|entry| {
        let fields =
            if whose(entry) { fields::difference(&entry.fields, taken) } else { entry.fields.clone() };
        Managed { fields, ..entry.clone() }
    });
    reduced.filter(|entry| !fields::is_empty(&entry.fields)).collect()
}

/// Sorts appliers first, then by time, then by name.
pub(super) fn sort(all: &mut [Managed]) {
    all.sort_by(|a, b| {
        b.applied
            .cmp(&a.applied)
            .then_with(|| a.time.cmp(&b.time))
            .then_with(|| a.manager.cmp(&b.manager))
            .then_with(|| a.api_version.cmp(&b.api_version))
            .then_with(|| a.subresource.cmp(&b.subresource))
    });
}

/// Merges the oldest updater entries of a version until at most [`UPDATERS_MAX`] remain.
pub(super) fn cap(all: &mut Vec<Managed>) {
    let mut count = all.iter().filter(|entry| !entry.applied).count();
    if count <= UPDATERS_MAX {
        return;
    }
    let (mut updaters, appliers): (Vec<_>, Vec<_>) = all.drain(..).partition(|entry| !entry.applied);
    updaters.sort_by(by_age);
    let mut buckets: Vec<Managed> = Vec::new();
    let mut kept: Vec<Managed> = Vec::new();
    for entry in updaters {
        let bucket = buckets.iter_mut().find(|bucket| bucket.api_version == entry.api_version);
        match bucket {
            _ if count <= UPDATERS_MAX => kept.push(entry),
            Some(bucket) => {
                *bucket = Managed {
                    manager: Text::from(ANCIENT),
                    subresource: Text::new(),
                    fields: fields::union(&bucket.fields, &entry.fields),
                    time: entry.time,
                    ..bucket.clone()
                };
                count -= 1;
            }
            None => buckets.push(entry),
        }
    }
    all.extend(appliers);
    all.extend(buckets);
    all.extend(kept);
}

fn by_age(a: &Managed, b: &Managed) -> Ordering {
    let key = |entry: &Managed| (entry.manager.clone(), entry.api_version.clone(), entry.subresource.clone());
    a.time.cmp(&b.time).then_with(|| key(a).cmp(&key(b)))
}

/// The entries that an update starts from, given `metadata.managedFields` of the request body.
///
/// A body may replace the entries; an empty list or a single empty entry resets them. A body without entries or with
/// invalid ones, and any body of a subresource, keeps those of the stored object.
#[must_use]
pub fn of_request(body: Option<&Tree>, stored: &Arc<[Managed]>, subresource: &str) -> Arc<[Managed]> {
    let Some(Tree::List(entries)) = body.filter(|_| subresource.is_empty()) else {
        return stored.clone();
    };
    let entries = &entries.slice;
    if matches!(entries, [] | [Tree::Map(_)]) && entries.iter().all(Tree::is_empty) {
        return Arc::from([]);
    }
    if entries.iter().all(is_sound) { entries.iter().map(Managed::of_tree).collect() } else { stored.clone() }
}

fn is_sound(entry: &Tree) -> bool {
    let is_operation = matches!(entry.str_at(&["operation"]), "Apply" | "Update");
    let is_fields = entry.get("fieldsV1").map_or(Cow::Owned(Tree::empty_map()), Cow::Borrowed).is_map();
    is_operation
        && is_fields
        && !entry.str_at(&["apiVersion"]).is_empty()
        && entry.str_at(&["fieldsType"]) == "FieldsV1"
}
