//! Which resources are served.
//!
//! A [`Registry`] is an immutable picture: the built-in resources, then the custom ones in order of their names. The
//! engine swaps in a new one when a definition of a custom resource changes; whoever holds the old one goes on with it.
//!
//! # Deliberately absent
//!
//! What a kind does differently from the rule: that is its [`Strategy`].

mod builtin;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_schema::node::SchemaRef;
use muster_schema::object::Object;
use muster_store::Key;
use muster_tree::{Text, Tree};

pub use builtin::{builtin, storage_name};

use crate::kinds::Strategy;
use crate::status::Named;

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
    /// What its kind does differently.
    pub strategy: Arc<dyn Strategy>,
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

impl Resource {
    /// The wire form of an object in the version at `version`, with resourceVersion and managedFields.
    #[must_use]
    pub fn present(&self, object: &Object, version: usize) -> Tree {
        let tree = self.strategy.to_wire(self, &object.tree, version);
        let whole = Object { tree, managed: object.managed.clone(), revision: object.revision }.whole();
        // An object that was never stored (dry run) has no revision to show.
        if object.revision == 0 { whole.without(&["metadata", "resourceVersion"]) } else { whole }
    }

    /// `group/version`, or the version alone in the core group.
    #[must_use]
    pub fn api_version(&self, version: usize) -> Text {
        group_version(&self.group, &self.versions[version].name)
    }

    /// The `apiVersion` of objects in the store.
    #[must_use]
    pub fn storage_api_version(&self) -> Text {
        self.api_version(self.storage_version)
    }

    /// Place of a served version.
    #[must_use]
    pub fn served_version(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|v| v.served && v.name == name)
    }

    /// The subresource of that name, if it is served.
    #[must_use]
    pub fn subresource(&self, version: usize, name: &str) -> Option<&Subresource> {
        self.versions[version].subresources.iter().find(|s| s.name == name)
    }

    /// Whether status is written through its own endpoint only.
    #[must_use]
    pub fn has_status(&self, version: usize) -> bool {
        self.subresource(version, "status").is_some()
    }

    /// Whether the resource itself has this verb.
    #[must_use]
    pub fn allows(&self, version: usize, verb: &str) -> bool {
        self.versions[version].verbs.iter().any(|v| v == verb)
    }

    /// The store's key of an object.
    #[must_use]
    pub fn key(&self, namespace: &Text, name: &Text) -> Key {
        let namespace = if self.namespaced { namespace.clone() } else { Text::new() };
        Key { resource: self.storage.clone(), namespace, name: name.clone() }
    }

    /// The type that messages of Kubernetes name for this kind, e.g. `core.ConfigMap`.
    #[must_use]
    pub fn inner_type(&self) -> String {
        inner_type(&self.group, &self.kind)
    }

    /// An object of this resource as most messages name it.
    #[must_use]
    pub fn named<'a>(&'a self, name: &'a str) -> Named<'a> {
        Named { group: &self.group, resource: &self.plural, name }
    }

    /// An object of this resource as `Invalid` names it.
    #[must_use]
    pub fn named_kind<'a>(&'a self, name: &'a str) -> Named<'a> {
        // Events of both groups are one kind, which the core group owns.
        let group = if self.storage == "events" { "" } else { self.group.as_str() };
        Named { group, resource: &self.kind, name }
    }
}

/// The type that messages of Kubernetes name for a kind, e.g. `core.ConfigMap`.
#[must_use]
pub fn inner_type(group: &str, kind: &str) -> String {
    let package = match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    format!("{package}.{kind}")
}

/// `group/version`, or the version alone in the core group.
#[must_use]
pub fn group_version(group: &str, version: &str) -> Text {
    if group.is_empty() { Text::from(version) } else { Text::from(format!("{group}/{version}")) }
}

/// The resources served at one time.
#[derive(Debug)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    by_name: BTreeMap<Text, BTreeMap<Text, usize>>,
    generation: u64,
}

impl Registry {
    /// A registry of these resources; of two with one group and plural the first counts.
    #[must_use]
    pub fn new(resources: Vec<Arc<Resource>>, generation: u64) -> Self {
        let mut by_name: BTreeMap<Text, BTreeMap<Text, usize>> = BTreeMap::new();
        for (at, resource) in resources.iter().enumerate() {
            by_name.entry(resource.group.clone()).or_default().entry(resource.plural.clone()).or_insert(at);
        }
        Self { resources, by_name, generation }
    }

    /// The resource served under this path, and the place of the version.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<(Arc<Resource>, usize)> {
        let resource = self.resource(group, plural)?;
        let version = resource.served_version(version)?;
        Some((resource.clone(), version))
    }

    /// The resource of that group and plural, in whatever version.
    #[must_use]
    pub fn resource(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_name.get(group)?.get(plural).map(|at| &self.resources[*at])
    }

    /// All resources: built-in ones first, in order of preference within their group.
    #[must_use]
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// Grows with every change of what is served.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
