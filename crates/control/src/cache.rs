//! What the loop knows of the world: one cache per kind, and indexes over all of them.
//!
//! # Invariants
//!
//! - An object is replaced only by a newer one: a reply may run ahead of the watch, never the other way round.
//! - What a reply says is gone stays gone until the watch has passed it (a tombstone).
//! - The indexes say exactly what the objects say.
//!
//! # Deliberately absent
//!
//! Copies. Objects are shared trees; the caches hold counters.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::kinds;
use muster_api::meta;
use muster_api::paths::pod;
use muster_api::port::{Change, Kind, Object, Revision, Uid};
use muster_tree::{Text, Tree};

use crate::plan::Key;

/// A change of one object as controllers see it. New objects have no `before`, gone ones no `after`.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Which object.
    pub key: &'a Key,
    /// What it was.
    pub before: Option<&'a Object>,
    /// What it is.
    pub after: Option<&'a Object>,
}

impl<'a> Seen<'a> {
    /// The newest state there is: after the change, or before it when the object is gone.
    #[must_use]
    pub fn newest(&self) -> &'a Object {
        self.after.or(self.before).expect("a change has a before or an after")
    }
}

/// What came of taking in everything of a kind.
#[derive(Debug)]
pub struct Relisted {
    /// What changed.
    pub taken: Vec<Taken>,
    /// Objects that the list does not have and that replies brought.
    pub doubtful: Vec<Key>,
}

/// A change that was taken in, owned.
#[derive(Debug, Clone)]
pub struct Taken {
    pub(crate) key: Key,
    pub(crate) before: Option<Object>,
    pub(crate) after: Option<Object>,
}

impl Taken {
    pub(crate) fn seen(&self) -> Seen<'_> {
        Seen { key: &self.key, before: self.before.as_ref(), after: self.after.as_ref() }
    }
}

type Name = (Text, Text);

#[derive(Debug, Default)]
struct KindCache {
    objects: BTreeMap<Name, Object>,
    synced: bool,
    /// The newest revision the watch has told of.
    seen: Revision,
    /// How often everything was taken in.
    resets: u64,
    gone: BTreeMap<Name, Tombstone>,
}

#[derive(Debug)]
struct Tombstone {
    uid: Uid,
    revision: Revision,
}

/// All caches.
#[derive(Debug, Default)]
pub struct Caches {
    kinds: BTreeMap<Kind, KindCache>,
    by_owner: BTreeMap<Uid, BTreeSet<Key>>,
    by_uid: BTreeMap<Uid, Key>,
    by_node: BTreeMap<Text, BTreeSet<Name>>,
}

impl Caches {
    /// Begins to know a kind.
    pub fn add_kind(&mut self, kind: &Kind) {
        self.kinds.entry(kind.clone()).or_default();
    }

    /// Forgets a kind; its objects are gone.
    pub fn remove_kind(&mut self, kind: &Kind) -> Vec<Taken> {
        let Some(cache) = self.kinds.get(kind) else {
            return Vec::new();
        };
        let names: Vec<Name> = cache.objects.keys().cloned().collect();
        let taken = names.iter().filter_map(|name| self.remove(kind, name)).collect();
        self.kinds.remove(kind);
        taken
    }

    /// The kinds known.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    /// Whether every kind known has been listed.
    #[must_use]
    pub fn synced(&self) -> bool {
        self.kinds.values().all(|cache| cache.synced)
    }

    /// Whether this kind has been listed.
    #[must_use]
    pub fn kind_synced(&self, kind: &Kind) -> bool {
        self.kinds.get(kind).is_some_and(|cache| cache.synced)
    }

    /// One object.
    #[must_use]
    pub fn get(&self, kind: &Kind, namespace: &Text, name: &Text) -> Option<&Object> {
        self.kinds.get(kind)?.objects.get(&(namespace.clone(), name.clone()))
    }

    /// The object of a key.
    #[must_use]
    pub fn find(&self, key: &Key) -> Option<&Object> {
        self.get(&key.kind, &key.namespace, &key.name)
    }

