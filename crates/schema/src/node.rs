//! The schema of a kind: nodes in an arena, children by number.
//!
//! One [`Schema`] holds all built-in kinds; each version of a custom resource has one of its own. Everything else
//! in this crate walks a [`View`]: a schema and a place in it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use muster_tree::{Text, Tree};

/// The published name of the metadata that every object has.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The place of a node in its schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// Nodes that refer to each other. Built-in types may be recursive.
#[derive(Debug, Default)]
pub struct Schema {
    /// All nodes.
    pub nodes: Vec<Node>,
}

/// What may stand in one place of an object.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The structure.
    pub shape: Shape,
    /// The published name of the type that begins here, e.g. `io.k8s.api.core.v1.PodSpec`; empty when it has none.
    pub name: Text,
    /// The `format` word, e.g. `int32`, `date-time`, `byte`; empty when none.
    pub format: Text,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `nullable`.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// The value that stands here when the client gave none.
    pub default: Option<Tree>,
    /// How the items of a list are told apart; `Atomic` for anything else.
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
    /// Anything at all.
    #[default]
    Any,
    /// `boolean`.
    Bool,
    /// `integer`.
    Int,
    /// `number`.
    Number,
    /// `string`.
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
    /// Its name.
    pub name: Text,
    /// Its schema.
    pub node: NodeId,
    /// Whether it must be there.
    pub required: bool,
}

/// How the items of a list are told apart.
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
    /// `x-kubernetes-patch-strategy` contains `merge`.
    pub merge: bool,
    /// `x-kubernetes-patch-strategy` contains `retainKeys`.
    pub retain_keys: bool,
    /// `x-kubernetes-patch-merge-key`; empty for lists of scalars.
    pub merge_key: Text,
}

/// Value rules of OpenAPI beyond the type.
#[derive(Debug, Clone, Default)]
pub struct Bounds {
    /// `enum`.
    pub allowed: Vec<Tree>,
    /// `pattern`.
    pub pattern: Option<Text>,
    /// The pattern made ready at its first use; `None` inside when it is not one.
    pub matcher: OnceLock<Option<regex::Regex>>,
    /// Required keys that are not among the fields: of free maps, and of values whose fields are kept unseen.
    pub required: Vec<Text>,
    /// `minimum`, and whether it is itself excluded.
    pub minimum: Option<(f64, bool)>,
    /// `maximum`, and whether it is itself excluded.
    pub maximum: Option<(f64, bool)>,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `minLength`.
    pub min_length: Option<u64>,
    /// `maxLength`.
    pub max_length: Option<u64>,
    /// `minItems`.
    pub min_items: Option<u64>,
    /// `maxItems`.
    pub max_items: Option<u64>,
    /// `minProperties`.
    pub min_properties: Option<u64>,
    /// `maxProperties`.
    pub max_properties: Option<u64>,
    /// `allOf`: value rules only, no structure.
    pub all_of: Vec<NodeId>,
    /// `anyOf`.
    pub any_of: Vec<NodeId>,
    /// `oneOf`.
    pub one_of: Vec<NodeId>,
    /// `not`.
    pub not: Option<NodeId>,
}

/// One CEL rule as written in a schema.
#[derive(Debug, Clone, Default)]
pub struct Rule {
    /// The expression.
    pub rule: Text,
    /// What to say when it does not hold; empty when the schema does not say.
    pub message: Text,
    /// An expression that makes the message; empty when none.
    pub message_expression: Text,
    /// `reason`; empty means `FieldValueInvalid`.
    pub reason: Text,
    /// `fieldPath`; empty when none.
    pub field_path: Text,
    /// `optionalOldSelf`.
    pub optional_old_self: bool,
}

/// A schema and a place in it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The schema.
    pub schema: &'a Schema,
    /// The place.
    pub id: NodeId,
}

/// A shared handle on a place in a schema, e.g. the root of a kind.
#[derive(Debug, Clone)]
pub struct SchemaRef {
    /// The schema.
    pub schema: Arc<Schema>,
    /// The place.
    pub id: NodeId,
}

impl SchemaRef {
    /// Looks at the place.
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View { schema: &self.schema, id: self.id }
    }
}

impl Schema {
    /// Copies a place of another schema, with everything below it, into this one.
    pub fn graft(&mut self, from: View<'_>) -> NodeId {
        let mut copies = BTreeMap::new();
        self.copy(from, &mut copies)
    }

    /// Types may be recursive: a node that was copied, or is being copied, is not copied again.
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
        // Value rules refer to nodes of their own schema.
        debug_assert!(node.bounds.is_none(), "built-in types have no value rules");
        self.nodes[id.0 as usize] = node;
        id
    }
}

impl<'a> View<'a> {
    /// The node at this place.
    #[must_use]
    pub fn node(self) -> &'a Node {
        &self.schema.nodes[self.id.0 as usize]
    }

    /// The same schema at another place.
    #[must_use]
    pub fn to(self, id: NodeId) -> View<'a> {
        View { schema: self.schema, id }
    }

    /// The schema of a field or of the value under a free key; `None` when the schema does not know it.
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

    /// The schema of the items, when this is a list.
    #[must_use]
    pub fn item(self) -> Option<View<'a>> {
        match self.node().shape {
            Shape::List(item) => Some(self.to(item)),
            _ => None,
        }
    }

    /// The schema at the end of a path of fields; lists are entered without naming them.
    #[must_use]
    pub fn at(self, path: &[&str]) -> Option<View<'a>> {
        path.iter().try_fold(self, |view, key| {
            let view = view.item().unwrap_or(view);
            view.below(key)
        })
    }
}
