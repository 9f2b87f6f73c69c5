//! OpenAPI documents of the built-in table and of a custom resource.

use std::collections::BTreeSet;

use muster_schema::node::{Field, Node, NodeId, Schema, SchemaRef, Shape};
use muster_schema::table::builtin;

use super::*;
use crate::registry::{ApiVersion, ServedSubresource};

fn built_in() -> Vec<Arc<Resource>> {
    let table = builtin();
    let rows = table.kinds.iter().filter(|row| !row.plural.is_empty());
    let resource = |row: &muster_schema::table::KindRow| {
        let subresources = row.subresources.iter().map(|sub| ServedSubresource {
            name: sub.name.clone(),
            response_kind: sub.response_kind.clone(),
            verbs: sub.verbs.clone(),
            scale_paths: None,
        });
        let schema = SchemaRef { schema: table.schema.clone(), id: row.root };
        let version = ApiVersion {
            name: row.version.clone(),
            served: true,
            schema,
            verbs: row.verbs.clone(),
            subresources: subresources.collect(),
            columns: vec![],
            selectable_fields: vec![],
            deprecation: Text::new(),
        };
        Arc::new(Resource {
            group: row.group.clone(),
            plural: row.plural.clone(),
            singular: row.singular.clone(),
            kind: row.kind.clone(),
            list_kind: row.list_kind.clone(),
            short_names: vec![],
            categories: vec![],
            namespaced: row.namespaced,
            versions: vec![version],
            storage_version: 0,
            storage: row.plural.clone(),
            custom: false,
            strategy: Arc::new(crate::kinds::DefaultStrategy),
        })
    };
    rows.map(resource).collect()
}

/// A custom kind `Train` with one text field, required.
fn custom() -> Arc<Resource> {
    let text = Node { shape: Shape::Text, ..Node::default() };
    let field = Field { name: "engine".into(), node: NodeId(0), required: true };
    let root = Node { shape: Shape::Fields(vec![field]), ..Node::default() };
    let schema = SchemaRef { schema: Arc::new(Schema { nodes: vec![text, root] }), id: NodeId(1) };
    let like = built_in().into_iter().find(|r| r.kind == "Job").unwrap();
    let version = ApiVersion { name: "v1".into(), schema, ..like.versions[0].clone() };
    Arc::new(Resource {
        group: "rail.example.com".into(),
        plural: "trains".into(),
        kind: "Train".into(),
        list_kind: "TrainList".into(),
        versions: vec![version],
        custom: true,
        ..(*like).clone()
    })
}

fn document(resources: Vec<Arc<Resource>>, group: &str, version: &str) -> Tree {
    let registry = Registry::new(resources, 1);
    let made = OpenApiCache::default().document(&registry, group, version).unwrap();
    Tree::parse(&made.plain()).unwrap()
}

fn references(tree: &Tree, into: &mut BTreeSet<String>) {
    if let Some(name) = tree.get("$ref").and_then(Tree::as_str) {
        into.insert(name.trim_start_matches("#/components/schemas/").to_owned());
    }
    tree.entries().iter().for_each(|(_, below)| references(below, into));
    tree.items().iter().for_each(|below| references(below, into));
}

#[test]
fn every_reference_resolves() {
    let mut all = built_in();
    all.push(custom());
    for (group, version) in discovery::served_group_versions(&all) {
        let made = document(all.clone(), &group, &version);
        let mut wanted = BTreeSet::new();
        references(&made, &mut wanted);
        let schemas = made.at(&["components", "schemas"]).unwrap();
        for name in wanted {
            let found = schemas.get(&name).unwrap_or(&Tree::Null);
            assert!(!found.is_null(), "{name} in the document of {group}/{version}");
        }
    }
}

#[test]
fn patch_operations_announce_server_side_validation() {
    let made = document(built_in(), "batch", "v1");
    let path = "/apis/batch/v1/namespaces/{namespace}/jobs/{name}";
    let patch = made.at(&["paths", path, "patch"]).unwrap();
    assert_eq!(patch.str_at(&["x-kubernetes-action"]), "patch");
    let tag = tree!({"group": "batch", "version": "v1", "kind": "Job"});
    assert_eq!(patch.get("x-kubernetes-group-version-kind"), Some(&tag));
    let names: Vec<&str> = patch.items_at(&["parameters"]).iter().map(|p| p.str_at(&["name"])).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
}