    /// All objects of a kind, by namespace and name.
    pub fn all(&self, kind: &Kind) -> impl Iterator<Item = &Object> {
        self.kinds.get(kind).into_iter().flat_map(|cache| cache.objects.values())
    }

    /// How many objects of a kind there are.
    #[must_use]
    pub fn count(&self, kind: &Kind) -> usize {
        self.kinds.get(kind).map_or(0, |cache| cache.objects.len())
    }

    /// All objects of a kind in a namespace.
    pub fn in_namespace<'a>(&'a self, kind: &Kind, namespace: &'a Text) -> impl Iterator<Item = &'a Object> {
        let from = (namespace.clone(), Text::new());
        let cache = self.kinds.get(kind).into_iter();
        let range = cache.flat_map(move |cache| cache.objects.range(from.clone()..));
        range.take_while(move |((ns, _), _)| ns == namespace).map(|(_, object)| object)
    }

    /// All objects that name this UID among their owners.
    pub fn owned_by(&self, uid: &Uid) -> impl Iterator<Item = (&Key, &Object)> {
        let keys = self.by_owner.get(uid).into_iter().flatten();
        keys.filter_map(|key| Some((key, self.find(key)?)))
    }

    /// How many objects name this UID among their owners.
    #[must_use]
    pub fn owned_count(&self, uid: &Uid) -> usize {
        self.by_owner.get(uid).map_or(0, BTreeSet::len)
    }

    /// The object of a UID.
    #[must_use]
    pub fn by_uid(&self, uid: &Uid) -> Option<(&Key, &Object)> {
        let key = self.by_uid.get(uid)?;
        Some((key, self.find(key)?))
    }

    /// The pods bound to a node.
    pub fn on_node(&self, node: &Text) -> impl Iterator<Item = &Object> {
        let pods = self.kinds.get(&kinds::PODS);
        let names = self.by_node.get(node).into_iter().flatten();
        names.filter_map(move |name| pods?.objects.get(name))
    }

    /// Takes in everything there is of a kind. What a reply brought may be newer than the list, and stays; or it was gone
    /// before the list was made, which the watch will never tell: somebody has to look.
    pub fn reset(&mut self, kind: &Kind, objects: Vec<Object>) -> Relisted {
        let newest = objects.iter().map(|object| object.revision).max().unwrap_or(0);
        let names: BTreeSet<Name> = objects.iter().map(|object| name_of(&object.tree)).collect();
        let cache = self.kinds.entry(kind.clone()).or_default();
        cache.synced = true;
        cache.resets += 1;
        cache.seen = cache.seen.max(newest);
        cache.gone.retain(|name, _| names.contains(name));
        let missing = cache.objects.iter().filter(|(name, _)| !names.contains(name));
        let (newer, gone): (Vec<_>, Vec<_>) = missing.partition(|(_, object)| object.revision > cache.seen);
        let doubtful = newer.into_iter().map(|(name, _)| Key::new(kind, &name.0, &name.1)).collect();
        let gone: Vec<Name> = gone.into_iter().map(|(name, _)| name.clone()).collect();
        let mut taken: Vec<Taken> = gone.iter().filter_map(|name| self.remove(kind, name)).collect();
        taken.extend(objects.into_iter().filter_map(|object| self.put(kind, object)));
        Relisted { taken, doubtful }
    }

    /// The watch has told of everything up to this revision, kept or not.
    pub fn heard(&mut self, kind: &Kind, revision: Revision) {
        let cache = self.kinds.entry(kind.clone()).or_default();
        cache.seen = cache.seen.max(revision);
    }

    /// How often everything of a kind was taken in.
    #[must_use]
    pub fn resets(&self, kind: &Kind) -> u64 {
        self.kinds.get(kind).map_or(0, |cache| cache.resets)
    }

