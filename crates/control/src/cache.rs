//! The object caches: one per kind, and indexes over all of them by owner, UID and node.
//!
//! # Guarantees
//!
//! - An object is replaced only by a newer `resourceVersion`: a reply may be ahead of the watch, never behind it.
//! - An object that a reply reports as deleted stays deleted until the watch has passed that revision (a tombstone).
//! - The indexes match the objects at any time.
//!
//! # Deliberately absent
//!
//! Copies of objects: trees are shared, a cache entry costs a reference count.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::client::{ApiObject, Kind, Revision, Uid, WatchChange};
use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::pod;
use muster_tree::{Text, Tree};

use crate::controller::ObjectKey;

/// A change of one object: added (no `old`), updated (both) or deleted (no `new`).
#[derive(Debug, Clone, Copy)]
pub struct WatchEvent<'a> {
    /// The object.
    pub key: &'a ObjectKey,
    /// The object before the change; `None` when it was added.
    pub old: Option<&'a ApiObject>,
    /// The object after the change; `None` when it was deleted.
    pub new: Option<&'a ApiObject>,
}

impl<'a> WatchEvent<'a> {
    /// The latest known state: `new`, or `old` of a deleted object.
    #[must_use]
    pub fn latest(&self) -> &'a ApiObject {
        self.new.or(self.old).expect("a change has an old or a new object")
    }
}

/// The result of replacing the cache of a kind by a list.
#[derive(Debug)]
pub struct RelistResult {
    /// The differences between the cache and the list.
    pub changes: Vec<CacheChange>,
    /// Objects that a reply brought, newer than the list, and that the list does not contain: deleted, or created after it.
    pub unverified: Vec<ObjectKey>,
}

/// A change that was applied to the cache; the owned form of a [`WatchEvent`].
#[derive(Debug, Clone)]
pub struct CacheChange {
    pub(crate) key: ObjectKey,
    pub(crate) old: Option<ApiObject>,
    pub(crate) new: Option<ApiObject>,
}

impl CacheChange {
    pub(crate) fn event(&self) -> WatchEvent<'_> {
        WatchEvent { key: &self.key, old: self.old.as_ref(), new: self.new.as_ref() }
    }
}

type Name = (Text, Text);

#[derive(Debug, Default)]
struct KindCache {
    objects: BTreeMap<Name, ApiObject>,
    synced: bool,
    /// The newest revision that the watch has delivered.
    latest_revision: Revision,
    /// How often the kind was listed.
    relists: u64,
    tombstones: BTreeMap<Name, Tombstone>,
}

#[derive(Debug)]
struct Tombstone {
    uid: Uid,
    revision: Revision,
}

/// The caches of all watched kinds.
#[derive(Debug, Default)]
pub struct Caches {
    kinds: BTreeMap<Kind, KindCache>,
    by_owner: BTreeMap<Uid, BTreeSet<ObjectKey>>,
    by_uid: BTreeMap<Uid, ObjectKey>,
    by_node: BTreeMap<Text, BTreeSet<Name>>,
}

impl Caches {
    /// Adds an empty cache, which is not synced until the kind is listed.
    pub fn add_kind(&mut self, kind: &Kind) {
        self.kinds.entry(kind.clone()).or_default();
    }

    /// Removes the cache of a kind that is no longer served; returns its objects as deleted.
    pub fn remove_kind(&mut self, kind: &Kind) -> Vec<CacheChange> {
        let Some(cache) = self.kinds.get(kind) else {
            return Vec::new();
        };
        let names: Vec<Name> = cache.objects.keys().cloned().collect();
        let taken = names.iter().filter_map(|name| self.remove(kind, name)).collect();
        self.kinds.remove(kind);
        taken
    }

