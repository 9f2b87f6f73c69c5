use std::collections::BTreeSet;

use muster_tree::{Tree, tree};
use proptest::prelude::*;

use super::*;
use crate::sample;
use crate::table::builtin;

#[test]
fn an_object_has_these_fields() {
    for (says, object, want) in [
        ("nothing", tree!({}), tree!({})),
        (
            "values are fields, what leads to them is not",
            tree!({"spec": {"replicas": 1, "paused": false}}),
            tree!({"f:spec": {"f:replicas": {}, "f:paused": {}}}),
        ),
        ("free keys are fields", tree!({"data": {"a": "1"}}), tree!({"f:data": {"f:a": {}}})),
        ("an empty map is a field", tree!({"data": {}}), tree!({"f:data": {}})),
        ("a null is a field", tree!({"data": null}), tree!({"f:data": {}})),
        ("an empty list is none", tree!({"spec": {"tags": []}}), tree!({})),
        (
            "items of a set",
            tree!({"spec": {"tags": ["b", "a\"<&>"]}}),
            tree!({"f:spec": {"f:tags": {"v:\"b\"": {}, "v:\"a\\\"<&>\"": {}}}}),
        ),
        (
            "an atomic list is one",
            tree!({"spec": {"tolerations": ["b", "a"]}}),
            tree!({"f:spec": {"f:tolerations": {}}}),
        ),
        (
            "an atomic map is one",
            tree!({"spec": {"selector": {"a": "1"}}}),
            tree!({"f:spec": {"f:selector": {}}}),
        ),
        (
            "items are fields and so is what they hold; a missing key has its default",
            tree!({"spec": {"containers": [{"name": "c", "ports": [{"port": 80}]}]}}),
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}, "f:ports": {
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}}}}),
        ),
        (
            "free-form maps are fields at every level, free-form lists are one",
            tree!({"spec": {"free": {"a": {"b": 1}, "c": [1, 2]}}}),
            tree!({"f:spec": {"f:free": {"f:a": {".": {}, "f:b": {}}, "f:c": {}}}}),
        ),
        (
            "items that cannot be told apart are one field",
            tree!({"spec": {"containers": [{"name": "c", "image": "x"}, {"name": "c"}]}}),
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {}}}}),
        ),
    ] {
        assert_eq!(of(sample::kind().view(), &object), want, "{says}");
    }
}

#[test]
fn changes_are_found() {
    let delta = |old: Tree, new: Tree| {
        let delta = compare(sample::kind().view(), &old, &new);
        (delta.removed, delta.changed)
    };
    for (says, old, new, removed, changed) in [
        ("nothing changed", tree!({"data": {"a": "1"}}), tree!({"data": {"a": "1"}}), tree!({}), tree!({})),
        (
            "a value",
            tree!({"spec": {"replicas": 1}}),
            tree!({"spec": {"replicas": 2}}),
            tree!({}),
            tree!({"f:spec": {"f:replicas": {}}}),
        ),
        (
            "a new map is a field with its keys",
            tree!({}),
            tree!({"data": {"a": "1"}}),
            tree!({}),
            tree!({"f:data": {".": {}, "f:a": {}}}),
        ),
        (
            "a key in a map",
            tree!({"data": {"a": "1"}}),
            tree!({"data": {"b": "1"}}),
            tree!({"f:data": {"f:a": {}}}),
            tree!({"f:data": {"f:b": {}}}),
        ),
        (
            "a new item with all it holds",
            tree!({"spec": {"tags": ["a"], "containers": []}}),
            tree!({"spec": {"tags": ["a", "b"], "containers": [{"name": "c"}]}}),
            tree!({}),
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}, "f:tags": {"v:\"b\"": {}}}}),
        ),
        (
            "order is nobody's",
            tree!({"spec": {"tags": ["a", "b"]}}),
            tree!({"spec": {"tags": ["b", "a"]}}),
            tree!({}),
            tree!({}),
        ),
        (
            "order of an atomic list is",
            tree!({"spec": {"tolerations": ["a", "b"]}}),
            tree!({"spec": {"tolerations": ["b", "a"]}}),
            tree!({}),
            tree!({"f:spec": {"f:tolerations": {}}}),
        ),
        (
            "a list goes with its items",
            tree!({"spec": {"tags": ["a"], "replicas": 1}}),
            tree!({"spec": {"replicas": 1}}),
            tree!({"f:spec": {"f:tags": {".": {}, "v:\"a\"": {}}}}),
            tree!({}),
        ),
        (
            "a free-form value that changes its form",
            tree!({"spec": {"free": {"a": 1}}}),
            tree!({"spec": {"free": {"a": {"b": 1}}}}),
            tree!({}),
            tree!({"f:spec": {"f:free": {"f:a": {".": {}, "f:b": {}}}}}),
        ),
        (
            "items that become two are one field",
            tree!({"spec": {"containers": [{"name": "c"}]}}),
            tree!({"spec": {"containers": [{"name": "c"}, {"name": "c"}]}}),
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}}}),
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {}}}}),
        ),
    ] {
        assert_eq!(delta(old, new), (removed, changed), "{says}");
    }
}

