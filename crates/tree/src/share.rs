//! Interning (hash-consing) of equal branches: the pods of a Job share one spec in memory.
//!
//! The store passes every tree that it keeps through one [`Sharing`] table. Branches are interned bottom-up, so the
//! children of a branch are interned first and the branch is identified by their addresses: hashing and comparing never
//! walk a tree, and a branch that is already interned is recognised by its own entries alone.
//!
//! # Guarantees
//!
//! - Branches and short strings below an interned branch are interned.
//! - The table does not keep unused branches alive: a part is swept whenever its size has doubled.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};

use foldhash::fast::RandomState;
use triomphe::ThinArc;

use crate::{Text, Tree};

/// Number of independently swept parts; bounds the pause that a sweep adds to a write.
const PARTS: usize = 64;
/// A part is never swept below this size.
const SWEEP_MIN: usize = 64;
/// Longest string that is interned on its own, in bytes; longer ones are compared by value within their branch.
const TEXT_LEN_MAX: usize = 256;
/// A branch with at most this many references counts as owned by one object: the table, the store and the watch
/// history hold it, too.
const OWN_HOLDERS_MAX: usize = 4;
/// Bytes of the reference count and length of a shared allocation.
const HEADER_BYTES: usize = 16;

/// The table of interned branches and strings.
pub struct Sharing {
    parts: Vec<Part>,
    /// Hasher that assigns a string to a part.
    by_text: RandomState,
    new_bytes: usize,
}

#[derive(Default)]
struct Part {
    branches: HashSet<Branch, BuildHasherDefault<Passed>>,
    texts: HashSet<Text, RandomState>,
    sweep_at: usize,
}

impl Default for Sharing {
    fn default() -> Self {
        Self::new()
    }
}

impl Sharing {
    /// Creates an empty interning table.
    #[must_use]
    pub fn new() -> Self {
        let parts = (0..PARTS).map(|_| Part { sweep_at: SWEEP_MIN, ..Part::default() });
        Self { parts: parts.collect(), by_text: RandomState::default(), new_bytes: 0 }
    }

    /// Interns a tree: returns an equal tree made of interned branches.
    pub fn share(&mut self, tree: &Tree) -> Tree {
        self.walk(tree)
    }

    /// As [`Sharing::share`], without interning the root: whole objects differ in their UID at least.
    pub fn share_below(&mut self, tree: &Tree) -> Tree {
        if !tree.is_map() && !tree.is_list() {
            return self.walk(tree);
        }
        let made = self.below(tree);
        self.new_bytes += size_of_branch(&made);
        made
    }

    /// Interns a branch with interned children; returns `made` itself if it is new.
    pub fn branch(&mut self, made: Tree) -> Tree {
        let branch = Branch::of(made);
        let part = &mut self.parts[branch.part()];
        if let Some(known) = part.branches.get(&branch) {
            return known.tree.clone();
        }
        part.make_room();
        let tree = branch.tree.clone();
        self.new_bytes += size_of_branch(&tree);
        part.branches.insert(branch);
        tree
    }

    /// Interns a string; long strings are returned as they are.
    pub fn text(&mut self, text: &Text) -> Text {
        if text.len() > TEXT_LEN_MAX {
            self.new_bytes += text.len();
            return text.clone();
        }
        let hash = self.by_text.hash_one(text);
        let part = &mut self.parts[part_of(hash)];
        if let Some(known) = part.texts.get(text) {
            return known.clone();
        }
        part.make_room();
        self.new_bytes += HEADER_BYTES + text.len();
        part.texts.insert(text.clone());
        text.clone()
    }

    /// Estimated bytes that were newly interned since the last call.
    pub fn take_new_bytes(&mut self) -> usize {
        std::mem::take(&mut self.new_bytes)
    }

