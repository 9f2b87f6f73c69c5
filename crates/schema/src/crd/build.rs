//! Builds the nodes of a validated CRD schema.

use std::sync::Arc;

use muster_tree::{Text, Tree};

use super::keywords::{
    EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, MAP_TYPE, META_KEYS, PRESERVE, RULES, additional,
    allows_any, default, flag, items, properties, property_path, text,
};
use crate::error::FieldError;
use crate::node::{Bounds, Field, ListKind, Node, NodeId, OBJECT_META, Rule, Schema, SchemaRef, Shape, View};
use crate::{structure, table, validate};

/// What a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Root,
    Value,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`.
    Clause,
}

/// Builds the nodes of a schema that has passed all checks but those of its defaults.
pub(super) fn build(base: &str, schema: &Tree) -> Result<SchemaRef, Vec<FieldError>> {
    let mut builder = Builder { schema: Schema::default(), errors: Vec::new(), metadata: None };
    let id = builder.node(schema, base, Role::Root);
    if builder.errors.is_empty() {
        Ok(SchemaRef { schema: Arc::new(builder.schema), id })
    } else {
        Err(builder.errors)
    }
}

struct Builder {
    schema: Schema,
    errors: Vec<FieldError>,
    /// The metadata that all resources in this schema share.
    metadata: Option<NodeId>,
}

impl Builder {
    fn push(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.schema.nodes.len()).expect("a body bounds the size of a schema"));
        self.schema.nodes.push(node);
        id
    }

    fn node(&mut self, schema: &Tree, path: &str, role: Role) -> NodeId {
        let shape = self.shape(schema, path, role);
        let node = Node {
            format: schema.text_at(&["format"]),
            int_or_string: flag(schema, INT_OR_STRING),
            nullable: flag(schema, "nullable"),
            preserve_unknown: preserves(schema),
            embedded_resource: flag(schema, EMBEDDED),
            default: default(schema).cloned(),
            list: list_kind(schema),
            atomic_map: text(schema, MAP_TYPE) == "atomic",
            bounds: self.bounds(schema, &shape, path).map(Box::new),
            rules: schema.items_at(&[RULES]).iter().map(rule).collect(),
            shape,
            ..Node::default()
        };
        let id = self.push(node);
        self.check_default(id, path);
        id
    }

    fn shape(&mut self, schema: &Tree, path: &str, role: Role) -> Shape {
        if flag(schema, INT_OR_STRING) {
            return Shape::Any;
        }
        match text(schema, "type") {
            "boolean" => Shape::Bool,
            "integer" => Shape::Int,
            "number" => Shape::Number,
            "string" => Shape::Text,
            "array" => self.list(schema, path, role),
            "object" => self.object(schema, path, role),
            _ if role == Role::Clause && items(schema).is_some() => self.list(schema, path, role),
            _ if !properties(schema).is_empty() => self.object(schema, path, role),
            _ => Shape::Any,
        }
    }

    fn list(&mut self, schema: &Tree, path: &str, role: Role) -> Shape {
        let item = items(schema).cloned().unwrap_or_default();
        Shape::List(self.node(&item, &format!("{path}.items"), below(role)))
    }

    fn object(&mut self, schema: &Tree, path: &str, role: Role) -> Shape {
        if let Some(values) = additional(schema) {
            return Shape::Map(self.node(values, &format!("{path}.additionalProperties"), below(role)));
        }
        if allows_any(schema) && properties(schema).is_empty() {
            return Shape::Map(self.push(Node { preserve_unknown: true, ..Node::default() }));
        }
        let required = schema.items_at(&["required"]);
        let mut fields = Vec::with_capacity(properties(schema).len() + META_KEYS.len());
        for (name, field) in properties(schema) {
            let node = if role == Role::Root && name == "metadata" {
                self.metadata(field, &property_path(path, name))
            } else {
                self.node(field, &property_path(path, name), below(role))
            };
            let required = required.iter().any(|r| r.as_str() == Some(name));
            fields.push(Field { name: name.clone(), node, required });
        }
        if role == Role::Root || flag(schema, EMBEDDED) {
            self.add_meta_fields(&mut fields, role);
        }
        Shape::Fields(fields)
    }

    /// Adds `apiVersion`, `kind` and `metadata`; they are required in an embedded resource, where no URL implies them.
    fn add_meta_fields(&mut self, fields: &mut Vec<Field>, role: Role) {
        for key in META_KEYS {
            let required = role != Role::Root && key != "metadata";
            match fields.binary_search_by(|f| f.name.as_str().cmp(key)) {
                Ok(at) => fields[at].required |= required,
                Err(at) => {
                    let node = match key {
                        "metadata" => self.metadata(&Tree::Null, ""),
                        _ => self.push(Node { shape: Shape::Text, ..Node::default() }),
                    };
                    fields.insert(at, Field { name: Text::from(key), node, required });
                }
            }
        }
    }

    /// The metadata of every object, with what this schema demands of its names.
    fn metadata(&mut self, narrowed: &Tree, path: &str) -> NodeId {
        let common = self.common_metadata();
        let mut node = self.schema.nodes[common.0 as usize].clone();
        let Shape::Fields(fields) = &mut node.shape else {
            return common;
        };
        if properties(narrowed).is_empty() {
            return common;
        }
        for (name, schema) in properties(narrowed) {
            if let Ok(at) = fields.binary_search_by(|f| f.name.cmp(name)) {
                fields[at].node = self.node(schema, &property_path(path, name), Role::Value);
            }
        }
        self.push(node)
    }

    /// Nothing in it is required: rules about metadata are not a matter of schemas.
    fn common_metadata(&mut self) -> NodeId {
        if let Some(known) = self.metadata {
            return known;
        }
        let table = table::builtin();
        let component = table.component(OBJECT_META).expect("the table has the metadata of every object");
        let first = self.schema.nodes.len();
        let id = self.schema.graft(View { schema: &table.schema, id: component.node });
        for node in &mut self.schema.nodes[first..] {
            if let Shape::Fields(fields) = &mut node.shape {
                fields.iter_mut().for_each(|field| field.required = false);
            }
        }
        self.metadata = Some(id);
        id
    }

    fn bounds(&mut self, schema: &Tree, shape: &Shape, path: &str) -> Option<Bounds> {
        let float = |key: &str| schema.get(key).and_then(Tree::as_float);
        let count = |key: &str| schema.int_at(&[key]).and_then(|n| u64::try_from(n).ok());
        let excluded = |key: &str| flag(schema, key);
        let bounds = Bounds {
            allowed: schema.items_at(&["enum"]).to_vec(),
            pattern: schema.get("pattern").and_then(Tree::as_text).filter(|p| !p.is_empty()).cloned(),
            required: loose_required(schema, shape),
            minimum: float("minimum").map(|n| (n, excluded("exclusiveMinimum"))),
            maximum: float("maximum").map(|n| (n, excluded("exclusiveMaximum"))),
            multiple_of: float("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            all_of: self.clauses(schema, "allOf", path),
            any_of: self.clauses(schema, "anyOf", path),
            one_of: self.clauses(schema, "oneOf", path),
            not: schema.get("not").filter(|n| n.is_map()).map(|n| self.node(n, path, Role::Clause)),
            ..Bounds::default()
        };
        (!is_free(&bounds)).then_some(bounds)
    }

    fn clauses(&mut self, schema: &Tree, word: &str, path: &str) -> Vec<NodeId> {
        schema.items_at(&[word]).iter().map(|clause| self.node(clause, path, Role::Clause)).collect()
    }

    /// A default must be what a client could have sent.
    fn check_default(&mut self, id: NodeId, path: &str) {
        let view = View { schema: &self.schema, id };
        let Some(value) = &view.node().default else {
            return;
        };
        let path = format!("{path}.default");
        let mut unknown = Vec::new();
        let _ = structure::prune(view, value, &mut unknown);
        if unknown.is_empty() {
            let found = validate::values_at(&path, view, value);
            self.errors.extend(found);
        } else {
            self.errors.push(FieldError::invalid(path, value, "must not have unknown fields"));
        }
    }
}

fn below(role: Role) -> Role {
    if role == Role::Clause { Role::Clause } else { Role::Value }
}

/// Whether what the schema does not name is kept: because it says so, or because it has neither type nor fields.
fn preserves(schema: &Tree) -> bool {
    flag(schema, PRESERVE) || (allows_any(schema) && !properties(schema).is_empty())
}

fn list_kind(schema: &Tree) -> ListKind {
    match text(schema, LIST_TYPE) {
        "set" => ListKind::Set,
        "map" => {
            ListKind::Map(schema.items_at(&[LIST_KEYS]).iter().filter_map(Tree::as_text).cloned().collect())
        }
        _ => ListKind::Atomic,
    }
}

fn rule(tree: &Tree) -> Rule {
    Rule {
        rule: tree.text_at(&["rule"]),
        message: tree.text_at(&["message"]),
        message_expression: tree.text_at(&["messageExpression"]),
        reason: tree.text_at(&["reason"]),
        field_path: tree.text_at(&["fieldPath"]),
        optional_old_self: flag(tree, "optionalOldSelf"),
    }
}

/// Required keys that no field stands for.
fn loose_required(schema: &Tree, shape: &Shape) -> Vec<Text> {
    let required = schema.items_at(&["required"]).iter().filter_map(Tree::as_text);
    let is_field = |name: &Text| match shape {
        Shape::Fields(fields) => fields.iter().any(|f| f.name == *name),
        _ => false,
    };
    required.filter(|name| !is_field(name)).cloned().collect()
}

/// Whether these bounds bound nothing.
fn is_free(bounds: &Bounds) -> bool {
    bounds.allowed.is_empty()
        && bounds.pattern.is_none()
        && bounds.required.is_empty()
        && bounds.minimum.is_none()
        && bounds.maximum.is_none()
        && bounds.multiple_of.is_none()
        && [bounds.min_length, bounds.max_length, bounds.min_items, bounds.max_items]
            .iter()
            .all(Option::is_none)
        && bounds.min_properties.is_none()
        && bounds.max_properties.is_none()
        && [&bounds.all_of, &bounds.any_of, &bounds.one_of].iter().all(|clauses| clauses.is_empty())
        && bounds.not.is_none()
}