#[test]
fn always_serialized_fields_are_not_changes() {
    let pod = builtin().root("", "v1", "Pod").unwrap();
    let new =
        tree!({"spec": {"containers": [{"name": "a", "image": "i"}]}, "metadata": {"labels": {"l": "1"}}});
    let want = tree!({"f:metadata": {"f:labels": {".": {}, "f:l": {}}}, "f:spec": {"f:containers": {
        "k:{\"name\":\"a\"}": {".": {}, "f:image": {}, "f:name": {}, "f:resources": {}}}}});
    assert_eq!(compare(pod.view(), &tree!({}), &new).changed, want);
    let written = new
        .with(&["status"], tree!({}))
        .with(&["spec", "containers"], tree!([{"name": "a", "image": "i", "resources": {}}]));
    assert!(
        compare(pod.view(), &new, &written).is_empty(),
        "an empty object that is always there is no change"
    );
}

#[test]
fn fields_are_taken_out() {
    let kind = sample::kind();
    let object = tree!({"data": {"a": "1"}, "spec": {"tags": ["a", "b"], "replicas": 1,
        "containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]}});
    for (says, set, want) in [
        ("a value", tree!({"f:spec": {"f:replicas": {}}}), object.without(&["spec", "replicas"])),
        (
            "an item of a set",
            tree!({"f:spec": {"f:tags": {"v:\"a\"": {}}}}),
            object.with(&["spec", "tags"], tree!(["b"])),
        ),
        (
            "an item with all it holds",
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:name": {}}}}}),
            object.with(&["spec", "containers"], tree!([{"name": "d", "image": "i"}])),
        ),
        (
            "a field of an item",
            tree!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}}}),
            object.with(&["spec", "containers"], tree!([{"name": "c"}, {"name": "d", "image": "i"}])),
        ),
        (
            "a map that is left empty but not taken out",
            tree!({"f:data": {"f:a": {}}}),
            object.with(&["data"], Tree::Null),
        ),
        ("a map", tree!({"f:data": {".": {}, "f:a": {}}}), object.without(&["data"])),
        ("what is not there", tree!({"f:spec": {"f:tags": {"v:\"z\"": {}}}, "f:none": {}}), object.clone()),
    ] {
        assert_eq!(remove(kind.view(), &object, &set), want, "{says}");
    }
}

#[test]
fn paths_are_shown() {
    let set = tree!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {
        "f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}, "f:replicas": {}, "f:tags": {"v:\"x\\\"y\"": {}},
        "f:ports": {"k:{\"port\":8080,\"protocol\":\"TCP\"}": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {}}}});
    assert_eq!(
        paths(&set),
        [
            ".metadata.labels",
            ".metadata.labels.a",
            ".spec.replicas",
            ".spec.containers[name=\"a\"]",
            ".spec.containers[name=\"a\"].image",
            ".spec.ports[port=80,protocol=\"TCP\"]",
            ".spec.ports[port=8080,protocol=\"TCP\"]",
            ".spec.tags[=\"x\\\"y\"]",
        ]
    );
}

#[test]
fn an_excluded_field_takes_all_below_it() {
    let set = tree!({"f:spec": {"f:a": {}}, "f:status": {"f:b": {".": {}, "f:c": {}}}});
    assert_eq!(exclude(&set, &at(&["status"])), tree!({"f:spec": {"f:a": {}}}));
    assert_eq!(
        exclude(&set, &at(&["status", "b", "c"])),
        tree!({"f:spec": {"f:a": {}}, "f:status": {"f:b": {}}})
    );
    assert_eq!(
        difference(&set, &at(&["status", "b"])),
        tree!({"f:spec": {"f:a": {}}, "f:status": {"f:b": {"f:c": {}}}})
    );
}

/// A set as a plain set of paths.
type Model = BTreeSet<Vec<u8>>;

fn models() -> impl Strategy<Value = Model> {
    prop::collection::btree_set(prop::collection::vec(0..3_u8, 1..4), 0..12)
}

fn set_of(model: &Model) -> Tree {
    let path = |path: &Vec<u8>| path.iter().map(|n| format!("n{n}")).collect::<Vec<_>>();
    model.iter().fold(Tree::empty_map(), |set, one| {
        let names = path(one);
        union(&set, &at(&names.iter().map(String::as_str).collect::<Vec<_>>()))
    })
}

proptest! {
    #[test]
    fn sets_of_fields_are_sets_of_paths(a in models(), b in models()) {
        let (x, y) = (set_of(&a), set_of(&b));
        prop_assert_eq!(union(&x, &y), set_of(&a.union(&b).cloned().collect()));
        prop_assert_eq!(difference(&x, &y), set_of(&a.difference(&b).cloned().collect()));
        prop_assert_eq!(intersection(&x, &y), set_of(&a.intersection(&b).cloned().collect()));
        prop_assert_eq!(contains(&x, &y), b.is_subset(&a));
        prop_assert_eq!(is_empty(&x), a.is_empty());
        prop_assert_eq!(paths(&x).len(), a.len());
        let is_outside = |path: &&Vec<u8>| !(1..=path.len()).any(|n| b.contains(&path[..n]));
        prop_assert_eq!(exclude(&x, &y), set_of(&a.iter().filter(is_outside).cloned().collect()));
    }

    #[test]
    fn operations_that_change_nothing_share(a in models()) {
        let x = set_of(&a);
        prop_assert!(is_empty(&x) || union(&x, &x.clone()).same_branch(&x));
        prop_assert!(is_empty(&x) || difference(&x, &at(&["elsewhere"])).same_branch(&x));
        prop_assert_eq!(intersection(&x, &x), x);
    }
}