    /// The watched kinds.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    /// Whether every watched kind was listed.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.kinds.values().all(|cache| cache.synced)
    }

    /// Whether this kind is watched and was listed.
    #[must_use]
    pub fn kind_synced(&self, kind: &Kind) -> bool {
        self.kinds.get(kind).is_some_and(|cache| cache.synced)
    }

    /// An object by kind, namespace and name.
    #[must_use]
    pub fn get(&self, kind: &Kind, namespace: &Text, name: &Text) -> Option<&ApiObject> {
        self.kinds.get(kind)?.objects.get(&(namespace.clone(), name.clone()))
    }

    /// An object by key.
    #[must_use]
    pub fn find(&self, key: &ObjectKey) -> Option<&ApiObject> {
        self.get(&key.kind, &key.namespace, &key.name)
    }

    /// All objects of a kind, ordered by namespace and name.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &ApiObject> {
        self.kinds.get(kind).into_iter().flat_map(|cache| cache.objects.values())
    }

    /// The number of objects of a kind.
    #[must_use]
    pub fn count(&self, kind: &Kind) -> usize {
        self.kinds.get(kind).map_or(0, |cache| cache.objects.len())
    }

    /// All objects of a kind in a namespace, ordered by name.
    pub fn in_namespace<'a>(
        &'a self,
        kind: &Kind,
        namespace: &'a Text,
    ) -> impl Iterator<Item = &'a ApiObject> {
        let from = (namespace.clone(), Text::new());
        let cache = self.kinds.get(kind).into_iter();
        let range = cache.flat_map(move |cache| cache.objects.range(from.clone()..));
        range.take_while(move |((ns, _), _)| ns == namespace).map(|(_, object)| object)
    }

    /// All objects with an owner reference to this UID, controller or not.
    pub fn owned_by(&self, uid: &Uid) -> impl Iterator<Item = (&ObjectKey, &ApiObject)> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.find(key)?)))
    }

    /// The number of objects with an owner reference to this UID.
    #[must_use]
    pub fn owned_count(&self, uid: &Uid) -> usize {
        self.by_owner.get(uid).map_or(0, BTreeSet::len)
    }

    /// An object by UID.
    #[must_use]
    pub fn by_uid(&self, uid: &Uid) -> Option<(&ObjectKey, &ApiObject)> {
        let key = self.by_uid.get(uid)?;
        Some((key, self.find(key)?))
    }

    /// The pods with this `spec.nodeName`.
    pub fn on_node(&self, node: &Text) -> impl Iterator<Item = &ApiObject> {
        let pods = self.kinds.get(&kinds::PODS);
        let names = self.by_node.get(node).into_iter().flatten();
        names.filter_map(move |name| pods?.objects.get(name))
    }

    /// Replaces the cache of a kind by a list. An object that only a reply brought may be newer than the list, and stays; or it
    /// was deleted before the list was made, and no watch event will say so. Those are returned for verification.
    pub fn replace(&mut self, kind: &Kind, objects: Vec<ApiObject>) -> RelistResult {
        let newest = objects.iter().map(|object| object.revision).max().unwrap_or(0);
        let names: BTreeSet<Name> = objects.iter().map(|object| name_of(&object.tree)).collect();
        let cache = self.kinds.entry(kind.clone()).or_default();
        cache.synced = true;
        cache.relists += 1;
        cache.latest_revision = cache.latest_revision.max(newest);
        // No older watch event follows a list: a tombstone is only needed against the list itself.
        cache.tombstones.retain(|name, _| names.contains(name));
        let missing = cache.objects.iter().filter(|(name, _)| !names.contains(name));
        let (newer, gone): (Vec<_>, Vec<_>) =
            missing.partition(|(_, object)| object.revision > cache.latest_revision);
        let unverified = newer.into_iter().map(|(name, _)| ObjectKey::new(kind, &name.0, &name.1)).collect();
        let gone: Vec<Name> = gone.into_iter().map(|(name, _)| name.clone()).collect();
        let mut changes: Vec<CacheChange> = gone.iter().filter_map(|name| self.remove(kind, name)).collect();
        changes.extend(objects.into_iter().filter_map(|object| self.apply_upsert(kind, object)));
        RelistResult { changes, unverified }
    }

    /// The watch has delivered everything up to this revision, whether the objects are cached or not.
    pub fn observe_revision(&mut self, kind: &Kind, revision: Revision) {
        let cache = self.kinds.entry(kind.clone()).or_default();
        cache.latest_revision = cache.latest_revision.max(revision);
    }

    /// How often a kind was listed.
    #[must_use]
    pub fn relists(&self, kind: &Kind) -> u64 {
        self.kinds.get(kind).map_or(0, |cache| cache.relists)
    }

    /// Applies a change from the watch; `None` when the cache is newer.
    pub fn apply_watch_change(&mut self, kind: &Kind, change: WatchChange) -> Option<CacheChange> {
        let (WatchChange::Applied(object) | WatchChange::Deleted(object)) = &change;
        let cache = self.kinds.entry(kind.clone()).or_default();
        cache.latest_revision = cache.latest_revision.max(object.revision);
        match change {
            WatchChange::Applied(object) => self.apply_upsert(kind, object),
            WatchChange::Deleted(object) => self.apply_delete(kind, &object),
        }
    }

    /// Applies the object in a reply; `None` when the watch has already delivered a newer state.
    pub fn apply_reply(&mut self, kind: &Kind, object: ApiObject) -> Option<CacheChange> {
        let cache = self.kinds.get(kind)?;
        let known = cache.objects.contains_key(&name_of(&object.tree));
        // Not cached although the watch has passed its revision: the watch has delivered its deletion, too.
        if !known && object.revision <= cache.latest_revision {
            return None;
        }
        self.apply_upsert(kind, object)
    }

    /// Removes an object that a reply reports as deleted and leaves a tombstone, so that older watch events do not bring it back.
    pub fn apply_delete_reply(&mut self, kind: &Kind, object: &ApiObject) -> Option<CacheChange> {
        let name = name_of(&object.tree);
        let uid = meta::uid(&object.tree);
        let cache = self.kinds.get_mut(kind)?;
        let old = cache.objects.get(&name).filter(|old| meta::uid(&old.tree) == uid)?;
        let revision = object.revision.max(old.revision);
        cache.tombstones.insert(name.clone(), Tombstone { uid, revision });
        self.remove(kind, &name)
    }

    fn apply_delete(&mut self, kind: &Kind, object: &ApiObject) -> Option<CacheChange> {
        let name = name_of(&object.tree);
        let cache = self.kinds.get_mut(kind)?;
        let uid = meta::uid(&object.tree);
        cache.tombstones.retain(|n, tomb| *n != name || tomb.uid != uid);
        // A newer object of the same name is already cached from a reply.
        cache.objects.get(&name).filter(|old| old.revision <= object.revision)?;
        self.remove(kind, &name)
    }

    fn apply_upsert(&mut self, kind: &Kind, object: ApiObject) -> Option<CacheChange> {
        let name = name_of(&object.tree);
        let cache = self.kinds.get_mut(kind)?;
        if let Some(tomb) = cache.tombstones.get(&name) {
            if tomb.uid == meta::uid(&object.tree) && object.revision <= tomb.revision {
                return None;
            }
            cache.tombstones.remove(&name);
        }
        if cache.objects.get(&name).is_some_and(|old| old.revision >= object.revision) {
            return None;
        }
        let old = cache.objects.insert(name.clone(), object.clone());
        let key = ObjectKey { kind: kind.clone(), namespace: name.0, name: name.1 };
        if !old.as_ref().is_some_and(|old| same_index_keys(&old.tree, &object.tree)) {
            if let Some(old) = &old {
                self.unindex(&key, &old.tree);
            }
            self.index(&key, &object.tree);
        }
        Some(CacheChange { key, old, new: Some(object) })
    }

    fn remove(&mut self, kind: &Kind, name: &Name) -> Option<CacheChange> {
        let old = self.kinds.get_mut(kind)?.objects.remove(name)?;
        let key = ObjectKey { kind: kind.clone(), namespace: name.0.clone(), name: name.1.clone() };
        self.unindex(&key, &old.tree);
        Some(CacheChange { key, old: Some(old), new: None })
    }

    fn index(&mut self, key: &ObjectKey, tree: &Tree) {
        self.by_uid.insert(meta::uid(tree), key.clone());
        for owner in meta::owner_references(tree) {
            self.by_owner.entry(owner.uid).or_default().insert(key.clone());
        }
        if let Some(node) = node_of(key, tree) {
            self.by_node.entry(node).or_default().insert((key.namespace.clone(), key.name.clone()));
        }
    }

    fn unindex(&mut self, key: &ObjectKey, tree: &Tree) {
        let uid = meta::uid(tree);
        if self.by_uid.get(&uid) == Some(key) {
            self.by_uid.remove(&uid);
        }
        for owner in meta::owner_references(tree) {
            drop_from(&mut self.by_owner, &owner.uid, key);
        }
        if let Some(node) = node_of(key, tree) {
            drop_from(&mut self.by_node, &node, &(key.namespace.clone(), key.name.clone()));
        }
    }
}

