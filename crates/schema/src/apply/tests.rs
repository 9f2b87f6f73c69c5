use std::collections::BTreeMap;
use std::sync::Arc;

use muster_tree::{Text, Tree, tree};
use proptest::prelude::*;

use super::*;
use crate::sample;

fn writer(manager: &str, time: &str) -> Writer {
    Writer { manager: manager.into(), api_version: "v1".into(), subresource: Text::new(), time: time.into() }
}

fn applied(live: &StoredObject, manager: &str, config: &Tree) -> Result<StoredObject, Vec<Conflict>> {
    apply(sample::kind().view(), live, config, &writer(manager, "t1"), false, &tree!({}))
}

fn updated(live: &StoredObject, manager: &str, new: &Tree) -> StoredObject {
    let managed = update(sample::kind().view(), Some(live), new, &writer(manager, "t2"), &tree!({}));
    StoredObject { tree: new.clone(), managed, revision: live.revision }
}

/// The owners and their fields, one line each.
fn owners(object: &StoredObject) -> Vec<String> {
    let shown = |m: &Managed| {
        format!("{} {} {} {}", m.manager, if m.applied { "applied" } else { "changed" }, m.time, m.fields)
    };
    object.managed.iter().map(shown).collect()
}

#[test]
fn appliers_own_applied_fields_and_share_equal_values() {
    let first = applied(&StoredObject::new(tree!({})), "a", &tree!({"data": {"x": "1", "y": "2"}})).unwrap();
    assert_eq!(first.tree, tree!({"data": {"x": "1", "y": "2"}}));
    let second = applied(&first, "b", &tree!({"data": {"x": "1"}})).unwrap();
    assert_eq!(
        owners(&second),
        ["b applied  {\"f:data\":{\"f:x\":{}}}", "a applied t1 {\"f:data\":{\"f:x\":{},\"f:y\":{}}}",],
        "an apply that changes no value leaves no time"
    );
    let third = applied(&second, "a", &tree!({"data": {}})).unwrap();
    assert_eq!(third.tree, tree!({"data": {"x": "1"}}), "what the other still wants stays");
    let fourth = applied(&third, "b", &tree!({})).unwrap();
    assert_eq!(fourth.tree, tree!({"data": {}}), "the first still wants the map, empty");
    assert_eq!(applied(&fourth, "a", &tree!({})).unwrap().tree, tree!({}));
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    let live = applied(
        &StoredObject::new(tree!({})),
        "a",
        &tree!({"data": {"x": "1", "y": "1"}, "spec": {"replicas": 1}}),
    )
    .unwrap();
    let live = updated(&live, "u", &live.tree.with(&["data", "y"], "2"));
    let config = tree!({"data": {"x": "9", "y": "9"}});
    let conflicts = applied(&live, "b", &config).unwrap_err();
    assert_eq!(
        message(&conflicts),
        "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.x\nconflicts with \"u\" using v1:\n- .data.y"
    );
    let one = applied(&live, "b", &tree!({"data": {"x": "9"}})).unwrap_err();
    assert_eq!(message(&one), "Apply failed with 1 conflict: conflict with \"a\": .data.x");
    assert_eq!(one[0].message(), "conflict with \"a\"");
    let forced = apply(sample::kind().view(), &live, &config, &writer("b", "t3"), true, &tree!({})).unwrap();
    assert_eq!(
        owners(&forced),
        [
            "a applied t1 {\"f:spec\":{\"f:replicas\":{}}}",
            "b applied t3 {\"f:data\":{\"f:x\":{},\"f:y\":{}}}",
        ]
    );
}

#[test]
fn a_subresource_is_an_owner_of_its_own() {
    let status = Writer { subresource: "status".into(), ..writer("a", "t1") };
    let live = applied(&StoredObject::new(tree!({})), "a", &tree!({"spec": {"replicas": 1}})).unwrap();
    let new = live.tree.with(&["status"], tree!({"phase": "Up"}));
    let managed = update(sample::kind().view(), Some(&live), &new, &status, &tree!({"f:spec": {}}));
    let live = StoredObject { tree: new, managed, revision: 0 };
    let conflicts = applied(&live, "a", &tree!({"status": {"phase": "Down"}})).unwrap_err();
    assert_eq!(conflicts[0].message(), "conflict with \"a\" with subresource \"status\" using v1");
}