    /// Takes in a change that the watch tells of.
    pub fn change(&mut self, kind: &Kind, change: Change) -> Option<Taken> {
        let (Change::Put(object) | Change::Gone(object)) = &change;
        let cache = self.kinds.entry(kind.clone()).or_default();
        cache.seen = cache.seen.max(object.revision);
        match change {
            Change::Put(object) => self.put(kind, object),
            Change::Gone(object) => self.gone(kind, &object),
        }
    }

    /// Takes in what a reply shows, unless the watch has told more.
    pub fn reply(&mut self, kind: &Kind, object: Object) -> Option<Taken> {
        let cache = self.kinds.get(kind)?;
        let known = cache.objects.contains_key(&name_of(&object.tree));
        // Not known and not news: the watch has shown it and its end already.
        if !known && object.revision <= cache.seen {
            return None;
        }
        self.put(kind, object)
    }

    /// Takes in that a reply says this object is gone.
    pub fn buried(&mut self, kind: &Kind, object: &Object) -> Option<Taken> {
        let name = name_of(&object.tree);
        let uid = meta::uid(&object.tree);
        let cache = self.kinds.get_mut(kind)?;
        let old = cache.objects.get(&name).filter(|old| meta::uid(&old.tree) == uid)?;
        let revision = object.revision.max(old.revision);
        cache.gone.insert(name.clone(), Tombstone { uid, revision });
        self.remove(kind, &name)
    }

    fn gone(&mut self, kind: &Kind, object: &Object) -> Option<Taken> {
        let name = name_of(&object.tree);
        let cache = self.kinds.get_mut(kind)?;
        let uid = meta::uid(&object.tree);
        cache.gone.retain(|n, tomb| *n != name || tomb.uid != uid);
        // A namesake born after this end is already known from a reply.
        cache.objects.get(&name).filter(|old| old.revision <= object.revision)?;
        self.remove(kind, &name)
    }

    fn put(&mut self, kind: &Kind, object: Object) -> Option<Taken> {
        let name = name_of(&object.tree);
        let cache = self.kinds.get_mut(kind)?;
        if let Some(tomb) = cache.gone.get(&name) {
            if tomb.uid == meta::uid(&object.tree) && object.revision <= tomb.revision {
                return None;
            }
            cache.gone.remove(&name);
        }
        if cache.objects.get(&name).is_some_and(|old| old.revision >= object.revision) {
            return None;
        }
        let before = cache.objects.insert(name.clone(), object.clone());
        let key = Key { kind: kind.clone(), namespace: name.0, name: name.1 };
        if !before.as_ref().is_some_and(|old| same_places(&old.tree, &object.tree)) {
            if let Some(old) = &before {
                self.unindex(&key, &old.tree);
            }
            self.index(&key, &object.tree);
        }
        Some(Taken { key, before, after: Some(object) })
    }

    fn remove(&mut self, kind: &Kind, name: &Name) -> Option<Taken> {
        let before = self.kinds.get_mut(kind)?.objects.remove(name)?;
        let key = Key { kind: kind.clone(), namespace: name.0.clone(), name: name.1.clone() };
        self.unindex(&key, &before.tree);
        Some(Taken { key, before: Some(before), after: None })
    }

    fn index(&mut self, key: &Key, tree: &Tree) {
        self.by_uid.insert(meta::uid(tree), key.clone());
        for owner in meta::owners(tree) {
            self.by_owner.entry(owner.uid).or_default().insert(key.clone());
        }
        if let Some(node) = node_of(key, tree) {
            self.by_node.entry(node).or_default().insert((key.namespace.clone(), key.name.clone()));
        }
    }

    fn unindex(&mut self, key: &Key, tree: &Tree) {
        let uid = meta::uid(tree);
        if self.by_uid.get(&uid) == Some(key) {
            self.by_uid.remove(&uid);
        }
        for owner in meta::owners(tree) {
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

fn node_of(key: &Key, tree: &Tree) -> Option<Text> {
    (key.kind == kinds::PODS).then(|| tree.text_at(pod::NODE_NAME)).filter(|node| !node.is_empty())
}

/// Whether both stand at the same places in the indexes; most changes are of the status only.
fn same_places(old: &Tree, new: &Tree) -> bool {
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

    fn pod(name: &str, uid: &str, revision: u64, node: &str) -> Object {
        let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": uid,
            "ownerReferences": [{"uid": "owner", "name": "o"}]}, "spec": {"nodeName": node}});
        Object { tree, revision }
    }

