//! Defaults, pruning and types, and the laws they keep.

use muster_tree::{Tree, tree};
use proptest::prelude::*;

use super::*;
use crate::node::{Node, Schema, SchemaRef};
use crate::{crd, validate};

fn sample() -> SchemaRef {
    crd::compile(&tree!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer", "default": 1, "maximum": 100},
        "mode": {"type": "string", "nullable": true, "default": "fast"},
        "note": {"type": "string"},
        "port": {"x-kubernetes-int-or-string": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
            "known": {"type": "object", "properties": {"a": {"type": "integer", "default": 7}}},
        }},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
            "spec": {"type": "object", "properties": {"x": {"type": "integer"}}},
        }},
        "parts": {"type": "array", "items": {"type": "object", "properties": {
            "name": {"type": "string"}, "count": {"type": "integer", "default": 2},
        }}},
        "byName": {"type": "object", "additionalProperties": {"type": "object", "default": {}, "properties": {
            "count": {"type": "integer", "default": 3},
        }}},
        "nested": {"type": "object", "default": {}, "properties": {
            "deep": {"type": "object", "default": {"given": true}, "properties": {
                "given": {"type": "boolean"}, "more": {"type": "integer", "default": 9},
            }},
        }},
    }}}}))
    .unwrap()
}

#[test]
fn defaults_are_filled_in_at_every_depth() {
    let sample = sample();
    let base = tree!({"mode": "fast", "nested": {"deep": {"given": true, "more": 9}}, "size": 1});
    for (sentence, spec, changes) in [
        ("nothing given", tree!({}), tree!({})),
        ("given values stay", tree!({"size": 5, "mode": "slow"}), tree!({"size": 5, "mode": "slow"})),
        ("null of a nullable field is a value", tree!({"mode": null}), tree!({"mode": null})),
        ("null of another field is nothing", tree!({"size": null, "note": null}), tree!({})),
        (
            "items of lists; a null item stays in its place",
            tree!({"parts": [{"name": "a"}, {"count": 4}, null]}),
            tree!({"parts": [{"name": "a", "count": 2}, {"count": 4}, null]}),
        ),
        (
            "values of maps, also when null",
            tree!({"byName": {"a": {}, "b": null, "c": {"count": 1}}}),
            tree!({"byName": {"a": {"count": 3}, "b": {"count": 3}, "c": {"count": 1}}}),
        ),
        (
            "what nobody described keeps its nulls",
            tree!({"free": {"known": {}, "x": null, "y": {"z": null}}}),
            tree!({"free": {"known": {"a": 7}, "x": null, "y": {"z": null}}}),
        ),
        (
            "defaults below what was given",
            tree!({"nested": {"deep": {}}}),
            tree!({"nested": {"deep": {"more": 9}}}),
        ),
    ] {
        let got = default(sample.view(), &tree!({}).with_key("spec", spec));
        let want = changes.entries().iter().fold(base.clone(), |all, (k, v)| all.with_key(k, v.clone()));
        assert_eq!(got.get("spec").unwrap(), &want, "{sentence}");
    }
}

#[test]
fn unknown_fields_are_pruned_and_reported() {
    let sample = sample();
    let object = tree!({"kind": "S", "bar": 1, "spec": {
        "foo": {"a": 1}, "parts": [{"name": "a"}, {"name": "b", "x": 1}],
        "free": {"any": {"thing": 1}, "known": {"a": 1, "b": 2}},
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"x": 1, "y": 2}, "z": 1},
        "byName": {"k": {"count": 1, "q": 2}}, "port": {"odd": 1},
    }});
    let mut unknown = Vec::new();
    let got = prune(sample.view(), &object, &mut unknown);
    let want = tree!({"kind": "S", "spec": {
        "parts": [{"name": "a"}, {"name": "b"}], "free": {"any": {"thing": 1}, "known": {"a": 1}},
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"x": 1}},
        "byName": {"k": {"count": 1}}, "port": {"odd": 1},
    }});
    assert_eq!(got, want);
    assert_eq!(
        unknown,
        [
            "bar",
            "spec.byName.k.q",
            "spec.foo",
            "spec.free.known.b",
            "spec.parts[1].x",
            "spec.template.spec.y",
            "spec.template.z"
        ]
    );
    assert!(
        got.at(&["spec", "free", "any"]).unwrap().same_branch(object.at(&["spec", "free", "any"]).unwrap())
    );
}

