//! Sharing equal branches: pods of one Job keep one spec between them.
//!
//! The store passes every tree it is about to keep through one [`Sharing`] table. Each branch is looked up by
//! hash among the live ones. Entries nobody else holds are swept whenever the table has doubled.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash, Hasher};

use triomphe::ThinArc;

use crate::{Text, Tree};

/// The table is never swept below this size.
const SWEEP_MIN: usize = 4096;
/// Branches with fewer leaves than one are not worth a table entry.
const TEXT_LEN_MAX: usize = 256;

/// Known branches and texts.
#[derive(Default)]
pub struct Sharing {
    branches: HashSet<Branch, Fixed>,
    texts: HashSet<Text, Fixed>,
    sweep_at: usize,
}

impl Sharing {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self { sweep_at: SWEEP_MIN, ..Self::default() }
    }

    /// The same tree, made of branches that are already known where possible.
    pub fn share(&mut self, tree: &Tree) -> Tree {
        if self.branches.len() + self.texts.len() > self.sweep_at {
            self.sweep();
        }
        self.walk(tree)
    }

    /// How many branches and texts are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.branches.len() + self.texts.len()
    }

    /// Whether nothing is known yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn walk(&mut self, tree: &Tree) -> Tree {
        let made = match tree {
            Tree::Text(text) if text.len() <= TEXT_LEN_MAX => return Tree::Text(self.text(text)),
            // The very branch may be known already: then nothing below needs a look.
            Tree::List(_) | Tree::Map(_) if self.knows(tree) => return tree.clone(),
            Tree::List(items) => {
                Tree::list(items.slice.iter().map(|item| self.walk(item)).collect::<Vec<_>>())
            }
            Tree::Map(entries) => {
                Tree::from_sorted(entries.slice.iter().map(|(k, v)| (self.text(k), self.walk(v))).collect())
            }
            other => return other.clone(),
        };
        let branch = Branch::of(made);
        if let Some(known) = self.branches.get(&branch) {
            return known.tree.clone();
        }
        let tree = branch.tree.clone();
        self.branches.insert(branch);
        tree
    }

    fn knows(&self, tree: &Tree) -> bool {
        // Hashing walks the branch, but does not allocate; a hit saves the copy.
        self.branches.get(&Branch::of(tree.clone())).is_some_and(|known| known.tree.same_branch(tree))
    }

    fn text(&mut self, text: &Text) -> Text {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        self.texts.insert(text.clone());
        text.clone()
    }

    /// Forgets what nobody else holds.
    fn sweep(&mut self) {
        loop {
            let before = self.branches.len();
            // A parent holds its children, so each round frees one more level.
            self.branches.retain(|branch| is_held(&branch.tree));
            if self.branches.len() == before {
                break;
            }
        }
        self.texts.retain(|text| Text::strong_count(text).is_none_or(|n| n > 1));
        self.sweep_at = (self.len() * 2).max(SWEEP_MIN);
    }
}

/// Whether somebody besides the table holds this branch.
fn is_held(tree: &Tree) -> bool {
    match tree {
        Tree::List(items) => ThinArc::strong_count(items) > 1,
        Tree::Map(entries) => ThinArc::strong_count(entries) > 1,
        _ => false,
    }
}

/// A branch with its hash, so that growing the table does not walk every tree again.
struct Branch {
    hash: u64,
    tree: Tree,
}

impl Branch {
    fn of(tree: Tree) -> Self {
        Self { hash: Fixed.hash_one(&tree), tree }
    }
}

impl Hash for Branch {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Branch {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.tree == other.tree
    }
}

impl Eq for Branch {}

/// A hasher with fixed keys: the same run gives the same table.
#[derive(Default, Clone)]
struct Fixed;

impl BuildHasher for Fixed {
    type Hasher = std::hash::DefaultHasher;

    fn build_hasher(&self) -> Self::Hasher {
        std::hash::DefaultHasher::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn equal_branches_become_one() {
        let mut sharing = Sharing::new();
        let a = sharing.share(&tree!({"name": "a", "spec": {"x": [1, 2, {"y": "z"}]}}));
        let b = sharing.share(&tree!({"name": "b", "spec": {"x": [1, 2, {"y": "z"}]}}));
        assert_ne!(a, b);
        assert!(a.get("spec").unwrap().same_branch(b.get("spec").unwrap()));
    }

    #[test]
    fn what_nobody_holds_is_swept() {
        let mut sharing = Sharing::new();
        let kept = sharing.share(&tree!({"keep": {"me": "here"}}));
        for n in 0..100_000_i64 {
            let _ = sharing.share(&tree!({"n": {"deep": [n]}}));
        }
        assert!(sharing.len() < 4 * SWEEP_MIN, "{} entries", sharing.len());
        assert!(sharing.share(&tree!({"keep": {"me": "here"}})).same_branch(&kept));
    }
}