    fn names<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<Text> {
        objects.map(|object| meta::name(&object.tree)).collect()
    }

    fn filled() -> Caches {
        let mut caches = Caches::default();
        caches.add_kind(&kinds::PODS);
        assert!(!caches.synced());
        caches.reset(&kinds::PODS, vec![pod("a", "1", 5, "n1"), pod("b", "2", 6, "")]);
        assert!(caches.synced());
        caches
    }

    #[test]
    fn indexes_follow_the_objects() {
        let mut caches = filled();
        assert_eq!(names(caches.on_node(&"n1".into())), ["a"]);
        assert_eq!(caches.owned_by(&"owner".into()).count(), 2);
        caches.change(&kinds::PODS, Change::Put(pod("b", "2", 7, "n1")));
        assert_eq!(names(caches.on_node(&"n1".into())), ["a", "b"]);
        caches.change(&kinds::PODS, Change::Gone(pod("a", "1", 8, "n1")));
        assert_eq!(names(caches.on_node(&"n1".into())), ["b"]);
        assert_eq!(names(caches.in_namespace(&kinds::PODS, &"ns".into())), ["b"]);
        assert!(caches.by_uid(&"1".into()).is_none());
    }

    #[test]
    fn the_newer_one_stays() {
        let mut caches = filled();
        assert!(caches.reply(&kinds::PODS, pod("a", "1", 9, "n2")).is_some(), "a reply runs ahead");
        assert!(caches.change(&kinds::PODS, Change::Put(pod("a", "1", 7, "n1"))).is_none(), "the watch lags");
        assert_eq!(names(caches.on_node(&"n2".into())), ["a"]);
        assert!(caches.reply(&kinds::PODS, pod("a", "1", 9, "n2")).is_none(), "the same again");
    }

    #[test]
    fn what_is_buried_stays_away_until_the_watch_has_passed_it() {
        let mut caches = filled();
        assert!(caches.buried(&kinds::PODS, &pod("a", "1", 9, "")).is_some());
        assert!(caches.change(&kinds::PODS, Change::Put(pod("a", "1", 8, ""))).is_none(), "old news");
        assert!(
            caches.change(&kinds::PODS, Change::Put(pod("a", "3", 11, ""))).is_some(),
            "a namesake is new"
        );
        assert!(caches.change(&kinds::PODS, Change::Gone(pod("a", "1", 9, ""))).is_none(), "the old end");
        assert_eq!(names(caches.all(&kinds::PODS)), ["a", "b"]);
    }

    #[test]
    fn a_late_reply_does_not_raise_the_dead() {
        let mut caches = filled();
        caches.change(&kinds::PODS, Change::Put(pod("c", "4", 7, "")));
        caches.change(&kinds::PODS, Change::Gone(pod("c", "4", 8, "")));
        assert!(caches.reply(&kinds::PODS, pod("c", "4", 7, "")).is_none());
    }

    #[test]
    fn a_new_list_forgets_what_is_missing_but_not_newer_replies() {
        let mut caches = filled();
        caches.reply(&kinds::PODS, pod("new", "9", 20, ""));
        let Relisted { taken, doubtful } =
            caches.reset(&kinds::PODS, vec![pod("b", "2", 6, ""), pod("d", "5", 12, "")]);
        assert_eq!(taken.len(), 2, "a is gone, d is new, b is the same");
        assert_eq!(doubtful, [Key::new(&kinds::PODS, &"ns".into(), &"new".into())], "it may be gone as well");
        assert_eq!(names(caches.all(&kinds::PODS)), ["b", "d", "new"]);
    }
}
