use muster_tree::{Tree, tree};

use super::merge;
use crate::sample;

fn live() -> Tree {
    tree!({
        "metadata": {"name": "x", "finalizers": ["f/a", "f/b", "f/c"], "ownerReferences": [
            {"name": "p", "uid": "u1"}, {"name": "q", "uid": "u2"}]},
        "data": {"a": "1", "b": "2"},
        "spec": {
            "containers": [
                {"name": "a", "image": "i", "command": ["x", "y"], "env": [
                    {"name": "A", "value": "1"}, {"name": "B", "value": "2"}, {"name": "C", "value": "3"}]},
                {"name": "b", "image": "j"},
                {"name": "c", "image": "k"}],
            "strategy": {"type": "Rolling", "rolling": {"surge": "1"}},
            "tolerations": ["t"],
            "free": {"m": {"n": 1}}
        }
    })
}

/// What the patch makes of one place of the live object, or the error.
fn at(path: &[&str], patch: &Tree) -> Result<Tree, String> {
    let merged = merge(sample::kind().view(), &live(), patch).map_err(|e| format!("{}: {e}", e.code()))?;
    Ok(merged.at(path).cloned().unwrap_or_default())
}

#[test]
fn maps_merge() {
    for (says, patch, want) in [
        ("keys merge and null deletes", tree!({"data": {"a": null, "c": "3"}}), tree!({"b": "2", "c": "3"})),
        ("null deletes a map", tree!({"data": null}), Tree::Null),
        ("replace", tree!({"data": {"$patch": "replace", "z": "9"}}), tree!({"z": "9"})),
        ("delete leaves an empty map", tree!({"data": {"$patch": "delete", "q": "1"}}), tree!({})),
        (
            "retained keys stay",
            tree!({"data": {"$retainKeys": ["a", "c"], "c": "3"}}),
            tree!({"a": "1", "c": "3"}),
        ),
        ("text replaces a map", tree!({"data": "x"}), tree!("x")),
    ] {
        assert_eq!(at(&["data"], &patch), Ok(want), "{says}");
    }
    let strategy = tree!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    assert_eq!(at(&["spec", "strategy"], &strategy), Ok(tree!({"type": "Recreate"})));
    let fresh = tree!({"spec": {"selector": {"$patch": "replace", "a": "b"}}});
    assert_eq!(
        at(&["spec", "selector"], &fresh),
        Ok(Tree::Null),
        "a directive that meets nothing is dropped"
    );
    let nulls = tree!({"metadata": {"labels": {"a": null, "b": "1"}}});
    assert_eq!(
        at(&["metadata", "labels"], &nulls),
        Ok(tree!({"b": "1"})),
        "nulls that meet nothing are dropped"
    );
}

#[test]
fn lists_of_scalars_are_sets() {
    for (says, patch, want) in [
        (
            "new items come where the patch says",
            tree!({"finalizers": ["f/d", "f/a"]}),
            tree!(["f/d", "f/a", "f/b", "f/c"]),
        ),
        ("the order of the patch wins", tree!({"finalizers": ["f/c", "f/a"]}), tree!(["f/b", "f/c", "f/a"])),
        ("items are deleted", tree!({"$deleteFromPrimitiveList/finalizers": ["f/b"]}), tree!(["f/a", "f/c"])),
        (
            "delete and add",
            tree!({"$deleteFromPrimitiveList/finalizers": ["f/b"], "finalizers": ["f/d"]}),
            tree!(["f/d", "f/a", "f/c"]),
        ),
        ("order alone", tree!({"$setElementOrder/finalizers": ["f/c", "f/a"]}), tree!(["f/b", "f/c", "f/a"])),
        (
            "order with a new item",
            tree!({"$setElementOrder/finalizers": ["f/d", "f/c", "f/a"], "finalizers": ["f/d"]}),
            tree!(["f/d", "f/b", "f/c", "f/a"]),
        ),
        (
            "no list is no deletion",
            tree!({"$deleteFromPrimitiveList/finalizers": "f/b"}),
            tree!(["f/a", "f/b", "f/c"]),
        ),
        (
            "nothing to delete from",
            tree!({"$deleteFromPrimitiveList/frob": ["f/b"]}),
            tree!(["f/a", "f/b", "f/c"]),
        ),
    ] {
        assert_eq!(at(&["metadata", "finalizers"], &tree!({"metadata": patch})), Ok(want), "{says}");
    }
    assert_eq!(at(&["spec", "tolerations"], &tree!({"spec": {"tolerations": ["u"]}})), Ok(tree!(["u"])));
}

