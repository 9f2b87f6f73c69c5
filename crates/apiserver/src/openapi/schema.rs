//! OpenAPI schemas: components that reference each other by name.

use std::collections::BTreeMap;

use muster_schema::node::{Bounds, ListKind, Node, NodeId, PatchRule, Rule, Shape, View};
use muster_schema::table::{Table, builtin};
use muster_tree::{Text, Tree, tree};

use super::{LIST_META, OBJECT_META};
use crate::registry::{ApiVersion, Resource};

const GVK: &str = "x-kubernetes-group-version-kind";

/// The components of one document. Referenced components are requested by [`Components::want`].
#[derive(Default)]
pub(super) struct Components {
    made: BTreeMap<Text, Tree>,
    wanted: Vec<Text>,
}

impl Components {
    /// Requests a component of the built-in table.
    pub fn want(&mut self, name: &str) {
        if !self.made.contains_key(name) {
            // The placeholder ends the recursion of types that contain themselves.
            self.made.insert(Text::from(name), Tree::Null);
            self.wanted.push(Text::from(name));
        }
    }

    /// The name of the component of a resource's object in this version.
    pub fn object(&mut self, resource: &Resource, version: &ApiVersion) -> Text {
        if resource.custom {
            return self.custom(resource, version);
        }
        let name = builtin().component_name(version.schema.id);
        let name = Text::from(name.expect("every built-in kind is a component"));
        self.want(&name);
        name
    }

    /// The name of the component of its list.
    pub fn list(&mut self, resource: &Resource, version: &ApiVersion) -> Text {
        let table = builtin();
        let known = table.root(&resource.group, &version.name, &resource.list_kind);
        let known = known.filter(|_| !resource.custom).and_then(|root| table.component_name(root.id));
        if let Some(name) = known {
            self.want(name);
            return Text::from(name);
        }
        let object = self.object(resource, version);
        let name = Text::from(format!("{object}List"));
        let list = list_of(&object, kind_tag(&resource.group, &version.name, &resource.list_kind));
        self.made.insert(name.clone(), list);
        name
    }

    /// The component of any kind of the built-in table, e.g. `autoscaling/v1` Scale.
    pub fn kind(&mut self, (group, version, kind): &(Text, Text, Text)) -> Option<Text> {
        let root = builtin().root(group, version, kind)?;
        let name = builtin().component_name(root.id)?;
        self.want(name);
        Some(Text::from(name))
    }

    fn custom(&mut self, resource: &Resource, version: &ApiVersion) -> Text {
        // Reverse-DNS component names, as kube-apiserver generates.
        let reversed: Vec<&str> = resource.group.rsplit('.').collect();
        let name = Text::from(format!("{}.{}.{}", reversed.join("."), version.name, resource.kind));
        if !self.made.contains_key(&name) {
            let tag = kind_tag(&resource.group, &version.name, &resource.kind);
            let object = self.body(version.schema.view(), None);
            let object = object
                .with(&["properties", "apiVersion"], tree!({"type": "string"}))
                .with(&["properties", "kind"], tree!({"type": "string"}))
                .with(&["properties", "metadata"], reference(OBJECT_META));
            let object = match said(resource, version) {
                Some(said) => described(&object, said),
                None => object,
            };
            self.made.insert(name.clone(), object.with(&[GVK], tree!([tag])));
        }
        name
    }

    /// All components, with those they refer to.
    pub fn into_tree(mut self) -> Tree {
        let table = builtin();
        while let Some(name) = self.wanted.pop() {
            let Some(component) = table.component(&name) else { continue };
            let view = View { schema: &table.schema, id: component.node };
            let mut schema = special(&name).unwrap_or_else(|| self.body(view, Some(table)));
            if !component.kinds.is_empty() {
                let tags =
                    component.kinds.iter().map(|(group, version, kind)| kind_tag(group, version, kind));
                schema = schema.with(&[GVK], Tree::list(tags));
            }
            self.made.insert(name, schema);
        }
        Tree::from_sorted(self.made.into_iter().collect())
    }

    /// A schema node: a reference if it has a name, else its body.
    fn place(&mut self, view: View<'_>, table: Option<&'static Table>) -> Tree {
        let Some(name) = table.and_then(|table| table.component_name(view.id)) else {
            return self.body(view, table);
        };
        self.want(name);
        // A variant has its own default or merge strategy beside the reference, which OpenAPI expresses with `allOf`.
        if !builtin().is_variant(view.id) {
            return reference(name);
        }
        let mut entries = vec![("allOf", tree!([{"$ref": format!("#/components/schemas/{name}")}]))];
        beside(view.node(), &mut entries);
        Tree::map(entries)
    }

