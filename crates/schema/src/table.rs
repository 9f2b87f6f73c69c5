//! The schema table of all built-in kinds.
//!
//! It is read once per process from data that is checked in: what Kubernetes publishes (made by
//! `cargo xtask schema`), the kinds of the gang-scheduling proposal (`proposal.json`) and the static defaults of
//! built-in kinds (`defaults.txt`), the last two written by hand.
//!
//! # Invariants
//!
//! - Every row has a root, and every default in the overlay names a field that exists.
//! - The same data always gives the same node numbers.
//!
//! # Deliberately absent
//!
//! Defaults that depend on another field, and rules across fields: they are strategies of the API server.

#[cfg(test)]
mod answers;
mod build;
mod defaults;
mod facts;
mod rows;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, OnceLock};

use muster_tree::{Text, Tree};

use crate::node::{NodeId, Schema, SchemaRef};
use build::Built;
pub(crate) use facts::TypeFacts;
pub use facts::Zero;

/// Components and rows, as published.
const PUBLISHED: &[u8] = include_bytes!("../data/schema.json.lz4");
/// Components and rows that Kubernetes does not publish.
const PROPOSAL: &[u8] = include_bytes!("../data/proposal.json");
/// Static defaults.
const DEFAULTS: &str = include_str!("../data/defaults.txt");

/// Group, version and kind.
pub type KindName = (Text, Text, Text);

/// All built-in kinds and their schema.
#[derive(Debug)]
pub struct Table {
    /// The nodes of all built-in types.
    pub schema: Arc<Schema>,
    /// One row per served group, version and resource, then the kinds without a resource.
    pub kinds: Vec<KindRow>,
    components: Vec<Component>,
    /// For each node, the component that it is or is a variant of.
    named: Vec<Option<u32>>,
    roots: BTreeMap<KindName, NodeId>,
    /// What becomes of zero values, for the fields of each component.
    zeros: Vec<Box<[Zero]>>,
    /// What Go's types say, by type.
    facts: Tree,
}

/// A schema that has a name of its own in published OpenAPI.
#[derive(Debug, Clone)]
pub struct Component {
    /// Its name, e.g. `io.k8s.api.core.v1.Pod`.
    pub name: Text,
    /// Its node.
    pub node: NodeId,
    /// The kinds of which it is the root.
    pub kinds: Vec<KindName>,
}

/// A kind, and the resource it is served as.
#[derive(Debug, Clone)]
pub struct KindRow {
    /// API group; empty for core.
    pub group: Text,
    /// Version.
    pub version: Text,
    /// Kind.
    pub kind: Text,
    /// Plural name; empty for a kind without a resource (`DeleteOptions`, `Scale`, …).
    pub plural: Text,
    /// Singular name.
    pub singular: Text,
    /// Kind of its list.
    pub list_kind: Text,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs of the resource itself.
    pub verbs: Vec<Text>,
    /// Short names for kubectl.
    pub short_names: Vec<Text>,
    /// Categories such as `all`.
    pub categories: Vec<Text>,
    /// Subresources.
    pub subresources: Vec<SubRow>,
    /// The schema of the object.
    pub root: NodeId,
}

/// A subresource as discovery lists it.
#[derive(Debug, Clone)]
pub struct SubRow {
    /// Its name, e.g. `status`.
    pub name: Text,
    /// What it answers.
    pub response_kind: KindName,
    /// Verbs.
    pub verbs: Vec<Text>,
}

/// The table of this build, read on first use.
#[must_use]
pub fn builtin() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(load)
}

impl Table {
    /// The schema of a kind; lists (`PodList`) included.
    #[must_use]
    pub fn root(&self, group: &str, version: &str, kind: &str) -> Option<SchemaRef> {
        let name = (Text::from(group), Text::from(version), Text::from(kind));
        self.roots.get(&name).map(|id| SchemaRef { schema: self.schema.clone(), id: *id })
    }

    /// The row of a resource.
    #[must_use]
    pub fn row(&self, group: &str, version: &str, plural: &str) -> Option<&KindRow> {
        self.kinds.iter().find(|row| row.plural == plural && row.version == version && row.group == group)
    }

    /// All named schemas, sorted by name.
    #[must_use]
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// A named schema.
    #[must_use]
    pub fn component(&self, name: &str) -> Option<&Component> {
        let at = self.components.binary_search_by(|c| c.name.as_str().cmp(name)).ok()?;
        Some(&self.components[at])
    }

    /// The component that a node is, or that it repeats with a default or merge rules of its own.
    ///
    /// To publish such a variant, refer to the component and say what differs: see [`Table::is_variant`].
    #[must_use]
    pub fn component_name(&self, id: NodeId) -> Option<&str> {
        self.component_at(id).map(|at| self.components[at].name.as_str())
    }

    /// What becomes of the zero values of a node's fields, in the order of its fields. Empty for anything but
    /// an object of built-in type.
    #[must_use]
    pub fn zeros(&self, id: NodeId) -> &[Zero] {
        self.component_at(id).map(|at| &*self.zeros[at]).unwrap_or_default()
    }

    /// What Go says of a type, inlined types included, which are no components.
    pub(crate) fn facts(&self, component: &str) -> TypeFacts<'_> {
        TypeFacts::of(self.facts.get(component))
    }

    /// Whether a node repeats a component with something of its own (`default`, list or patch rules).
    #[must_use]
    pub fn is_variant(&self, id: NodeId) -> bool {
        self.component_at(id).is_some_and(|at| self.components[at].node != id)
    }

    /// The place of the component that a node is or is a variant of.
    fn component_at(&self, id: NodeId) -> Option<usize> {
        self.named.get(id.0 as usize).copied().flatten().map(|at| at as usize)
    }
}

/// Reads the data. It is part of the binary, so whatever is wrong with it is a broken build.
fn load() -> Table {
    let published = Tree::parse(&decompress(PUBLISHED)).expect("the published schema is JSON");
    let proposal = Tree::parse(PROPOSAL).expect("the proposal's schema is JSON");
    let components = published.get("components").expect("the published schema has components");
    let components = components.merge(proposal.get("components").unwrap_or(&Tree::Null));
    let mut built = build::build(&components);
    defaults::put(&mut built, DEFAULTS).unwrap_or_else(|problem| panic!("defaults.txt: {problem}"));
    let roots = roots(&built.components);
    let kinds = rows::read(&published, &roots).into_iter().chain(rows::read(&proposal, &roots)).collect();
    let facts = published.get("facts").cloned().unwrap_or_default();
    let zeros = facts::zeros(&built.schema, &built.components, &facts);
    let Built { mut schema, components, named } = built;
    facts::put_always(&mut schema, &named, &zeros);
    let named = (0..).zip(&schema.nodes).map(|(id, _)| named.get(&NodeId(id)).copied()).collect();
    Table { schema: Arc::new(schema), kinds, components, named, roots, zeros, facts }
}

fn roots(components: &[Component]) -> BTreeMap<KindName, NodeId> {
    components.iter().flat_map(|c| c.kinds.iter().map(|kind| (kind.clone(), c.node))).collect()
}

/// The content of a compressed data file.
pub(crate) fn decompress(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    lz4_flex::frame::FrameDecoder::new(bytes).read_to_end(&mut out).expect("checked-in data is whole");
    out
}