#[test]
fn lists_of_maps_merge_by_key() {
    let images = |tree: &Tree| {
        let shown = tree.items().iter().map(|c| format!("{}={}", c.str_at(&["name"]), c.str_at(&["image"])));
        shown.collect::<Vec<_>>().join(" ")
    };
    for (says, patch, want) in [
        ("an item merges in its place", tree!([{"name": "b", "image": "z"}]), "a=i b=z c=k"),
        ("a new item comes first", tree!([{"name": "n", "image": "z"}]), "n=z a=i b=j c=k"),
        ("the order of the patch wins", tree!([{"name": "c", "image": "z"}, {"name": "a"}]), "b=j c=z a=i"),
        (
            "a new item between two",
            tree!([{"name": "a"}, {"name": "n", "image": "z"}, {"name": "c"}]),
            "a=i n=z b=j c=k",
        ),
        ("an item is deleted", tree!([{"name": "b", "$patch": "delete"}]), "a=i c=k"),
        ("the list is replaced", tree!([{"$patch": "replace"}, {"name": "n", "image": "z"}]), "n=z"),
        ("an empty list changes nothing", tree!([]), "a=i b=j c=k"),
    ] {
        let got = at(&["spec", "containers"], &tree!({"spec": {"containers": patch}})).unwrap();
        assert_eq!(images(&got), want, "{says}");
    }
    let ordered = tree!({"spec": {"containers": [{"name": "n", "image": "z"}],
        "$setElementOrder/containers": [{"name": "c"}, {"name": "n"}]}});
    assert_eq!(images(&at(&["spec", "containers"], &ordered).unwrap()), "a=i b=j c=k n=z");
    let deep = tree!({"spec": {"containers": [{"name": "a", "env": [{"name": "C", "value": "9"}], "command": ["q"]}]}});
    let first = at(&["spec", "containers"], &deep).unwrap().items()[0].clone();
    assert_eq!(first.items_at(&["env"])[2], tree!({"name": "C", "value": "9"}));
    assert_eq!(first.get("command"), Some(&tree!(["q"])));
}

#[test]
fn mistakes_are_explained() {
    for (patch, want) in [
        (tree!([1]), "400: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (tree!({"data": {"$patch": "merge"}}), "500: unknown patch type: merge in map: map[$patch:merge]"),
        (tree!({"data": {"$patch": 1}}), "500: unknown patch type: 1 in map: map[$patch:1]"),
        (tree!({"data": {"$retainKeys": ["a"], "c": "3"}}), "400: invalid patch format of retainKeys"),
        (tree!({"data": {"$retainKeys": "a"}}), "400: invalid patch format of retainKeys"),
        (
            tree!({"metadata": {"$deleteFromPrimitiveList": ["x"]}}),
            "400: invalid patch format of primitive list",
        ),
        (
            tree!({"metadata": {"$setElementOrder": ["x"]}}),
            "400: invalid patch format of setElementOrder list",
        ),
        (
            tree!({"metadata": {"$setElementOrder/finalizers": "x"}}),
            "500: expected a []interface {}, but received a string",
        ),
        (
            tree!({"metadata": {"$setElementOrder/frob": ["x"]}}),
            "500: unable to find api field for the json field \"frob\"",
        ),
        (
            tree!({"metadata": {"ownerReferences": [{"name": "r"}]}}),
            "500: map: map[name:r] does not contain declared merge key: uid",
        ),
        (
            tree!({"metadata": {"ownerReferences": [{"$patch": "delete"}]}}),
            "500: map: map[$patch:delete] does not contain declared merge key: uid",
        ),
        (
            tree!({"spec": {"containers": [{"name": "b", "$patch": "merge"}]}}),
            "500: merging lists cannot yet be specified in the patch",
        ),
        (
            tree!({"spec": {"free": {"m": {"n": 2}}}}),
            "500: unable to find api field for the json field \"m\"",
        ),
    ] {
        assert_eq!(at(&[], &patch), Err(want.into()), "{patch}");
    }
    let mixed = at(&[], &tree!({"metadata": {"finalizers": ["f/a", {"a": 1}]}})).unwrap_err();
    assert!(mixed.starts_with("500: list element types are not identical: "), "{mixed}");
    let disordered = tree!({"metadata": {"$setElementOrder/finalizers": ["f/c"], "finalizers": ["f/d"]}});
    assert!(at(&[], &disordered).unwrap_err().contains("doesn't match $setElementOrder list"));
}

#[test]
fn branches_outside_a_patch_are_shared() {
    let old = live();
    let view = sample::kind();
    let same =
        merge(view.view(), &old, &tree!({"data": {"a": "1", "z": null}, "spec": {"strategy": {}}})).unwrap();
    assert!(same.same_branch(&old), "{same}");
    let new = merge(view.view(), &old, &tree!({"data": {"a": "9"}})).unwrap();
    assert!(new.get("spec").unwrap().same_branch(old.get("spec").unwrap()));
}