    fn body(&mut self, view: View<'_>, table: Option<&'static Table>) -> Tree {
        let node = view.node();
        let mut entries = self.shape(view, table);
        if !node.format.is_empty() && !matches!(node.shape, Shape::Any) {
            entries.push(("format", Tree::from(&node.format)));
        }
        for (is, key) in [
            (node.nullable, "nullable"),
            (node.int_or_string, "x-kubernetes-int-or-string"),
            (node.preserve_unknown, "x-kubernetes-preserve-unknown-fields"),
            (node.embedded_resource, "x-kubernetes-embedded-resource"),
        ] {
            if is {
                entries.push((key, Tree::Bool(true)));
            }
        }
        beside(node, &mut entries);
        if let Some(bounds) = &node.bounds {
            self.bounds(view, bounds, table, &mut entries);
        }
        if !node.rules.is_empty() {
            entries.push(("x-kubernetes-validations", Tree::list(node.rules.iter().map(rule))));
        }
        Tree::map(entries)
    }

    fn shape(&mut self, view: View<'_>, table: Option<&'static Table>) -> Vec<(&'static str, Tree)> {
        let word = |word: &str| vec![("type", Tree::from(word))];
        let mut with = |word: &str, key, id: NodeId| {
            vec![("type", Tree::from(word)), (key, self.place(view.to(id), table))]
        };
        match &view.node().shape {
            Shape::Any => vec![],
            Shape::Bool => word("boolean"),
            Shape::Int => word("integer"),
            Shape::Number => word("number"),
            Shape::Text => word("string"),
            Shape::List(item) => with("array", "items", *item),
            Shape::Map(values) => with("object", "additionalProperties", *values),
            Shape::Fields(fields) => {
                let properties = fields.iter().map(|f| (f.name.clone(), self.place(view.to(f.node), table)));
                let mut entries = vec![("type", Tree::from("object")), ("properties", Tree::map(properties))];
                let required: Vec<&Text> = fields.iter().filter(|f| f.required).map(|f| &f.name).collect();
                if !required.is_empty() {
                    entries.push(("required", Tree::list(required)));
                }
                entries
            }
        }
    }

    fn bounds(
        &mut self,
        view: View<'_>,
        bounds: &Bounds,
        table: Option<&'static Table>,
        entries: &mut Vec<(&'static str, Tree)>,
    ) {
        entries.extend(plain_bounds(bounds));
        let junctors = [("allOf", &bounds.all_of), ("anyOf", &bounds.any_of), ("oneOf", &bounds.one_of)];
        for (key, ids) in junctors {
            if !ids.is_empty() {
                entries.push((key, Tree::list(ids.iter().map(|id| self.body(view.to(*id), table)))));
            }
        }
        if let Some(id) = bounds.not {
            entries.push(("not", self.body(view.to(id), table)));
        }
    }
}

/// The schema of a custom resource from its CRD: compiled schemas have no descriptions.
fn said<'a>(resource: &'a Resource, version: &ApiVersion) -> Option<&'a Tree> {
    let (spec, _) = resource.strategy.crd_spec()?;
    let versions = spec.items_at(&["versions"]);
    versions.iter().find(|it| it.str_at(&["name"]) == version.name)?.at(&["schema", "openAPIV3Schema"])
}

/// Adds the CRD's descriptions to a schema.
fn described(schema: &Tree, said: &Tree) -> Tree {
    // `$ref` excludes sibling keywords.
    if schema.get("$ref").is_some() {
        return schema.clone();
    }
    let words = said.get("description").filter(|it| !it.is_empty()).cloned();
    let mut schema = schema.with_option(&["description"], words);
    for key in ["items", "additionalProperties"] {
        if let (Some(below), Some(said)) = (schema.get(key).filter(|it| it.is_map()), said.get(key)) {
            schema = schema.with(&[key], described(below, said));
        }
    }
    if let (Some(fields), Some(said)) = (schema.get("properties"), said.get("properties")) {
        let field = |name: &Text, below: &Tree| match said.get(name) {
            Some(said) => Some(described(below, said)),
            None => Some(below.clone()),
        };
        schema = schema.with(&["properties"], fields.map_entries(field));
    }
    schema
}