    /// Number of interned branches and strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(Part::len).sum()
    }

    /// Returns whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn walk(&mut self, tree: &Tree) -> Tree {
        match tree {
            Tree::Text(text) => Tree::Text(self.text(text)),
            Tree::List(_) | Tree::Map(_) if self.knows(tree) => tree.clone(),
            Tree::List(_) | Tree::Map(_) => {
                let made = self.below(tree);
                self.branch(made)
            }
            other => other.clone(),
        }
    }

    /// This branch with interned children; the same allocation if they all were interned.
    fn below(&mut self, tree: &Tree) -> Tree {
        match tree {
            Tree::List(items) => {
                let made: Vec<Tree> = items.slice.iter().map(|item| self.walk(item)).collect();
                let same = made.iter().zip(&items.slice).all(|(a, b)| is_same(a, b));
                if same { tree.clone() } else { Tree::list(made) }
            }
            Tree::Map(entries) => {
                let made: Vec<_> = entries.slice.iter().map(|(k, v)| (self.text(k), self.walk(v))).collect();
                let mut pairs = made.iter().zip(&entries.slice);
                let same = pairs.all(|(a, b)| Text::ptr_eq(&a.0, &b.0) && is_same(&a.1, &b.1));
                if same { tree.clone() } else { Tree::from_sorted(made) }
            }
            leaf => leaf.clone(),
        }
    }

    /// Returns whether this allocation is interned; then everything below is, too.
    fn knows(&self, tree: &Tree) -> bool {
        let branch = Branch::of(tree.clone());
        let known = self.parts[branch.part()].branches.get(&branch);
        known.is_some_and(|known| known.tree.same_branch(tree))
    }
}

impl Part {
    fn len(&self) -> usize {
        self.branches.len() + self.texts.len()
    }

    /// Drops entries that only the table references, once the part has doubled since the last sweep.
    fn make_room(&mut self) {
        if self.len() < self.sweep_at {
            return;
        }
        self.branches.retain(|branch| holders(&branch.tree) > 1);
        self.texts.retain(|text| Text::strong_count(text).is_none_or(|n| n > 1));
        self.sweep_at = (self.len() * 2).max(SWEEP_MIN);
        // HashSet never shrinks by itself; after a mass deletion the table would keep its peak size.
        if self.branches.capacity() > 4 * self.sweep_at {
            self.branches.shrink_to(self.sweep_at);
            self.texts.shrink_to(self.sweep_at);
        }
    }
}

/// Estimated bytes that would be freed with the last reference to this tree.
#[must_use]
pub fn own_bytes(tree: &Tree) -> usize {
    match tree {
        Tree::Text(text) => own_text(text),
        Tree::List(_) | Tree::Map(_) if holders(tree) > OWN_HOLDERS_MAX => 0,
        Tree::List(items) => size_of_branch(tree) + items.slice.iter().map(own_bytes).sum::<usize>(),
        Tree::Map(entries) => {
            let below = entries.slice.iter().map(|(k, v)| own_text(k) + own_bytes(v));
            size_of_branch(tree) + below.sum::<usize>()
        }
        _ => 0,
    }
}

fn own_text(text: &Text) -> usize {
    match Text::strong_count(text) {
        Some(n) if n <= OWN_HOLDERS_MAX => HEADER_BYTES + text.len(),
        _ => 0,
    }
}

/// Bytes of the branch itself, without its children.
fn size_of_branch(tree: &Tree) -> usize {
    let each = if tree.is_map() { size_of::<(Text, Tree)>() } else { size_of::<Tree>() };
    HEADER_BYTES + (tree.items().len() + tree.entries().len()) * each
}

/// Reference count of a branch, the table's reference included.
fn holders(tree: &Tree) -> usize {
    match tree {
        Tree::List(items) => ThinArc::strong_count(items),
        Tree::Map(entries) => ThinArc::strong_count(entries),
        _ => 0,
    }
}

/// Compares interned children: branches and short strings by address, other leaves by value.
fn is_same(a: &Tree, b: &Tree) -> bool {
    match (a, b) {
        (Tree::List(_) | Tree::Map(_), _) => a.same_branch(b),
        (Tree::Text(x), Tree::Text(y)) => Text::ptr_eq(x, y) || (x.len() > TEXT_LEN_MAX && x == y),
        _ => a == b,
    }
}

/// A branch with a hash of the addresses of its children.
struct Branch {
    hash: u64,
    tree: Tree,
}

impl Branch {
    fn of(tree: Tree) -> Self {
        let mut mix = Mix(tree.items().len() as u64);
        for item in tree.items() {
            mix.child(item);
        }
        for (key, value) in tree.entries() {
            mix.word(key.as_ptr() as usize as u64);
            mix.child(value);
        }
        Self { hash: mix.done(), tree }
    }

    fn part(&self) -> usize {
        part_of(self.hash)
    }
}

impl Hash for Branch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        let same_keys = |a: &(Text, Tree), b: &(Text, Tree)| Text::ptr_eq(&a.0, &b.0) && is_same(&a.1, &b.1);
        match (&self.tree, &other.tree) {
            _ if self.hash != other.hash => false,
            (Tree::List(a), Tree::List(b)) => {
                a.slice.len() == b.slice.len() && a.slice.iter().zip(&b.slice).all(|(a, b)| is_same(a, b))
            }
            (Tree::Map(a), Tree::Map(b)) => {
                a.slice.len() == b.slice.len() && a.slice.iter().zip(&b.slice).all(|(a, b)| same_keys(a, b))
            }
            _ => false,
        }
    }
}