#[test]
fn ignored_fields_are_neither_owned_nor_fought_over() {
    let live = updated(
        &StoredObject { managed: track_nothing(), ..StoredObject::new(tree!({})) },
        "u",
        &tree!({"status": {"phase": "Up"}}),
    );
    let config = tree!({"status": {"phase": "Down"}, "data": {"a": "1"}});
    let result =
        apply(sample::kind().view(), &live, &config, &writer("a", "t1"), false, &tree!({"f:status": {}}))
            .unwrap();
    assert_eq!(owners(&result)[0], "a applied t1 {\"f:data\":{\"f:a\":{}}}");
}

/// Entries that make an object count as tracked.
fn track_nothing() -> Arc<[Managed]> {
    update(sample::kind().view(), None, &tree!({"spec": {"paused": true}}), &writer("x", "t0"), &tree!({}))
}

#[test]
fn an_update_owns_changed_fields() {
    let live = applied(&StoredObject::new(tree!({})), "a", &tree!({"data": {"x": "1", "y": "2"}})).unwrap();
    let same = updated(&live, "u", &live.tree.clone());
    assert!(Arc::ptr_eq(&same.managed, &live.managed), "nothing changed, nothing is made");
    let changed = updated(&live, "u", &tree!({"data": {"x": "9", "z": "3"}}));
    assert_eq!(
        owners(&changed),
        ["u changed t2 {\"f:data\":{\"f:x\":{},\"f:z\":{}}}"],
        "y is gone, so it has no owner"
    );
    let again = updated(&changed, "u", &tree!({"data": {"x": "9", "z": "4"}}));
    assert_eq!(owners(&again), owners(&changed));
    let removed = updated(&again, "v", &tree!({"data": {"x": "9"}}));
    assert_eq!(owners(&removed), ["u changed t2 {\"f:data\":{\"f:x\":{}}}"], "who only removes owns nothing");
}