/// A reference to a component.
pub(super) fn reference(name: &str) -> Tree {
    tree!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn kind_tag(group: &str, version: &str, kind: &str) -> Tree {
    tree!({"group": group, "version": version, "kind": kind})
}

fn list_of(object: &str, tag: Tree) -> Tree {
    tree!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": reference(LIST_META),
            "items": {"type": "array", "items": reference(object)},
        },
        "x-kubernetes-group-version-kind": [tag],
    })
}

/// Types with a schema table entry that is less specific than the published one.
fn special(name: &str) -> Option<Tree> {
    let word = name.strip_prefix("io.k8s.apimachinery.")?.rsplit('.').next()?;
    Some(match word {
        "Quantity" => tree!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "IntOrString" => {
            tree!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        "Time" | "MicroTime" => tree!({"type": "string", "format": "date-time"}),
        "Duration" => tree!({"type": "string"}),
        "RawExtension" | "FieldsV1" | "Patch" => tree!({"type": "object"}),
        _ => return None,
    })
}

/// Keywords beside a reference: default and merge strategy.
fn beside(node: &Node, entries: &mut Vec<(&'static str, Tree)>) {
    if let Some(default) = &node.default {
        entries.push(("default", default.clone()));
    }
    match &node.list {
        ListKind::Atomic => {}
        ListKind::Set => entries.push(("x-kubernetes-list-type", Tree::from("set"))),
        ListKind::Map(keys) => {
            entries.push(("x-kubernetes-list-type", Tree::from("map")));
            entries.push(("x-kubernetes-list-map-keys", Tree::list(keys)));
        }
    }
    if node.atomic_map {
        entries.push(("x-kubernetes-map-type", Tree::from("atomic")));
    }
    let PatchRule { merge, retain_keys, merge_key } = &node.patch;
    let words: Vec<&str> = [(*merge, "merge"), (*retain_keys, "retainKeys")]
        .into_iter()
        .filter_map(|(is, word)| is.then_some(word))
        .collect();
    if !words.is_empty() {
        entries.push(("x-kubernetes-patch-strategy", Tree::from(words.join(","))));
    }
    if !merge_key.is_empty() {
        entries.push(("x-kubernetes-patch-merge-key", Tree::from(merge_key)));
    }
}

fn plain_bounds(bounds: &Bounds) -> Vec<(&'static str, Tree)> {
    let count = |n: &Option<u64>| n.map(|n| Tree::from(i64::try_from(n).unwrap_or(i64::MAX)));
    let limit = |(n, _): (f64, bool)| number(n);
    let excluded = |limit: Option<(f64, bool)>| limit.filter(|(_, out)| *out).map(|_| Tree::Bool(true));
    let allowed = (!bounds.allowed.is_empty()).then(|| Tree::list(&bounds.allowed));
    let all = [
        ("enum", allowed),
        ("pattern", bounds.pattern.as_ref().map(Tree::from)),
        ("minimum", bounds.minimum.map(limit)),
        ("exclusiveMinimum", excluded(bounds.minimum)),
        ("maximum", bounds.maximum.map(limit)),
        ("exclusiveMaximum", excluded(bounds.maximum)),
        ("multipleOf", bounds.multiple_of.map(number)),
        ("minLength", count(&bounds.min_length)),
        ("maxLength", count(&bounds.max_length)),
        ("minItems", count(&bounds.min_items)),
        ("maxItems", count(&bounds.max_items)),
        ("minProperties", count(&bounds.min_properties)),
        ("maxProperties", count(&bounds.max_properties)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// An integer without a fraction, as written in the CRD.
#[expect(clippy::cast_possible_truncation, reason = "only whole numbers within the exact range are cast")]
fn number(n: f64) -> Tree {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if n.fract() == 0.0 && n.abs() <= EXACT_MAX { Tree::Int(n as i64) } else { Tree::Float(n) }
}

fn rule(rule: &Rule) -> Tree {
    let texts = [
        ("rule", &rule.rule),
        ("message", &rule.message),
        ("messageExpression", &rule.message_expression),
        ("reason", &rule.reason),
        ("fieldPath", &rule.field_path),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    let made = Tree::map(texts.map(|(key, text)| (key, Tree::from(text))));
    if rule.optional_old_self { made.with(&["optionalOldSelf"], true) } else { made }
}
