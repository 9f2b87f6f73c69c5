//! Converts nodes to an OpenAPI schema, for publication.

use muster_tree::{Text, Tree};

use super::keywords::{EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, RULES};
use crate::node::{Bounds, Field, ListKind, Node, NodeId, Rule, Shape, View};

/// The OpenAPI v3 schema of a place. Types with a published name below it become references, so recursion ends.
#[must_use]
pub fn to_openapi(view: View<'_>) -> Tree {
    let mut out = Out(Vec::new());
    out.node(view);
    Tree::map(out.0)
}

/// Keywords on their way into a schema.
struct Out(Vec<(Text, Tree)>);

impl Out {
    fn put(&mut self, key: &str, value: impl Into<Tree>) {
        self.0.push((Text::from(key), value.into()));
    }

    fn put_some(&mut self, key: &str, value: Option<impl Into<Tree>>) {
        if let Some(value) = value {
            self.put(key, value);
        }
    }

    fn put_if(&mut self, key: &str, holds: bool) {
        if holds {
            self.put(key, true);
        }
    }

    fn node(&mut self, view: View<'_>) {
        let node = view.node();
        self.shape(view, node);
        self.put_some("format", Some(&node.format).filter(|f| !f.is_empty()));
        self.put_some("default", node.default.clone());
        self.put_if("nullable", node.nullable);
        self.put_if(INT_OR_STRING, node.int_or_string);
        self.put_if(PRESERVE, node.preserve_unknown);
        self.put_if(EMBEDDED, node.embedded_resource);
        self.put_some(MAP_TYPE, node.atomic_map.then_some("atomic"));
        match &node.list {
            ListKind::Atomic => {}
            ListKind::Set => self.put(LIST_TYPE, "set"),
            ListKind::Map(keys) => {
                self.put(LIST_TYPE, "map");
                self.put(LIST_KEYS, Tree::list(keys.iter()));
            }
        }
        if let Some(bounds) = &node.bounds {
            self.bounds(view, bounds);
        }
        if !node.rules.is_empty() {
            self.put(RULES, Tree::list(node.rules.iter().map(rule)));
        }
    }

    fn shape(&mut self, view: View<'_>, node: &Node) {
        match &node.shape {
            Shape::Any => {}
            Shape::Bool => self.put("type", "boolean"),
            Shape::Int => self.put("type", "integer"),
            Shape::Number => self.put("type", "number"),
            Shape::Text => self.put("type", "string"),
            Shape::List(item) => {
                self.put("type", "array");
                self.put("items", below(view, *item));
            }
            Shape::Map(values) => {
                self.put("type", "object");
                self.put("additionalProperties", below(view, *values));
            }
            Shape::Fields(fields) => {
                self.put("type", "object");
                self.fields(view, fields, node.bounds.as_deref());
            }
        }
    }

    fn fields(&mut self, view: View<'_>, fields: &[Field], bounds: Option<&Bounds>) {
        if !fields.is_empty() {
            let all = fields.iter().map(|f| (f.name.clone(), below(view, f.node)));
            self.put("properties", Tree::map(all));
        }
        let loose = bounds.map(|b| b.required.as_slice()).unwrap_or_default();
        let required = fields.iter().filter(|f| f.required).map(|f| &f.name).chain(loose);
        let required = Tree::list(required);
        self.put_some("required", Some(required).filter(|r| !r.is_empty()));
    }

    fn bounds(&mut self, view: View<'_>, bounds: &Bounds) {
        self.put_some("enum", Some(Tree::list(bounds.allowed.clone())).filter(|e| !e.is_empty()));
        self.put_some("pattern", bounds.pattern.as_ref());
        for (key, excluded_key, bound) in
            [("minimum", "exclusiveMinimum", bounds.minimum), ("maximum", "exclusiveMaximum", bounds.maximum)]
        {
            self.put_some(key, bound.map(|(n, _)| number(n)));
            self.put_if(excluded_key, bound.is_some_and(|(_, excluded)| excluded));
        }
        self.put_some("multipleOf", bounds.multiple_of.map(number));
        for (key, limit) in [
            ("minLength", bounds.min_length),
            ("maxLength", bounds.max_length),
            ("minItems", bounds.min_items),
            ("maxItems", bounds.max_items),
            ("minProperties", bounds.min_properties),
            ("maxProperties", bounds.max_properties),
        ] {
            self.put_some(key, limit.map(|n| i64::try_from(n).unwrap_or(i64::MAX)));
        }
        for (key, clauses) in
            [("allOf", &bounds.all_of), ("anyOf", &bounds.any_of), ("oneOf", &bounds.one_of)]
        {
            let clauses = Tree::list(clauses.iter().map(|id| clause(view.to(*id))));
            self.put_some(key, Some(clauses).filter(|c| !c.is_empty()));
        }
        self.put_some("not", bounds.not.map(|id| clause(view.to(id))));
        if !matches!(view.node().shape, Shape::Fields(_)) {
            let required = Tree::list(bounds.required.iter());
            self.put_some("required", Some(required).filter(|r| !r.is_empty()));
        }
    }
}

fn below(view: View<'_>, id: NodeId) -> Tree {
    let view = view.to(id);
    let name = &view.node().name;
    if name.is_empty() {
        return to_openapi(view);
    }
    let reference = Tree::map([("$ref", format!("#/components/schemas/{name}"))]);
    Tree::map([("allOf", Tree::list([reference]))])
}

/// A clause has no type of its own, unless it is a scalar.
fn clause(view: View<'_>) -> Tree {
    let whole = to_openapi(view);
    match view.node().shape {
        Shape::List(_) | Shape::Map(_) | Shape::Fields(_) => whole.without_key("type"),
        _ => whole,
    }
}

/// Whole numbers are written without a fraction.
#[expect(clippy::cast_possible_truncation, reason = "checked by comparing back")]
#[expect(clippy::cast_precision_loss, reason = "checked by comparing back")]
fn number(n: f64) -> Tree {
    let whole = n as i64;
    if whole as f64 == n { Tree::Int(whole) } else { Tree::Float(n) }
}

fn rule(rule: &Rule) -> Tree {
    let mut out = Out(Vec::new());
    for (key, text) in [
        ("rule", &rule.rule),
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ] {
        out.put_some(key, Some(text).filter(|t| !t.is_empty()));
    }
    out.put_if("optionalOldSelf", rule.optional_old_self);
    Tree::map(out.0)
}