fn drop_from<V: Ord>(index: &mut BTreeMap<Text, BTreeSet<V>>, at: &Text, value: &V) {
    if let Some(values) = index.get_mut(at) {
        values.remove(value);
        if values.is_empty() {
            index.remove(at);
        }
    }
}

fn name_of(tree: &Tree) -> Name {
    (meta::namespace(tree), meta::name(tree))
}

fn node_of(key: &ObjectKey, tree: &Tree) -> Option<Text> {
    (key.kind == kinds::PODS).then(|| tree.text_at(pod::NODE_NAME)).filter(|node| !node.is_empty())
}

/// Whether both have the same index entries, which depend on metadata and spec only: most updates change the status.
fn same_index_keys(old: &Tree, new: &Tree) -> bool {
    let same = |key| match (old.get(key), new.get(key)) {
        (Some(a), Some(b)) => a == b,
        (a, b) => a.is_none() && b.is_none(),
    };
    same("metadata") && same("spec")
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn pod(name: &str, uid: &str, revision: u64, node: &str) -> ApiObject {
        let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": uid,
            "ownerReferences": [{"uid": "owner", "name": "o"}]}, "spec": {"nodeName": node}});
        ApiObject { tree, revision }
    }

    fn names<'a>(objects: impl Iterator<Item = &'a ApiObject>) -> Vec<Text> {
        objects.map(|object| meta::name(&object.tree)).collect()
    }

    fn filled() -> Caches {
        let mut caches = Caches::default();
        caches.add_kind(&kinds::PODS);
        assert!(!caches.synced());
        caches.replace(&kinds::PODS, vec![pod("a", "1", 5, "n1"), pod("b", "2", 6, "")]);
        assert!(caches.synced());
        caches
    }

    #[test]
    fn indexes_follow_the_objects() {
        let mut caches = filled();
        assert_eq!(names(caches.on_node(&"n1".into())), ["a"]);
        assert_eq!(caches.owned_by(&"owner".into()).count(), 2);
        caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(pod("b", "2", 7, "n1")));
        assert_eq!(names(caches.on_node(&"n1".into())), ["a", "b"]);
        caches.apply_watch_change(&kinds::PODS, WatchChange::Deleted(pod("a", "1", 8, "n1")));
        assert_eq!(names(caches.on_node(&"n1".into())), ["b"]);
        assert_eq!(names(caches.in_namespace(&kinds::PODS, &"ns".into())), ["b"]);
        assert!(caches.by_uid(&"1".into()).is_none());
    }

    #[test]
    fn the_newer_one_stays() {
        let mut caches = filled();
        assert!(caches.apply_reply(&kinds::PODS, pod("a", "1", 9, "n2")).is_some(), "a reply runs ahead");
        assert!(
            caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(pod("a", "1", 7, "n1"))).is_none(),
            "the watch lags"
        );
        assert_eq!(names(caches.on_node(&"n2".into())), ["a"]);
        assert!(caches.apply_reply(&kinds::PODS, pod("a", "1", 9, "n2")).is_none(), "the same again");
    }

    #[test]
    fn what_is_buried_stays_away_until_the_watch_has_passed_it() {
        let mut caches = filled();
        assert!(caches.apply_delete_reply(&kinds::PODS, &pod("a", "1", 9, "")).is_some());
        assert!(
            caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(pod("a", "1", 8, ""))).is_none(),
            "old news"
        );
        assert!(
            caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(pod("a", "3", 11, ""))).is_some(),
            "a namesake is new"
        );
        assert!(
            caches.apply_watch_change(&kinds::PODS, WatchChange::Deleted(pod("a", "1", 9, ""))).is_none(),
            "the old end"
        );
        assert_eq!(names(caches.all(&kinds::PODS)), ["a", "b"]);
    }

    #[test]
    fn a_late_reply_does_not_raise_the_dead() {
        let mut caches = filled();
        caches.apply_watch_change(&kinds::PODS, WatchChange::Applied(pod("c", "4", 7, "")));
        caches.apply_watch_change(&kinds::PODS, WatchChange::Deleted(pod("c", "4", 8, "")));
        assert!(caches.apply_reply(&kinds::PODS, pod("c", "4", 7, "")).is_none());
    }

    #[test]
    fn a_new_list_forgets_what_is_missing_but_not_newer_replies() {
        let mut caches = filled();
        caches.apply_reply(&kinds::PODS, pod("new", "9", 20, ""));
        let RelistResult { changes, unverified } =
            caches.replace(&kinds::PODS, vec![pod("b", "2", 6, ""), pod("d", "5", 12, "")]);
        assert_eq!(changes.len(), 2, "a is gone, d is new, b is the same");
        assert_eq!(
            unverified,
            [ObjectKey::new(&kinds::PODS, &"ns".into(), &"new".into())],
            "it may be gone as well"
        );
        assert_eq!(names(caches.all(&kinds::PODS)), ["b", "d", "new"]);
    }
}
