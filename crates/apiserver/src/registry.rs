//! Which resources are served.

use muster_schema::node::SchemaRef;
use muster_tree::Text;

/// A resource and everything the generic engine needs to know of it.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group; empty for core.
    pub group: Text,
    /// Plural name.
    pub plural: Text,
    /// Singular name.
    pub singular: Text,
    /// Kind.
    pub kind: Text,
    /// Kind of its list.
    pub list_kind: Text,
    /// Short names for kubectl.
    pub short_names: Vec<Text>,
    /// Categories such as `all`.
    pub categories: Vec<Text>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Served and stored versions in order of preference.
    pub versions: Vec<Version>,
    /// Place of the storage version in `versions`.
    pub storage_version: usize,
    /// Name in the store. Two resources may share one (core and events.k8s.io Events).
    pub storage: Text,
    /// Whether this is a custom resource.
    pub custom: bool,
}

/// One version of a resource.
#[derive(Debug, Clone)]
pub struct Version {
    /// Its name, e.g. `v1`.
    pub name: Text,
    /// Whether clients can reach it.
    pub served: bool,
    /// The schema of the object.
    pub schema: SchemaRef,
    /// Verbs of the resource itself.
    pub verbs: Vec<Text>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Columns after `Name` for custom resources; built-in kinds have theirs in code.
    pub columns: Vec<Column>,
    /// Further fields that field selectors may name.
    pub selectable_fields: Vec<Text>,
    /// A warning that every request through this version gets; empty when not deprecated.
    pub deprecation: Text,
}

/// A subresource as discovery lists it.
#[derive(Debug, Clone)]
pub struct Subresource {
    /// Its name, e.g. `status`.
    pub name: Text,
    /// (group, version, kind) of what it answers.
    pub response_kind: (Text, Text, Text),
    /// Verbs.
    pub verbs: Vec<Text>,
    /// For `scale` of custom resources: (specReplicasPath, statusReplicasPath, labelSelectorPath).
    pub scale_paths: Option<(Text, Text, Text)>,
}

/// A printer column of a custom resource.
#[derive(Debug, Clone)]
pub struct Column {
    /// Heading.
    pub name: Text,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Text,
    /// `format`.
    pub format: Text,
    /// Description.
    pub description: Text,
    /// 0 is always shown, others with `-o wide`.
    pub priority: i64,
    /// JSON path of the value.
    pub path: Text,
}
