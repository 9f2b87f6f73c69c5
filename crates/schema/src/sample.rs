//! Small schemas for tests, in OpenAPI form.

use std::sync::Arc;

use muster_tree::{Text, Tree, tree};

use crate::node::{Field, ListKind, Node, NodeId, PatchRule, Schema, SchemaRef, Shape};

/// Reads a schema from its OpenAPI form.
pub(crate) fn schema(open_api: &Tree) -> SchemaRef {
    let mut schema = Schema::default();
    let id = read(&mut schema, open_api);
    SchemaRef { schema: Arc::new(schema), id }
}

fn read(schema: &mut Schema, from: &Tree) -> NodeId {
    let shape = match from.str_at(&["type"]) {
        "boolean" => Shape::Bool,
        "integer" => Shape::Int,
        "string" => Shape::Text,
        "array" => Shape::List(read(schema, from.get("items").unwrap())),
        "object" => match from.get("additionalProperties") {
            Some(values) => Shape::Map(read(schema, values)),
            None => {
                let fields = from.entries_at(&["properties"]).iter();
                let field = |(name, node): &(Text, Tree)| Field {
                    name: name.clone(),
                    node: read(schema, node),
                    required: false,
                };
                Shape::Fields(fields.map(field).collect())
            }
        },
        _ => Shape::Any,
    };
    let keys = from.items_at(&["x-kubernetes-list-map-keys"]).iter().filter_map(Tree::as_text).cloned();
    schema.nodes.push(Node {
        shape,
        default: from.get("default").cloned(),
        list: match from.str_at(&["x-kubernetes-list-type"]) {
            "map" => ListKind::Map(keys.collect()),
            "set" => ListKind::Set,
            _ => ListKind::Atomic,
        },
        atomic_map: from.str_at(&["x-kubernetes-map-type"]) == "atomic",
        preserve_unknown: from.bool_at(&["x-kubernetes-preserve-unknown-fields"]) == Some(true),
        patch: PatchRule {
            merge: from.str_at(&["x-kubernetes-patch-strategy"]).contains("merge"),
            retain_keys: from.str_at(&["x-kubernetes-patch-strategy"]).contains("retainKeys"),
            merge_key: from.text_at(&["x-kubernetes-patch-merge-key"]),
        },
        ..Node::default()
    });
    NodeId(u32::try_from(schema.nodes.len() - 1).unwrap())
}

/// A kind with every sort of place: metadata, lists of all kinds, free and atomic maps, and a free-form field.
pub(crate) fn kind() -> SchemaRef {
    let text = tree!({"type": "string"});
    let texts = tree!({"type": "object", "additionalProperties": {"type": "string"}});
    let names = |list: &str, strategy: &str| {
        tree!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": list,
            "x-kubernetes-patch-strategy": strategy})
    };
    let map_list = |keys: Tree, merge_key: &str, item: Tree| {
        tree!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys,
            "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": merge_key})
    };
    let env = tree!({"type": "object", "properties": {"name": (&text), "value": (&text)}});
    let port = tree!({"type": "object", "properties": {"port": {"type": "integer"}, "name": (&text),
        "protocol": {"type": "string", "default": "TCP"}}});
    let container = tree!({"type": "object", "properties": {"name": (&text), "image": (&text),
        "command": (names("atomic", "")), "env": (map_list(tree!(["name"]), "name", env)),
        "ports": (map_list(tree!(["port", "protocol"]), "port", port)),
        "limits": (&texts), "empty": {"type": "object", "properties": {}}}});
    let owner = tree!({"type": "object", "properties": {"name": (&text), "uid": (&text)}});
    let metadata = tree!({"type": "object", "properties": {"name": (&text), "labels": (&texts),
        "annotations": (&texts), "uid": (&text), "finalizers": (names("set", "merge")),
        "ownerReferences": (map_list(tree!(["uid"]), "uid", owner))}});
    let selector = tree!({"type": "object", "x-kubernetes-map-type": "atomic",
        "additionalProperties": {"type": "string"}});
    let spec = tree!({"type": "object", "properties": {
        "containers": (map_list(tree!(["name"]), "name", container)), "tolerations": (names("atomic", "")),
        "tags": (names("set", "")), "replicas": {"type": "integer"}, "selector": selector, "paused": {"type": "boolean"},
        "strategy": {"type": "object", "properties": {"type": (&text), "rolling": (&texts)}},
        "free": {"x-kubernetes-preserve-unknown-fields": true}}});
    let status = tree!({"type": "object", "properties": {"phase": (&text), "count": {"type": "integer"}}});
    schema(
        &tree!({"type": "object", "properties": {"apiVersion": (&text), "kind": (&text), "metadata": metadata,
        "data": texts, "spec": spec, "status": status}}),
    )
}
