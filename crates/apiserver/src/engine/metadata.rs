//! What the server itself keeps in `metadata`: clients cannot set it.

use std::sync::atomic::{AtomicU64, Ordering};

use muster_api::ports::Entropy;
use muster_api::time::Time;
use muster_schema::object::{Managed, Object};
use muster_tree::{Text, Tree};

use crate::kinds::Generation;

/// Fields of `metadata` that the server alone writes.
const OWN: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Who an object is.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub created: Time,
    pub generation: Option<i64>,
}

/// Gives UIDs: version 7 UUIDs, each above all that were given before.
///
/// `creationTimestamp` has whole seconds, and where two are equal Kueue and others order objects by UID. With random UIDs the
/// Jobs of one second would be admitted in no visible order.
#[derive(Debug, Default)]
pub(crate) struct Uids {
    /// The highest stamp given: milliseconds, and 12 bits of the fraction of one. Many of one instant count on from it.
    last: AtomicU64,
}

impl Uids {
    pub fn next(&self, created: Time, entropy: &dyn Entropy) -> Text {
        let micros = u64::try_from(created.0).unwrap_or(0);
        let now = ((micros / 1000) << 12) | (micros % 1000 * 4096 / 1000);
        let above = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, above);
        let stamp = now.max(last.unwrap_or_default() + 1);
        let mut chance = [0_u8; 16];
        entropy.fill(&mut chance);
        // 48 bits of milliseconds, the version, 12 bits of the fraction of a millisecond, the variant, 62 bits of chance.
        let high = ((stamp >> 12) << 16) | 0x7000 | (stamp & 0xfff);
        let low = chance[8..].iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte));
        let low = (low >> 2) | (1 << 63);
        Text::from(format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        ))
    }
}

/// A new object with the metadata that the server gives it.
pub(crate) fn born(tree: &Tree, who: &Identity) -> Tree {
    let old = tree.entries_at(&["metadata"]).iter();
    // Kinds that do not count generations keep what the client said.
    let own = |key: &str| OWN.contains(&key) && (key != "generation" || who.generation.is_some());
    let kept = old.filter(|(key, value)| !own(key) && !value.is_null());
    let mut meta: Vec<(Text, Tree)> =
        kept.filter(|(key, _)| key != "name" && key != "namespace").cloned().collect();
    let mut set = |key: &'static str, value: Tree| meta.push((Text::from(key), value));
    set("name", Tree::from(&who.name));
    set("uid", Tree::from(&who.uid));
    set("creationTimestamp", Tree::from(who.created.to_seconds_text()));
    if !who.namespace.is_empty() {
        set("namespace", Tree::from(&who.namespace));
    }
    if let Some(generation) = who.generation {
        set("generation", Tree::from(generation));
    }
    tree.with_key("metadata", Tree::map(meta))
}

/// A body without what only the server says.
pub(crate) fn anonymous(tree: &Tree) -> Tree {
    let Some(meta) = tree.get("metadata") else {
        return tree.clone();
    };
    let own = |key: &str| OWN.contains(&key) && key != "generation";
    tree.with_key("metadata", meta.map_entries(|key, value| (!own(key)).then(|| value.clone())))
}

/// An updated object in which the stored values of the server's own fields stand.
pub(crate) fn kept(new: &Tree, old: &Tree) -> Tree {
    if let (Some(new_meta), Some(old_meta)) = (new.get("metadata"), old.get("metadata"))
        && new_meta.same_branch(old_meta)
    {
        return new.clone();
    }
    let own = |key: &str| OWN.contains(&key) || key == "name" || key == "namespace";
    let old_meta = old.entries_at(&["metadata"]);
    let new_meta = new.entries_at(&["metadata"]);
    let from_new = new_meta.iter().filter(|(key, value)| !own(key) && !value.is_null());
    let from_old = old_meta.iter().filter(|(key, _)| own(key));
    let meta = Tree::map(from_new.chain(from_old).cloned());
    match old.get("metadata") {
        // The very same branch when nothing changed: comparing the whole stays cheap.
        Some(same) if *same == meta => new.with_key("metadata", same.clone()),
        _ => new.with_key("metadata", meta),
    }
}

/// Whether the desired state differs.
pub(crate) fn has_new_wish(rule: Generation, new: &Tree, old: &Tree) -> bool {
    let differs = |skip: &[&str]| {
        let pick = |tree: &Tree| {
            tree.map_entries(|key, value| (!skip.contains(&key.as_str())).then(|| value.clone()))
        };
        pick(new) != pick(old)
    };
    match rule {
        Generation::None => false,
        Generation::Spec => new.get("spec") != old.get("spec"),
        Generation::AllButStatus => differs(&["apiVersion", "metadata", "status"]),
        Generation::AllButMeta => differs(&["apiVersion", "metadata"]),
    }
}

/// The object one generation later.
pub(crate) fn next_generation(tree: &Tree) -> Tree {
    let now = tree.int_at(&["metadata", "generation"]).unwrap_or(0);
    tree.with(&["metadata", "generation"], now + 1)
}

/// Marks an object as being deleted; a later deadline never replaces an earlier one.
pub(crate) fn doomed(tree: &Tree, now: Time, grace_secs: i64) -> Tree {
    let wait = std::time::Duration::from_secs(u64::try_from(grace_secs).unwrap_or(0));
    let first = tree.at(&["metadata", "deletionTimestamp"]).is_none();
    let tree = tree
        .with(&["metadata", "deletionTimestamp"], (now + wait).to_seconds_text())
        .with(&["metadata", "deletionGracePeriodSeconds"], grace_secs);
    // Being deleted is a new wish, for kinds that count them.
    if first && tree.int_at(&["metadata", "generation"]).is_some() { next_generation(&tree) } else { tree }
}

/// Whether an object is being deleted.
pub(crate) fn is_doomed(tree: &Tree) -> bool {
    tree.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Takes off what does not belong into the stored tree.
pub(crate) fn stripped(tree: &Tree) -> Tree {
    tree.without(&["metadata", "resourceVersion"]).without(&["metadata", "managedFields"])
}

/// Whether two states differ at most in the times of field ownership.
pub(crate) fn is_same(new: &Object, old: &Object) -> bool {
    let entry = |m: &Managed| Managed { time: Text::new(), ..m.clone() };
    let managed = || {
        new.managed.len() == old.managed.len()
            && new.managed.iter().zip(old.managed.iter()).all(|(a, b)| entry(a) == entry(b))
    };
    new.tree == old.tree && managed()
}