#[test]
fn pods_have_merge_strategies() {
    let made = document(built_in(), "", "v1");
    let spec = made.at(&["components", "schemas", "io.k8s.api.core.v1.PodSpec", "properties"]).unwrap();
    let containers = spec.get("containers").unwrap();
    assert_eq!(containers.str_at(&["x-kubernetes-patch-merge-key"]), "name");
    assert_eq!(containers.str_at(&["x-kubernetes-patch-strategy"]), "merge");
    assert_eq!(containers.str_at(&["x-kubernetes-list-type"]), "map");
    assert_eq!(spec.str_at(&["volumes", "x-kubernetes-patch-strategy"]), "merge,retainKeys");
    let pod = made.at(&["components", "schemas", "io.k8s.api.core.v1.Pod"]).unwrap();
    let tag = tree!([{"group": "", "version": "v1", "kind": "Pod"}]);
    assert_eq!(pod.get("x-kubernetes-group-version-kind"), Some(&tag));
}

#[test]
fn a_custom_kind_is_published_with_its_list() {
    let made = document(vec![custom()], "rail.example.com", "v1");
    let schemas = made.at(&["components", "schemas"]).unwrap();
    let train = schemas.get("com.example.rail.v1.Train").unwrap();
    assert_eq!(train.get("required"), Some(&tree!(["engine"])));
    assert!(train.str_at(&["properties", "metadata", "$ref"]).ends_with("ObjectMeta"));
    let list = schemas.get("com.example.rail.v1.TrainList").unwrap();
    assert!(list.str_at(&["properties", "items", "items", "$ref"]).ends_with("v1.Train"));
    let types = made
        .at(&[
            "paths",
            "/apis/rail.example.com/v1/namespaces/{namespace}/trains/{name}",
            "patch",
            "requestBody",
        ])
        .unwrap();
    assert_eq!(types.entries_at(&["content"]).len(), 3, "no strategic merge");
}

/// CRD descriptions, which compiled schemas do not keep.
#[derive(Debug)]
struct Defined(Tree);

impl crate::kinds::ResourceStrategy for Defined {
    fn crd_spec(&self) -> Option<(&Tree, bool)> {
        Some((&self.0, false))
    }
}

#[test]
fn crd_descriptions_are_published() {
    let schema = tree!({"description": "A train.", "properties": {
        "engine": {"type": "string", "description": "What draws it."}, "metadata": {"description": "Not ours."}}});
    let spec = tree!({"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]});
    let train = Resource { strategy: Arc::new(Defined(spec)), ..(*custom()).clone() };
    let made = document(vec![Arc::new(train)], "rail.example.com", "v1");
    let train = made.at(&["components", "schemas", "com.example.rail.v1.Train"]).unwrap();
    assert_eq!(train.str_at(&["description"]), "A train.");
    assert_eq!(train.str_at(&["properties", "engine", "description"]), "What draws it.");
    assert_eq!(train.entries_at(&["properties", "metadata"]).len(), 1, "a reference stands alone");
}

#[test]
fn documents_are_cached_until_their_resources_change() {
    let documents = OpenApiCache::default();
    let all = built_in();
    let first = documents.index(&Registry::new(all.clone(), 1));
    let again = documents.index(&Registry::new(all.clone(), 2));
    assert_eq!(first, again);
    let without = all.into_iter().filter(|r| r.kind != "CronJob").collect();
    let changed = documents.index(&Registry::new(without, 3));
    let hash = |index: &Tree, path: &str| index.text_at(&["paths", path, "serverRelativeURL"]);
    assert_ne!(hash(&first, "apis/batch/v1"), hash(&changed, "apis/batch/v1"));
    assert_eq!(hash(&first, "api/v1"), hash(&changed, "api/v1"));
}
