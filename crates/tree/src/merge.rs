//! JSON merge patch (RFC 7396): applying one and computing one.

use crate::Tree;

impl Tree {
    /// Applies a merge patch: maps merge, `null` removes, any other value replaces.
    #[must_use]
    pub fn merge(&self, patch: &Tree) -> Tree {
        if !patch.is_map() {
            return patch.clone();
        }
        let start = if self.is_map() { self.clone() } else { Tree::empty_map() };
        patch.entries().iter().fold(start, |merged, (key, change)| match (change, merged.get(key)) {
            (Tree::Null, _) => merged.without_key(key),
            (Tree::Map(_), old) => {
                let below = old.unwrap_or(&Tree::Null).merge(change);
                merged.with_key(key, below)
            }
            (_, Some(old)) if old == change => merged,
            _ => merged.with_key(key, change.clone()),
        })
    }

    /// The smallest merge patch from this tree to `wanted`; `None` if they are equal.
    #[must_use]
    pub fn merge_patch_to(&self, wanted: &Tree) -> Option<Tree> {
        if self == wanted {
            return None;
        }
        let (true, true) = (self.is_map(), wanted.is_map()) else {
            return Some(wanted.clone());
        };
        let gone = self.entries().iter().filter(|(k, _)| wanted.get(k).is_none());
        let gone = gone.map(|(k, _)| (k.clone(), Tree::Null));
        let changed = wanted.entries().iter().filter_map(|(k, new)| match self.get(k) {
            Some(old) => old.merge_patch_to(new).map(|patch| (k.clone(), patch)),
            None => Some((k.clone(), new.clone())),
        });
        Some(Tree::map(gone.chain(changed)))
    }
}

#[cfg(test)]
mod tests {
    use crate::tree;

    #[test]
    fn the_cases_of_the_rfc() {
        for (old, patch, want) in [
            (tree!({"a": "b"}), tree!({"a": "c"}), tree!({"a": "c"})),
            (tree!({"a": "b"}), tree!({"b": "c"}), tree!({"a": "b", "b": "c"})),
            (tree!({"a": "b", "b": "c"}), tree!({"a": null}), tree!({"b": "c"})),
            (tree!({"a": ["b"]}), tree!({"a": "c"}), tree!({"a": "c"})),
            (tree!({"a": {"b": "c"}}), tree!({"a": {"b": "d", "c": null}}), tree!({"a": {"b": "d"}})),
            (tree!({"a": [{"b": "c"}]}), tree!({"a": [1]}), tree!({"a": [1]})),
            (tree!(["a"]), tree!({"a": "c"}), tree!({"a": "c"})),
            (tree!({"e": null}), tree!({"a": 1}), tree!({"a": 1, "e": null})),
            (tree!({}), tree!({"a": {"bb": {"ccc": null}}}), tree!({"a": {"bb": {}}})),
        ] {
            assert_eq!(old.merge(&patch), want, "{old} + {patch}");
        }
    }

    #[test]
    fn a_patch_that_changes_nothing_shares_everything() {
        let old = tree!({"a": {"b": [1, 2]}, "c": "x"});
        assert!(old.merge(&tree!({"a": {"b": [1, 2]}, "c": "x", "d": null})).same_branch(&old));
    }

    #[test]
    fn the_smallest_patch_leads_there() {
        let old = tree!({"a": {"b": 1, "c": 2}, "d": [1], "e": "x"});
        let new = tree!({"a": {"b": 1, "c": 3}, "d": [2], "f": {}});
        let patch = old.merge_patch_to(&new).unwrap();
        assert_eq!(patch, tree!({"a": {"c": 3}, "d": [2], "e": null, "f": {}}));
        assert_eq!(old.merge(&patch), new);
        assert_eq!(old.merge_patch_to(&old), None);
    }
}