#[test]
fn an_untracked_object_is_owned_from_before() {
    let live = StoredObject::new(tree!({"data": {"x": "1"}, "metadata": {"name": "n", "uid": "u"}}));
    let conflicts = applied(&live, "a", &tree!({"data": {"x": "2"}})).unwrap_err();
    assert_eq!(
        message(&conflicts),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    let result = applied(&live, "a", &tree!({"data": {"y": "2"}})).unwrap();
    assert_eq!(
        owners(&result),
        [
            "a applied t1 {\"f:data\":{\"f:y\":{}}}",
            "before-first-apply changed t1 {\"f:data\":{\".\":{},\"f:x\":{}}}",
        ]
    );
    assert!(updated(&live, "u", &tree!({"data": {}})).managed.is_empty(), "a write does not begin to track");
}

#[test]
fn many_updaters_become_ancient() {
    let mut live =
        StoredObject { managed: track_nothing(), ..StoredObject::new(tree!({"spec": {"paused": true}})) };
    for n in 0..15 {
        let new = live.tree.with(&["data", &format!("k{n:02}")], "1");
        let by = writer(&format!("u{n:02}"), &format!("t{n:02}"));
        let managed = update(sample::kind().view(), Some(&live), &new, &by, &tree!({}));
        live = StoredObject { tree: new, managed, revision: 0 };
    }
    let names: Vec<&str> = live.managed.iter().map(|m| m.manager.as_str()).collect();
    assert_eq!(names, ["ancient-changes", "u06", "u07", "u08", "u09", "u10", "u11", "u12", "u13", "u14"]);
    assert_eq!(live.managed[0].time, "t05", "the youngest of the ancient");
}

#[test]
fn a_request_may_bring_or_reset_entries() {
    let stored = track_nothing();
    let entry = tree!({"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}});
    for (says, body, subresource, want) in [
        ("nothing said", None, "", "x"),
        ("null", Some(Tree::Null), "", "x"),
        ("an empty list resets", Some(tree!([])), "", ""),
        ("one empty entry resets", Some(tree!([{}])), "", ""),
        ("entries of its own", Some(Tree::list([entry.clone()])), "", "m"),
        ("entries that make no sense", Some(tree!([{"manager": "m"}])), "", "x"),
        ("not through a subresource", Some(tree!([])), "status", "x"),
    ] {
        let found = of_request(body.as_ref(), &stored, subresource);
        assert_eq!(found.first().map(|m| m.manager.as_str()).unwrap_or_default(), want, "{says}");
    }
}

#[test]
fn kubectl_migrates_from_client_side_apply() {
    let last = r#"{"apiVersion":"v1","data":{"a":"1","b":"2"}}"#;
    let tree = tree!({"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": last}}, "data": {"a": "1", "b": "7"}});
    let live = StoredObject {
        managed: update(
            sample::kind().view(),
            None,
            &tree,
            &writer("kubectl-client-side-apply", "t0"),
            &tree!({}),
        ),
        ..StoredObject::new(tree)
    };
    let config = tree!({"apiVersion": "v1", "data": {"a": "9"}});
    assert!(applied(&live, "other", &config).is_err());
    let taken = applied(&live, "kubectl", &config).unwrap();
    assert_eq!(
        taken.tree.str_at(&["metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"]),
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"9\"}}\n"
    );
    let both = tree!({"apiVersion": "v1", "data": {"a": "9", "b": "9"}});
    let conflicts = applied(&live, "kubectl", &both).unwrap_err();
    assert_eq!(conflicts.iter().map(|c| c.path.as_str()).collect::<Vec<_>>(), [".data.b"], "b changed since");
}

#[test]
fn lists_merge_in_the_order_of_the_configuration() {
    let tags = |list: &str| Tree::list(list.split(' ').filter(|t| !t.is_empty()));
    for (live, config, want) in [
        ("a b c", "b", "a b c"),
        ("a b c", "c a", "b c a"),
        ("a b c", "d a", "d a b c"),
        ("a b c", "c d", "a b c d"),
        ("a b c", "d", "a b c d"),
        ("a b", "b x a y", "b x a y"),
        ("", "a", "a"),
    ] {
        let tree = tree!({"spec": {"tags": (tags(live))}});
        let merged = merge::merge(sample::kind().view(), &tree, &tree!({"spec": {"tags": (tags(config))}}));
        assert_eq!(merged.at(&["spec", "tags"]), Some(&tags(want)), "{live} + {config}");
    }
}

#[test]
fn configurations_are_checked() {
    let containers = |items: Tree| tree!({"spec": {"containers": items}});
    for (config, want) in [
        (tree!({"spec": {"foo": 1}}), ".spec.foo: field not declared in schema"),
        (
            containers(tree!([{"name": "a", "foo": 1}])),
            ".spec.containers[name=\"a\"].foo: field not declared in schema",
        ),
        (
            containers(tree!([{"name": "a"}, {"name": "a"}])),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        ),
        (
            containers(tree!([{"name": "a", "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}])),
            ".spec.containers[name=\"a\"].ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
        ),
        (
            containers(tree!([null])),
            ".spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            containers(tree!(["x"])),
            ".spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (containers(tree!({"a": 1})), ".spec.containers: expected list, got {\"a\":1}"),
        (
            tree!({"metadata": {"finalizers": ["a", "a"]}}),
            ".metadata.finalizers: duplicate entries for key [=\"a\"]",
        ),
        (tree!({"metadata": {"labels": ["a"]}}), ".metadata.labels: expected map, got [\"a\"]"),
        (tree!({"metadata": {"labels": {"a": 1}}}), ".metadata.labels.a: expected string, got 1"),
        (tree!({"spec": {"replicas": "x"}}), ".spec.replicas: expected numeric (int or float), got string"),
        (
            tree!({"spec": {"foo": 1, "bar": 2}}),
            "errors:\n  .spec.bar: field not declared in schema\n  .spec.foo: field not declared in schema",
        ),
    ] {
        assert_eq!(check(sample::kind().view(), &config), Err(want.into()), "{config}");
    }
    let fine =
        tree!({"spec": {"free": {"x": [1, {"y": null}]}, "replicas": null, "containers": [{"name": "a"}]}});
    assert_eq!(check(sample::kind().view(), &fine), Ok(()));
}

fn texts() -> impl Strategy<Value = Tree> {
    prop::collection::btree_map("[ab]", "[12]", 0..3).prop_map(Tree::map)
}

/// Never empty: an empty granular list has no owned field, so the property would not hold.
fn names() -> impl Strategy<Value = Tree> {
    prop::sample::subsequence(vec!["a", "b", "c", "d"], 1..4).prop_shuffle().prop_map(Tree::list)
}

fn containers() -> impl Strategy<Value = Tree> {
    let container = (
        prop::option::of("[ij]"),
        prop::option::of(texts()),
        prop::option::of(prop::sample::subsequence(vec![80, 81], 1..3)),
    );
    let all = prop::collection::btree_map("[abc]", container, 1..3);
    all.prop_map(|all| {
        Tree::list(all.into_iter().map(|(name, (image, limits, ports))| {
            let ports = ports.map(|ports| Tree::list(ports.into_iter().map(|n| tree!({"port": n}))));
            tree!({"name": name})
                .with_option(&["image"], image.map(Tree::from))
                .with_option(&["limits"], limits)
                .with_option(&["ports"], ports)
        }))
    })
}

fn configs() -> impl Strategy<Value = Tree> {
    let part = |p: BoxedStrategy<Tree>| prop::option::of(p);
    let fields = (
        part(texts().boxed()),
        part(names().boxed()),
        part(containers().boxed()),
        part((1..3_i64).prop_map(Tree::from).boxed()),
        part(texts().boxed()),
        part(texts().boxed()),
        part(names().boxed()),
    );
    fields.prop_map(|(labels, tags, containers, replicas, selector, free, tolerations)| {
        tree!({"kind": "K"})
            .with_option(&["metadata", "labels"], labels)
            .with_option(&["spec", "tags"], tags)
            .with_option(&["spec", "containers"], containers)
            .with_option(&["spec", "replicas"], replicas)
            .with_option(&["spec", "selector"], selector)
            .with_option(&["spec", "free"], free)
            .with_option(&["spec", "tolerations"], tolerations)
    })
}

/// One step of a history: manager, operation and configuration.
fn histories() -> impl Strategy<Value = Vec<(usize, bool, Tree)>> {
    prop::collection::vec((0..3_usize, prop::bool::weighted(0.7), configs()), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_is_written_the_laws_hold(history in histories()) {
        let kind = sample::kind();
        let view = kind.view();
        let nothing = tree!({});
        let mut live = StoredObject::new(tree!({}));
        let mut last: BTreeMap<String, Tree> = BTreeMap::new();
        for (n, (who, is_apply, config)) in history.into_iter().enumerate() {
            let by = writer(&format!("m{who}"), &format!("t{n}"));
            if !is_apply {
                let new = live.tree.merge(&config);
                let exists = (n > 0).then_some(&live);
                let managed = update(view, exists, &new, &by, &nothing);
                live = StoredObject { tree: new, managed, revision: 0 };
                continue;
            }
            let before = live.clone();
            live = apply(view, &live, &config, &by, true, &nothing).expect("forced");
            let again = apply(view, &live, &config, &by, false, &nothing).expect("no conflict with itself");
            prop_assert_eq!(&again, &live, "applying twice is applying once");
            prop_assert!(again.tree.same_branch(&live.tree));
            let delta = fields::compare(view, &config, &live.tree);
            let lost = fields::intersection(&fields::of(view, &config), &fields::union(&delta.removed, &delta.changed));
            prop_assert_eq!(lost, nothing.clone(), "what was applied is there");
            if let Some(old) = before.managed.iter().find(|m| managers::is_applier(m, &by)) {
                let others = live.managed.iter().fold(nothing.clone(), |all, m| fields::union(&all, &m.fields));
                let dropped = fields::difference(&fields::difference(&old.fields, &fields::of(view, &config)), &fields::named(view, &others));
                let left = fields::intersection(&fields::of(view, &live.tree), &dropped);
                prop_assert_eq!(left, nothing.clone(), "what its last owner left out is gone");
            }
            last.insert(by.manager.to_string(), config);
        }
        for entry in live.managed.iter().filter(|entry| entry.applied) {
            let delta = fields::compare(view, &last[entry.manager.as_str()], &live.tree);
            let differs = fields::intersection(&entry.fields, &fields::union(&delta.removed, &delta.changed));
            prop_assert_eq!(differs, nothing.clone(), "owners agree on the value");
        }
        prop_assert!(live.managed.iter().all(|entry| !fields::is_empty(&entry.fields)));
    }
}