/// A few nodes as the table of built-in kinds has them.
fn built_in() -> SchemaRef {
    let mut schema = Schema::default();
    let mut add = |node: Node| {
        schema.nodes.push(node);
        crate::node::NodeId(u32::try_from(schema.nodes.len() - 1).unwrap())
    };
    let text = add(Node { shape: Shape::Text, ..Node::default() });
    let int32 = add(Node { shape: Shape::Int, format: "int32".into(), ..Node::default() });
    let int64 = add(Node { shape: Shape::Int, format: "int64".into(), ..Node::default() });
    let time = add(Node { shape: Shape::Text, format: "date-time".into(), ..Node::default() });
    let micro = add(Node { shape: Shape::Text, format: "micro-time".into(), ..Node::default() });
    let bytes = add(Node { shape: Shape::Text, format: "byte".into(), ..Node::default() });
    let quantity = add(Node { format: "quantity".into(), ..Node::default() });
    let port = add(Node { int_or_string: true, ..Node::default() });
    let flag = add(Node { shape: Shape::Bool, ..Node::default() });
    let labels = add(Node { shape: Shape::Map(text), ..Node::default() });
    let limits = add(Node { shape: Shape::Map(quantity), ..Node::default() });
    let fields = |list: &[(&str, crate::node::NodeId)]| {
        let field = |(name, node): &(&str, crate::node::NodeId)| Field {
            name: (*name).into(),
            node: *node,
            required: false,
        };
        Shape::Fields(list.iter().map(field).collect())
    };
    let container = add(Node {
        shape: fields(&[("limits", limits), ("name", text), ("port", port)]),
        name: "io.k8s.api.core.v1.Container".into(),
        ..Node::default()
    });
    let containers = add(Node { shape: Shape::List(container), ..Node::default() });
    let spec = add(Node {
        shape: fields(&[
            ("containers", containers),
            ("data", bytes),
            ("grace", int64),
            ("hostNetwork", flag),
            ("micro", micro),
            ("nodeName", text),
            ("nodeSelector", labels),
            ("priority", int32),
            ("time", time),
        ]),
        name: "io.k8s.api.core.v1.PodSpec".into(),
        ..Node::default()
    });
    let root = add(Node {
        shape: fields(&[("spec", spec)]),
        name: "io.k8s.api.core.v1.Pod".into(),
        ..Node::default()
    });
    SchemaRef { schema: std::sync::Arc::new(schema), id: root }
}

#[test]
fn type_errors_have_upstreams_messages() {
    let pod = built_in();
    let cannot = "json: cannot unmarshal ";
    for (object, want) in [
        (tree!([]), "array into Go value of type v1.Pod"),
        (tree!({"spec": "x"}), "string into Go struct field Pod.spec of type v1.PodSpec"),
        (
            tree!({"spec": {"containers": "x"}}),
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            tree!({"spec": {"containers": ["x"]}}),
            "string into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            tree!({"spec": {"containers": [{"name": 1}]}}),
            "number into Go struct field Container.spec.containers.name of type string",
        ),
        (tree!({"spec": {"grace": "30"}}), "string into Go struct field PodSpec.spec.grace of type int64"),
        (tree!({"spec": {"grace": 1.5}}), "number 1.5 into Go struct field PodSpec.spec.grace of type int64"),
        (
            tree!({"spec": {"priority": 2_147_483_648_i64}}),
            "number 2147483648 into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            tree!({"spec": {"priority": true}}),
            "bool into Go struct field PodSpec.spec.priority of type int32",
        ),
        (
            tree!({"spec": {"hostNetwork": 1}}),
            "number into Go struct field PodSpec.spec.hostNetwork of type bool",
        ),
        (
            tree!({"spec": {"nodeName": {}}}),
            "object into Go struct field PodSpec.spec.nodeName of type string",
        ),
        (
            tree!({"spec": {"nodeSelector": {"a": 1}}}),
            "number into Go struct field PodSpec.spec.nodeSelector of type string",
        ),
        (
            tree!({"spec": {"nodeSelector": []}}),
            "array into Go struct field PodSpec.spec.nodeSelector of type map[string]string",
        ),
        (
            tree!({"spec": {"containers": [{"port": true}]}}),
            "bool into Go struct field Container.spec.containers.port of type int32",
        ),
        (
            tree!({"spec": {"containers": [{"port": 99_999_999_999_i64}]}}),
            "number 99999999999 into Go struct field Container.spec.containers.port of type int32",
        ),
        (tree!({"spec": {"data": 1}}), "number into Go struct field PodSpec.spec.data of type []uint8"),
        (tree!({"spec": {"time": 5}}), "number into Go struct field PodSpec.spec.time of type string"),
    ] {
        assert_eq!(check_types(pod.view(), &object), Err(format!("{cannot}{want}")), "{object}");
    }
}

