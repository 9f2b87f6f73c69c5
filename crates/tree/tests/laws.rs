//! Laws that hold for every tree.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

use muster_tree::{Sharing, Tree, from_tree};
use proptest::prelude::*;

/// Any tree a few levels deep. Floats are left out of some laws: text does not keep them to the bit.
fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(Tree::Int),
        "[a-z\"\\\\\n:#-]{0,6}|true|null|1|~|\\PC{0,4}".prop_map(Tree::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::list),
            prop::collection::vec(("[a-d]{1,2}|\\PC{1,3}", inner), 0..5).prop_map(Tree::map),
        ]
    })
}

/// Without `null`s: a merge patch cannot say "set to null".
fn without_nulls(tree: &Tree) -> Tree {
    match tree {
        Tree::Map(_) => tree.map_entries(|_, v| (!v.is_null()).then(|| without_nulls(v))),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn json_keeps_everything(tree in any_tree()) {
        prop_assert_eq!(&Tree::parse(&tree.to_json_bytes()).unwrap(), &tree);
        prop_assert_eq!(&Tree::from_value(&tree.to_value()), &tree);
        prop_assert!(from_tree::<Tree>(&tree).unwrap() == tree);
    }

    #[test]
    fn yaml_keeps_everything(tree in any_tree()) {
        let map = Tree::map([("doc", tree)]);
        prop_assert_eq!(Tree::parse_yaml(&map.to_yaml()).unwrap(), map);
    }

    #[test]
    fn the_smallest_merge_patch_leads_from_one_to_the_other(old in any_tree(), new in any_tree()) {
        let (old, new) = (without_nulls(&old), without_nulls(&new));
        let reached = old.merge_patch_to(&new).map_or_else(|| old.clone(), |patch| old.merge(&patch));
        prop_assert_eq!(without_nulls(&reached), new);
    }

    #[test]
    fn sharing_changes_nothing_but_memory(trees in prop::collection::vec(any_tree(), 1..8)) {
        let mut sharing = Sharing::new();
        for tree in &trees {
            let first = sharing.share(tree);
            prop_assert_eq!(&first, tree);
            let again = sharing.share(&Tree::parse(&tree.to_json_bytes()).unwrap());
            prop_assert!(again == first && (again.same_branch(&first) || !(first.is_map() || first.is_list())));
        }
    }

    #[test]
    fn reading_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = Tree::parse(&bytes);
        let _ = Tree::parse_yaml(&String::from_utf8_lossy(&bytes));
    }
}
