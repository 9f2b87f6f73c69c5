//! Builds nodes from published components.
//!
//! Components get the first node numbers, in the order of their names, so that they can refer to each other recursively.
//! Equal field schemas share one node.

use std::collections::{BTreeMap, HashMap};

use muster_tree::{Text, Tree};

use super::rows::{kind_name, texts};
use super::{Component, KindName};
use crate::node::{Field, ListKind, Node, NodeId, PatchRule, Schema, Shape};

/// The nodes under construction.
#[derive(Default)]
pub(super) struct Built {
    pub(super) schema: Schema,
    pub(super) components: Vec<Component>,
    pub(super) named: BTreeMap<NodeId, u32>,
}

impl Built {
    /// Appends a node to the arena.
    pub(super) fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.schema.nodes.len()).expect("far fewer nodes than 2^32"));
        self.schema.nodes.push(node);
        id
    }

    /// Repeats a node with something changed; the copy stays a variant of the same component.
    pub(super) fn vary(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) -> NodeId {
        let mut node = self.schema.nodes[id.0 as usize].clone();
        change(&mut node);
        let copy = self.push(node);
        if let Some(component) = self.named.get(&id).copied() {
            self.named.insert(copy, component);
        }
        copy
    }
}

/// Builds the nodes of all components.
pub(super) fn build(components: &Tree) -> Built {
    let mut maker = Maker::default();
    for (at, (name, schema)) in components.entries().iter().enumerate() {
        let node = maker.built.push(Node::default());
        let kinds: Vec<KindName> =
            schema.items_at(&["x-kubernetes-group-version-kind"]).iter().map(kind_name).collect();
        maker.built.components.push(Component { name: name.clone(), node, kinds });
        maker.built.named.insert(node, u32::try_from(at).expect("few components"));
    }
    for (at, (name, schema)) in components.entries().iter().enumerate() {
        let node = special(name).unwrap_or_else(|| maker.node(schema));
        maker.built.schema.nodes[at] = Node { name: name.clone(), ..node };
    }
    maker.copy_variants();
    maker.built
}

/// Types with a JSON form that differs from their published schema.
fn special(name: &str) -> Option<Node> {
    let libraries = ["io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver."];
    let word = libraries.iter().find_map(|library| name.strip_prefix(library))?.rsplit('.').next()?;
    let (shape, format, preserve_unknown) = match word {
        "Quantity" => (Shape::Any, "quantity", false),
        "IntOrString" => (Shape::Any, "int-or-string", false),
        "Time" => (Shape::Text, "date-time", false),
        "MicroTime" => (Shape::Text, "micro-time", false),
        "Duration" => (Shape::Text, "duration", false),
        "RawExtension" | "FieldsV1" | "Patch" | "JSON" => (Shape::Any, "raw", true),
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            (Shape::Any, "", true)
        }
        _ => return None,
    };
    let int_or_string = word == "IntOrString";
    Some(Node { shape, format: Text::from(format), int_or_string, preserve_unknown, ..Node::default() })
}

#[derive(Default)]
struct Maker {
    built: Built,
    /// Nodes made so far, by their schema. Only looked up, never walked.
    made: HashMap<Tree, NodeId>,
    /// Field names seen so far: each is held once.
    names: HashMap<Text, Text>,
    /// Variants of components that may not be loaded yet.
    variants: Vec<(NodeId, NodeId, Tree)>,
}

impl Maker {
    /// The node that a schema describes, made or found.
    fn id(&mut self, schema: &Tree) -> NodeId {
        if let Some(id) = self.made.get(schema) {
            return *id;
        }
        let id = match schema.get("$ref").and_then(Tree::as_str) {
            Some(name) => self.reference(name, schema),
            None => {
                let node = self.node(schema);
                self.built.push(node)
            }
        };
        self.made.insert(schema.clone(), id);
        id
    }

    fn reference(&mut self, name: &str, schema: &Tree) -> NodeId {
        let found = self.built.components.binary_search_by(|c| c.name.as_str().cmp(name));
        let at = found.unwrap_or_else(|_| panic!("no component {name}"));
        let component = self.built.components[at].node;
        if schema.entries().len() == 1 {
            return component;
        }
        let id = self.built.push(Node::default());
        self.built.named.insert(id, u32::try_from(at).expect("few components"));
        self.variants.push((id, component, schema.clone()));
        id
    }

    /// Fills in the variants, now that all components are read.
    fn copy_variants(&mut self) {
        for (id, component, schema) in std::mem::take(&mut self.variants) {
            let mut node = self.built.schema.nodes[component.0 as usize].clone();
            extend(&mut node, &schema);
            self.built.schema.nodes[id.0 as usize] = node;
        }
    }

    fn node(&mut self, schema: &Tree) -> Node {
        let mut node = Node { shape: self.shape(schema), ..Node::default() };
        extend(&mut node, schema);
        node
    }

    fn shape(&mut self, schema: &Tree) -> Shape {
        match schema.str_at(&["type"]) {
            "boolean" => Shape::Bool,
            "integer" => Shape::Int,
            "number" => Shape::Number,
            "string" => Shape::Text,
            "array" => Shape::List(self.id(schema.get("items").unwrap_or(&Tree::Null))),
            "object" => match schema.get("additionalProperties") {
                Some(values) => Shape::Map(self.id(values)),
                None => Shape::Fields(self.fields(schema)),
            },
            _ => Shape::Any,
        }
    }

    fn fields(&mut self, schema: &Tree) -> Vec<Field> {
        let required = schema.items_at(&["required"]);
        let fields = schema.entries_at(&["properties"]).iter().map(|(name, below)| Field {
            name: self.name(name),
            node: self.id(below),
            required: required.iter().any(|r| r.as_text() == Some(name)),
        });
        fields.collect()
    }

    fn name(&mut self, name: &Text) -> Text {
        self.names.entry(name.clone()).or_insert_with(|| name.clone()).clone()
    }
}

/// Everything that may stand beside a reference.
fn extend(node: &mut Node, schema: &Tree) {
    let text = |key: &str| schema.text_at(&[key]);
    if schema.get("format").is_some() {
        node.format = text("format");
    }
    if let Some(default) = schema.get("default") {
        node.default = Some(default.clone());
    }
    match schema.str_at(&["x-kubernetes-list-type"]) {
        "set" => node.list = ListKind::Set,
        "map" => node.list = ListKind::Map(texts(schema, "x-kubernetes-list-map-keys")),
        _ => {}
    }
    node.atomic_map |= schema.str_at(&["x-kubernetes-map-type"]) == "atomic";
    if let Some(strategy) = schema.get("x-kubernetes-patch-strategy").and_then(Tree::as_str) {
        node.patch = PatchRule {
            merge: strategy.split(',').any(|word| word == "merge"),
            retain_keys: strategy.split(',').any(|word| word == "retainKeys"),
            merge_key: text("x-kubernetes-patch-merge-key"),
        };
    }
}
