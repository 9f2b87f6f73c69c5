//! The schema of a kind: an arena of nodes that refer to each other by number.
//!
//! One [`Schema`] contains all built-in kinds; each version of a custom resource has its own. All other modules traverse
//! a [`View`]: a schema and a node in it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use muster_tree::{Text, Tree};

/// Component name of ObjectMeta.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Index of a node in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// An arena of nodes; built-in types may be recursive.
#[derive(Debug, Default)]
pub struct Schema {
    /// All nodes, indexed by [`NodeId`].
    pub nodes: Vec<Node>,
}

/// The schema of one value.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The type, with the schemas of its children.
    pub shape: Shape,
    /// Component name, for example `io.k8s.api.core.v1.PodSpec`; empty for an anonymous type.
    pub name: Text,
    /// `format`, for example `int32`, `date-time` or `byte`; empty without one.
    pub format: Text,
    /// Keyword `x-kubernetes-int-or-string`: integer or string.
    pub int_or_string: bool,
    /// Keyword `nullable`: `null` is a value.
    pub nullable: bool,
    /// Keyword `x-kubernetes-preserve-unknown-fields`: nothing is pruned.
    pub preserve_unknown: bool,
    /// Keyword `x-kubernetes-embedded-resource`: a complete object.
    pub embedded_resource: bool,
    /// The value that stands here when the client gave none.
    pub default: Option<Tree>,
    /// The list type; `Atomic` for any other value.
    pub list: ListKind,
    /// Whether a map is owned and replaced as a whole (`x-kubernetes-map-type: atomic`).
    pub atomic_map: bool,
    /// How strategic merge patch treats this place.
    pub patch: PatchRule,
    /// Value rules beyond the type; absent for most nodes.
    pub bounds: Option<Box<Bounds>>,
    /// CEL rules (`x-kubernetes-validations`) at this node.
    pub rules: Vec<Rule>,
    /// Fields that are there, empty or zero, in every object of this type: Go writes their zero value. Sorted.
    pub always: Vec<Text>,
}

/// The structure of a value.
#[derive(Debug, Clone, Default)]
pub enum Shape {
    /// Any value, without a schema.
    #[default]
    Any,
    /// A value of type `boolean`.
    Bool,
    /// A value of type `integer`.
    Int,
    /// A value of type `number`.
    Number,
    /// A value of type `string`.
    Text,
    /// `array` of one kind of item.
    List(NodeId),
    /// `object` with free keys (`additionalProperties`).
    Map(NodeId),
    /// `object` with these fields, sorted by name.
    Fields(Vec<Field>),
}

/// A named field of an object.
#[derive(Debug, Clone)]
pub struct Field {
    /// Name of the field.
    pub name: Text,
    /// Schema of the field.
    pub node: NodeId,
    /// Whether it must be there.
    pub required: bool,
}

/// `x-kubernetes-list-type`: how items are identified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListKind {
    /// Not at all: the list is one value.
    #[default]
    Atomic,
    /// By value; no value stands twice.
    Set,
    /// By these fields of each item.
    Map(Vec<Text>),
}

/// How strategic merge patch treats a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchRule {
    /// Whether `x-kubernetes-patch-strategy` contains `merge`.
    pub merge: bool,
    /// Whether `x-kubernetes-patch-strategy` contains `retainKeys`.
    pub retain_keys: bool,
    /// `x-kubernetes-patch-merge-key`; empty for lists of scalars.
    pub merge_key: Text,
}