impl Eq for Branch {}

/// The part for a hash; uses bits that the hash set within the part does not.
fn part_of(hash: u64) -> usize {
    ((hash >> 32) % PARTS as u64) as usize
}

/// Combines the addresses of children into one hash.
struct Mix(u64);

impl Mix {
    fn child(&mut self, tree: &Tree) {
        match tree {
            Tree::Null => self.word(1),
            Tree::Bool(b) => self.word(2 + u64::from(*b)),
            Tree::Int(n) => self.word(n.cast_unsigned() ^ 4),
            Tree::Float(n) => self.word(n.to_bits() ^ 5),
            Tree::Text(text) if text.len() > TEXT_LEN_MAX => self.word(text.len() as u64),
            Tree::Text(text) => self.word(text.as_ptr() as usize as u64),
            Tree::List(items) => self.word(items.ptr() as usize as u64),
            Tree::Map(entries) => self.word(entries.ptr() as usize as u64),
        }
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn done(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ (mixed >> 29)
    }
}

/// A hasher that passes through a precomputed hash.
#[derive(Default)]
struct Passed(u64);

impl Hasher for Passed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole hashes are passed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn equal_branches_become_one() {
        let mut sharing = Sharing::new();
        let a = sharing.share_below(&tree!({"name": "a", "spec": {"x": [1, 2, {"y": "z"}]}}));
        let b = sharing.share_below(&tree!({"name": "b", "spec": {"x": [1, 2, {"y": "z"}]}}));
        assert_ne!(a, b);
        assert!(a.get("spec").unwrap().same_branch(b.get("spec").unwrap()));
        let long = "long ".repeat(TEXT_LEN_MAX);
        let c = sharing.share_below(&tree!({"data": {"text": long.as_str()}}));
        let d = sharing.share_below(&tree!({"data": {"text": long.as_str()}, "more": 1}));
        assert!(c.get("data").unwrap().same_branch(d.get("data").unwrap()));
    }

    #[test]
    fn similar_values_are_not_merged() {
        let mut sharing = Sharing::new();
        for tree in [
            tree!({"a": {"x": 1}}),
            tree!({"a": {"x": 1.0}}),
            tree!({"a": {"x": "1"}}),
            tree!({"a": {"x": true}}),
            tree!({"a": {"x": null}}),
            tree!({"a": {}}),
            tree!({"a": []}),
            tree!({"a": [null]}),
            tree!({"a": ["x", 1]}),
        ] {
            assert_eq!(sharing.share_below(&tree), tree);
            assert_eq!(sharing.share_below(&tree), tree, "again, from the table");
        }
    }

    #[test]
    fn an_interned_tree_allocates_nothing() {
        let mut sharing = Sharing::new();
        let kept = sharing.share_below(&tree!({"meta": {"name": "a"}, "spec": {"x": [1, 2, {"y": "z"}]}}));
        assert!(sharing.take_new_bytes() > 100);
        let changed = kept.with(&["meta", "name"], "b");
        let again = sharing.share_below(&changed);
        assert!(again.get("spec").unwrap().same_branch(kept.get("spec").unwrap()));
        assert!((1..150).contains(&sharing.take_new_bytes()), "only the path to the change");
        assert!(sharing.share_below(&again).same_branch(&again));
    }

    #[test]
    fn own_bytes_exclude_shared_branches() {
        let mut sharing = Sharing::new();
        let all: Vec<Tree> = (0..10_i64)
            .map(|n| sharing.share_below(&tree!({"n": n, "spec": {"big": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}})))
            .collect();
        let alone = tree!({"n": 1, "spec": {"big": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}});
        assert!(own_bytes(&all[0]) * 3 < own_bytes(&alone), "{} {}", own_bytes(&all[0]), own_bytes(&alone));
    }

    #[test]
    fn unreferenced_branches_are_swept() {
        let mut sharing = Sharing::new();
        let kept = sharing.share_below(&tree!({"keep": {"me": "here"}}));
        for n in 0..100_000_i64 {
            let _ = sharing.share_below(&tree!({"n": {"deep": [n]}, "text": n.to_string()}));
        }
        assert!(sharing.len() < 8 * PARTS * SWEEP_MIN, "{} entries", sharing.len());
        let again = sharing.share_below(&tree!({"keep": {"me": "here"}}));
        assert!(again.get("keep").unwrap().same_branch(kept.get("keep").unwrap()));
    }
}
