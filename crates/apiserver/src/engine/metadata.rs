//! Metadata fields that the server sets and clients cannot change.

use std::sync::atomic::{AtomicU64, Ordering};

use muster_api::environment::Entropy;
use muster_api::time::Time;
use muster_schema::object::{Managed, StoredObject};
use muster_tree::{Text, Tree};

use crate::kinds::GenerationRule;

/// Server-set fields of `metadata`.
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

#[derive(Debug, Clone)]
pub(crate) struct ServerMetadata {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub created: Time,
    pub generation: Option<i64>,
}

/// Generates UIDs: version 7 UUIDs in strictly ascending order.
///
/// `creationTimestamp` has whole seconds, and Kueue and others break ties by UID. With random UIDs the Jobs of one
/// second would be admitted in arbitrary order.
#[derive(Debug, Default)]
pub(crate) struct UidGenerator {
    /// The highest timestamp used: milliseconds, then 12 bits of a fraction. UIDs of one instant count on from it.
    last: AtomicU64,
}

impl UidGenerator {
    pub fn next(&self, created: Time, entropy: &dyn Entropy) -> Text {
        let micros = u64::try_from(created.0).unwrap_or(0);
        let now = ((micros / 1000) << 12) | (micros % 1000 * 4096 / 1000);
        // Strictly above the last one: a clock that steps back must not reorder UIDs.
        let above = |last: u64| Some(now.max(last + 1));
        let last = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, above);
        let stamp = now.max(last.unwrap_or_default() + 1);
        let mut chance = [0_u8; 16];
        entropy.fill(&mut chance);
        // 48 bits of milliseconds, the version, 12 bits of a fraction of a millisecond, the variant, 62 random bits.
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

/// Adds the server-set metadata of a new object.
pub(crate) fn with_server_metadata(tree: &Tree, who: &ServerMetadata) -> Tree {
    let old = tree.entries_at(&["metadata"]).iter();
    // Kinds without generations keep a value that the client sent.
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

/// Strips server-set metadata from a request body.
pub(crate) fn strip_server_metadata(tree: &Tree) -> Tree {
    let Some(meta) = tree.get("metadata") else {
        return tree.clone();
    };
    let own = |key: &str| OWN.contains(&key) && key != "generation";
    tree.with_key("metadata", meta.map_entries(|key, value| (!own(key)).then(|| value.clone())))
}

/// Restores the stored server-set metadata in an updated object.
pub(crate) fn keep_server_metadata(new: &Tree, old: &Tree) -> Tree {
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
        // Reuse the stored branch when nothing changed: comparing whole objects stays cheap.
        Some(same) if *same == meta => new.with_key("metadata", same.clone()),
        _ => new.with_key("metadata", meta),
    }
}

/// Whether the desired state changed, so that the generation must be incremented.
pub(crate) fn desired_state_changed(rule: GenerationRule, new: &Tree, old: &Tree) -> bool {
    let differs = |skip: &[&str]| {
        let pick = |tree: &Tree| {
            tree.map_entries(|key, value| (!skip.contains(&key.as_str())).then(|| value.clone()))
        };
        pick(new) != pick(old)
    };
    match rule {
        GenerationRule::None => false,
        GenerationRule::Spec => new.get("spec") != old.get("spec"),
        GenerationRule::AllButStatus => differs(&["apiVersion", "metadata", "status"]),
        GenerationRule::AllButMeta => differs(&["apiVersion", "metadata"]),
    }
}

pub(crate) fn next_generation(tree: &Tree) -> Tree {
    let now = tree.int_at(&["metadata", "generation"]).unwrap_or(0);
    tree.with(&["metadata", "generation"], now + 1)
}

/// Sets deletion timestamp and grace period; a later deadline never replaces an earlier one.
pub(crate) fn mark_deleting(tree: &Tree, now: Time, grace_secs: i64) -> Tree {
    let wait = std::time::Duration::from_secs(u64::try_from(grace_secs).unwrap_or(0));
    let first = tree.at(&["metadata", "deletionTimestamp"]).is_none();
    let tree = tree
        .with(&["metadata", "deletionTimestamp"], (now + wait).to_seconds_text())
        .with(&["metadata", "deletionGracePeriodSeconds"], grace_secs);
    // Deletion increments the generation, for kinds that have one.
    if first && tree.int_at(&["metadata", "generation"]).is_some() { next_generation(&tree) } else { tree }
}

pub(crate) fn is_deleting(tree: &Tree) -> bool {
    tree.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// Removes fields that are not part of the stored tree.
pub(crate) fn without_transient_fields(tree: &Tree) -> Tree {
    tree.without(&["metadata", "resourceVersion"]).without(&["metadata", "managedFields"])
}

/// Whether two states are equal apart from timestamps of field ownership: such a write is a no-op.
pub(crate) fn is_same(new: &StoredObject, old: &StoredObject) -> bool {
    let entry = |m: &Managed| Managed { time: Text::new(), ..m.clone() };
    let managed = || {
        new.managed.len() == old.managed.len()
            && new.managed.iter().zip(old.managed.iter()).all(|(a, b)| entry(a) == entry(b))
    };
    new.tree == old.tree && managed()
}
