//! Compares Tables of built-in kinds with those of kube-apiserver 1.37 for the same objects.
//!
//! `testdata/tables.json` has objects, cells and column definitions recorded from that server, with the time of its
//! response.

use std::sync::Arc;

use muster_schema::node::{NodeId, Schema, SchemaRef};

use super::*;
use crate::registry::{ApiVersion, Column};

const RECORDED: &str = include_str!("../../testdata/tables.json");

fn resource(group: &str, version: &str, kind: &str, columns: Vec<Column>) -> Resource {
    let schema = SchemaRef { schema: Arc::new(Schema::default()), id: NodeId(0) };
    Resource {
        group: group.into(),
        plural: "".into(),
        singular: "".into(),
        kind: kind.into(),
        list_kind: "".into(),
        short_names: vec![],
        categories: vec![],
        namespaced: true,
        versions: vec![ApiVersion {
            name: version.into(),
            served: true,
            schema,
            verbs: vec![],
            subresources: vec![],
            columns,
            selectable_fields: vec![],
            deprecation: "".into(),
        }],
        storage_version: 0,
        storage: "".into(),
        custom: group == "example.com",
        strategy: Arc::new(crate::kinds::DefaultStrategy),
    }
}

#[test]
fn tables_of_built_in_kinds_match_kube_apiserver() {
    for case in Tree::parse(RECORDED.as_bytes()).unwrap().items() {
        let [group, version, kind] = ["group", "version", "kind"].map(|key| case.str_at(&[key]));
        let objects: Vec<Tree> =
            case.items_at(&["rows"]).iter().map(|row| row.get("object").unwrap().clone()).collect();
        let now = Time::of(case.get("now")).unwrap();
        let meta = ListMeta::default();
        let made =
            table(&resource(group, version, kind, vec![]), 0, &objects, IncludeObject::Object, now, &meta);
        let columns = made.get("columnDefinitions").unwrap();
        let columns = columns.map_items(|_, column| column.without(&["description"]));
        assert_eq!(Some(&columns), case.get("columns"), "columns of {kind}");
        for (got, want) in made.items_at(&["rows"]).iter().zip(case.items_at(&["rows"])) {
            let name = want.str_at(&["object", "metadata", "name"]);
            assert_eq!(got.get("cells"), want.get("cells"), "cells of {kind} {name}");
            let conditions = got.get("conditions").map(|all| all.map_items(|_, c| c.without(&["message"])));
            assert_eq!(conditions.as_ref(), want.get("conditions"), "conditions of {kind} {name}");
        }
    }
}

#[test]
fn include_object_selects_the_row_object() {
    let pod = tree!({"kind": "Pod", "metadata": {"name": "a", "uid": "u"}, "spec": {}});
    let of = |include| {
        let all = [pod.clone()];
        let made = table(&resource("", "v1", "Pod", vec![]), 0, &all, include, Time(0), &ListMeta::default());
        made.items_at(&["rows"])[0].get("object").unwrap().clone()
    };
    assert_eq!(of(IncludeObject::None), Tree::Null);
    assert_eq!(of(IncludeObject::Object), pod);
    assert_eq!(
        of(IncludeObject::Metadata),
        tree!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", "uid": "u"}})
    );
    assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse("Everything").unwrap_err().code, 400);
}

#[test]
fn printer_columns_render_values_by_type() {
    let column = |name: &str, kind: &str, path: &str| Column {
        name: name.into(),
        kind: kind.into(),
        format: "".into(),
        description: "".into(),
        priority: 0,
        path: path.into(),
    };
    let columns = vec![
        column("Text", "string", ".spec.text"),
        column("Map", "string", ".spec.map"),
        column("Whole", "integer", ".spec.float"),
        column("Wrong", "integer", ".spec.text"),
        column("Flag", "boolean", ".spec.flag"),
        column("When", "date", ".spec.when"),
        column("Missing", "string", ".spec.none"),
        column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
    ];
    let object = tree!({
        "metadata": {"name": "a"},
        "spec": {"text": "x", "map": {"a": 1}, "float": 2.5, "flag": true, "when": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let now = Time::parse("2026-01-01T00:01:00Z").unwrap();
    let kind = resource("example.com", "v1", "Thing", columns);
    let made = table(&kind, 0, &[object], IncludeObject::None, now, &ListMeta::default());
    let want = tree!(["a", "x", "{\"a\":1}", 2, null, true, "60s", null, "True"]);
    assert_eq!(made.items_at(&["rows"])[0].get("cells"), Some(&want));
}

#[test]
fn a_crd_without_columns_shows_the_age() {
    let object = tree!({"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}});
    let now = Time::parse("2026-01-01T00:01:00Z").unwrap();
    let kind = resource("example.com", "v1", "Thing", vec![]);
    let meta = ListMeta {
        resource_version: "7".into(),
        continue_token: "c".into(),
        remaining: Some(2),
        ..ListMeta::default()
    };
    let made = table(&kind, 0, &[object], IncludeObject::None, now, &meta);
    assert_eq!(made.items_at(&["rows"])[0].get("cells"), Some(&tree!(["a", "60s"])));
    assert_eq!(
        made.get("metadata"),
        Some(&tree!({"resourceVersion": "7", "continue": "c", "remainingItemCount": 2}))
    );
}