/// Value rules of OpenAPI beyond the type.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// The valid values (`enum`).
    pub allowed: Vec<Tree>,
    /// The regular expression (`pattern`), in Go's syntax.
    pub pattern: Option<Text>,
    /// The pattern, compiled on first use; `None` inside if it is invalid.
    pub matcher: OnceLock<Option<regex::Regex>>,
    /// Required keys that are not declared fields, in maps and in values with preserved unknown fields.
    pub required: Vec<Text>,
    /// `minimum`, and whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// `maximum`, and whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// The number must be a multiple (`multipleOf`).
    pub multiple_of: Option<f64>,
    /// Smallest length in characters (`minLength`).
    pub min_length: Option<u64>,
    /// Largest length in characters (`maxLength`).
    pub max_length: Option<u64>,
    /// Smallest number of items (`minItems`).
    pub min_items: Option<u64>,
    /// Largest number of items (`maxItems`).
    pub max_items: Option<u64>,
    /// Smallest number of entries (`minProperties`).
    pub min_properties: Option<u64>,
    /// Largest number of entries (`maxProperties`).
    pub max_properties: Option<u64>,
    /// `allOf`: value validations only, no structure.
    pub all_of: Vec<NodeId>,
    /// At least one clause must match (`anyOf`).
    pub any_of: Vec<NodeId>,
    /// Exactly one clause must match (`oneOf`).
    pub one_of: Vec<NodeId>,
    /// The clause must not match (`not`).
    pub not: Option<NodeId>,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// The CEL expression to evaluate.
    pub rule: Text,
    /// Message of a violation; empty uses the expression.
    pub message: Text,
    /// `messageExpression`: CEL expression of the message; empty without one.
    pub message_expression: Text,
    /// `reason` of a violation; empty means `FieldValueInvalid`.
    pub reason: Text,
    /// `fieldPath` of a violation; empty means the node of the rule.
    pub field_path: Text,
    /// `optionalOldSelf`: run on create, too.
    pub optional_old_self: bool,
}

/// A borrowed schema and a node in it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The schema that contains the node.
    pub schema: &'a Schema,
    /// The node within that schema.
    pub id: NodeId,
}

/// A shared schema and a node in it, for example the root of a kind.
#[derive(Debug, Clone)]
pub struct SchemaRef {
    /// The schema that contains the node.
    pub schema: Arc<Schema>,
    /// The node within that schema.
    pub id: NodeId,
}

impl SchemaRef {
    /// A view of the same node.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { schema: &self.schema, id: self.id }
    }
}

impl Schema {
    /// Copies a node of another schema, with everything below it, into this one.
    pub fn graft(&mut self, from: View<'_>) -> NodeId {
        let mut copies = BTreeMap::new();
        self.copy(from, &mut copies)
    }

    /// Copies a node once: recursive types refer to the copy.
    fn copy(&mut self, from: View<'_>, copies: &mut BTreeMap<NodeId, NodeId>) -> NodeId {
        if let Some(copy) = copies.get(&from.id) {
            return *copy;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).expect("far fewer nodes than 2^32"));
        copies.insert(from.id, id);
        self.nodes.push(Node::default());
        let mut node = from.node().clone();
        match &mut node.shape {
            Shape::List(below) | Shape::Map(below) => *below = self.copy(from.to(*below), copies),
            Shape::Fields(fields) => {
                for field in fields {
                    field.node = self.copy(from.to(field.node), copies);
                }
            }
            _ => {}
        }
        // Bounds refer to nodes of their own schema, which the copy would not remap.
        debug_assert!(node.bounds.is_none(), "built-in types have no value rules");
        self.nodes[id.0 as usize] = node;
        id
    }
}

impl<'a> View<'a> {
    /// The node of this view.
    #[must_use]
    pub fn node(self) -> &'a Node {
        &self.schema.nodes[self.id.0 as usize]
    }

    /// A view of another node of the same schema.
    #[must_use]
    pub fn to(self, id: NodeId) -> View<'a> {
        View { schema: self.schema, id }
    }

    /// The schema of a field or of a key of `additionalProperties`; `None` if the schema has neither.
    #[must_use]
    pub fn below(self, key: &str) -> Option<View<'a>> {
        match &self.node().shape {
            Shape::Fields(fields) => {
                let at = fields.binary_search_by(|f| f.name.as_str().cmp(key)).ok()?;
                Some(self.to(fields[at].node))
            }
            Shape::Map(values) => Some(self.to(*values)),
            _ => None,
        }
    }

    /// The schema of the items, if this is a list.
    #[must_use]
    pub fn item(self) -> Option<View<'a>> {
        match self.node().shape {
            Shape::List(item) => Some(self.to(item)),
            _ => None,
        }
    }

    /// The schema at the end of a path of fields; lists are entered implicitly.
    #[must_use]
    pub fn at(self, path: &[&str]) -> Option<View<'a>> {
        path.iter().try_fold(self, |view, key| {
            let view = view.item().unwrap_or(view);
            view.below(key)
        })
    }
}