#[test]
fn texts_with_a_form_are_read() {
    let pod = built_in();
    let quantity =
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
    let limit = |value: Tree| {
        tree!({"spec": {"containers": [{"limits": {}}]}}).map_entries(|_, spec| {
            Some(spec.map_entries(|_, list| {
                Some(list.map_items(|_, item| item.with(&["limits", "cpu"], value.clone())))
            }))
        })
    };
    for (object, want) in [
        (limit(tree!("abc")), quantity),
        (limit(tree!("")), quantity),
        (limit(tree!(true)), quantity),
        (limit(tree!({})), quantity),
        (limit(tree!("1Zi")), quantity),
        (limit(tree!("1.2.3")), "unable to parse numeric part of quantity"),
        (limit(tree!("1MM")), "unable to parse quantity's suffix"),
        (
            tree!({"spec": {"time": "x"}}),
            r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
        ),
        (
            tree!({"spec": {"time": "2020-01-01T00:00:00"}}),
            r#"parsing time "2020-01-01T00:00:00" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00""#,
        ),
        (
            tree!({"spec": {"time": "2020-13-01T00:00:00Z"}}),
            r#"parsing time "2020-13-01T00:00:00Z": month out of range"#,
        ),
        (
            tree!({"spec": {"micro": "2020-01-01T00:00:00Z"}}),
            r#"parsing time "2020-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
        ),
        (tree!({"spec": {"data": "!!"}}), "illegal base64 data at input byte 0"),
        (tree!({"spec": {"data": "x y"}}), "illegal base64 data at input byte 1"),
    ] {
        assert_eq!(check_types(pod.view(), &object), Err(want.to_owned()), "{object}");
    }
    for object in [
        tree!(null),
        tree!({"spec": null}),
        tree!({"spec": {"time": "2020-01-01T00:00:00.5+01:00", "micro": "2020-01-01T00:00:00.000001Z"}}),
        tree!({"spec": {"data": "YW\nJj", "grace": null, "unknown": {"x": 1}}}),
        tree!({"spec": {"containers": [{"port": 80}, {"port": "http"}], "priority": -2_147_483_648_i64}}),
        limit(tree!("1500m")),
        limit(tree!("2Gi")),
        limit(tree!("1e3")),
        limit(tree!(1.5)),
        limit(tree!(null)),
    ] {
        assert_eq!(check_types(pod.view(), &object), Ok(()), "{object}");
    }
}

#[test]
fn built_in_kinds_are_distinguished_by_the_table() {
    let pod = crate::table::builtin().root("", "v1", "Pod").unwrap();
    for (object, want) in [
        (
            tree!({"metadata": {"labels": {"a": 1}}}),
            "number into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            tree!({"spec": {"containers": [{"name": 1}]}}),
            "number into Go struct field Container.spec.containers.name of type string",
        ),
    ] {
        assert_eq!(check_types(pod.view(), &object), Err(format!("json: cannot unmarshal {want}")));
    }
    let sample = sample();
    let wrong = check_metadata(sample.view(), &tree!({"metadata": {"labels": []}})).unwrap_err();
    assert_eq!(
        wrong,
        "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string"
    );
    let mut unknown = Vec::new();
    let _ = prune(sample.view(), &tree!({"metadata": {"name": "a", "what": 1}}), &mut unknown);
    assert_eq!(unknown, ["metadata.what"]);
}

/// Objects that fit the sample in places and do not in others.
fn objects() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        (-3_i64..200).prop_map(Tree::Int),
        "[a-z]{0,3}".prop_map(Tree::from),
    ];
    let keys = prop_oneof![
        Just("size"),
        Just("mode"),
        Just("note"),
        Just("port"),
        Just("free"),
        Just("known"),
        Just("template"),
        Just("spec"),
        Just("parts"),
        Just("name"),
        Just("count"),
        Just("byName"),
        Just("nested"),
        Just("deep"),
        Just("given"),
        Just("kind"),
        Just("apiVersion"),
        Just("zz"),
    ];
    let value = leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Tree::list),
            prop::collection::vec((keys.clone(), inner), 0..6).prop_map(Tree::map),
        ]
    });
    value.prop_map(|spec| tree!({}).with_key("spec", spec))
}

proptest! {
    #[test]
    fn filling_in_twice_is_filling_in_once(object in objects()) {
        let sample = sample();
        let once = default(sample.view(), &object);
        prop_assert!(default(sample.view(), &once).same_branch(&once));
    }

    #[test]
    fn pruning_twice_is_pruning_once(object in objects()) {
        let sample = sample();
        let mut unknown = Vec::new();
        let once = prune(sample.view(), &object, &mut unknown);
        prop_assert_eq!(unknown.is_empty(), once.same_branch(&object));
        unknown.clear();
        prop_assert!(prune(sample.view(), &once, &mut unknown).same_branch(&once));
        prop_assert!(unknown.is_empty());
    }

    #[test]
    fn a_valid_object_stays_valid(object in objects()) {
        let sample = sample();
        let made = default(sample.view(), &prune(sample.view(), &object, &mut Vec::new()));
        if validate::validate(sample.view(), &object, None).is_empty() {
            prop_assert_eq!(validate::validate(sample.view(), &made, None), vec![]);
        }
    }
}
