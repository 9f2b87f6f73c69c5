//! The served resources.
//!
//! A [`Registry`] is an immutable snapshot: built-in resources, then custom ones by name. The engine replaces it when
//! a CRD changes; requests in flight keep the snapshot they started with.
//!
//! # Deliberately absent
//!
//! The specifics of a kind: those are in its [`ResourceStrategy`].

mod builtin;

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_schema::node::SchemaRef;
use muster_schema::object::StoredObject;
use muster_store::Key;
use muster_tree::{Text, Tree};

pub use builtin::{builtin, storage_name};

use crate::kinds::ResourceStrategy;
use crate::status::StatusObject;

/// A resource with all that the generic engine needs.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Empty for the core group.
    pub group: Text,
    pub plural: Text,
    pub singular: Text,
    pub kind: Text,
    /// Kind of the list.
    pub list_kind: Text,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    /// Whether objects are namespaced.
    pub namespaced: bool,
    /// Served and stored versions, in order of preference.
    pub versions: Vec<ApiVersion>,
    /// Index of the storage version in `versions`.
    pub storage_version: usize,
    /// Key prefix in the store. Two resources may share one (core and events.k8s.io Events).
    pub storage: Text,
    pub custom: bool,
    /// The strategy of the kind.
    pub strategy: Arc<dyn ResourceStrategy>,
}

#[derive(Debug, Clone)]
pub struct ApiVersion {
    pub name: Text,
    /// `false` for versions that are only stored.
    pub served: bool,
    pub schema: SchemaRef,
    /// Verbs of the resource, subresources excluded.
    pub verbs: Vec<Text>,
    pub subresources: Vec<ServedSubresource>,
    /// Printer columns after `Name` of a custom resource; those of built-in kinds are in `tables`.
    pub columns: Vec<Column>,
    /// Selectable fields besides name and namespace.
    pub selectable_fields: Vec<Text>,
    /// The warning for every request of a deprecated version; empty otherwise.
    pub deprecation: Text,
}

#[derive(Debug, Clone)]
pub struct ServedSubresource {
    pub name: Text,
    /// (group, version, kind) of its object.
    pub response_kind: (Text, Text, Text),
    pub verbs: Vec<Text>,
    /// For `scale` of custom resources: (specReplicasPath, statusReplicasPath, labelSelectorPath).
    pub scale_paths: Option<(Text, Text, Text)>,
}

/// A printer column (`additionalPrinterColumns`).
#[derive(Debug, Clone)]
pub struct Column {
    pub name: Text,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Text,
    pub format: Text,
    pub description: Text,
    /// 0 is always shown, others only with `-o wide`.
    pub priority: i64,
    /// JSON path of the value.
    pub path: Text,
}

impl Resource {
    /// The wire form of an object in the version at `version`, with resourceVersion and managedFields.
    #[must_use]
    pub fn present(&self, object: &StoredObject, version: usize) -> Tree {
        let tree = self.strategy.to_wire(self, &object.tree, version);
        let whole = StoredObject { tree, managed: object.managed.clone(), revision: object.revision }.whole();
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

    /// The index of a served version.
    #[must_use]
    pub fn served_version(&self, name: &str) -> Option<usize> {
        self.versions.iter().position(|v| v.served && v.name == name)
    }

    /// The subresource of this name, if it exists.
    #[must_use]
    pub fn subresource(&self, version: usize, name: &str) -> Option<&ServedSubresource> {
        self.versions[version].subresources.iter().find(|s| s.name == name)
    }

    /// Whether status is a subresource.
    #[must_use]
    pub fn has_status(&self, version: usize) -> bool {
        self.subresource(version, "status").is_some()
    }

    /// Whether the resource supports this verb.
    #[must_use]
    pub fn allows(&self, version: usize, verb: &str) -> bool {
        self.versions[version].verbs.iter().any(|v| v == verb)
    }

    /// The storage key of an object.
    #[must_use]
    pub fn key(&self, namespace: &Text, name: &Text) -> Key {
        let namespace = if self.namespaced { namespace.clone() } else { Text::new() };
        Key { resource: self.storage.clone(), namespace, name: name.clone() }
    }

    /// The Go type that kube-apiserver's messages name, e.g. `core.ConfigMap`.
    #[must_use]
    pub fn inner_type(&self) -> String {
        inner_type(&self.group, &self.kind)
    }

    /// Names an object by plural resource, as most messages do.
    #[must_use]
    pub fn named<'a>(&'a self, name: &'a str) -> StatusObject<'a> {
        StatusObject { group: &self.group, resource: &self.plural, name }
    }

    /// Names an object by kind, as `Invalid` does.
    #[must_use]
    pub fn named_kind<'a>(&'a self, name: &'a str) -> StatusObject<'a> {
        // Events of both groups are one kind of the core group.
        let group = if self.storage == "events" { "" } else { self.group.as_str() };
        StatusObject { group, resource: &self.kind, name }
    }
}

/// The Go type that kube-apiserver's messages name, e.g. `core.ConfigMap`.
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

/// An immutable snapshot of the served resources.
#[derive(Debug)]
pub struct Registry {
    resources: Vec<Arc<Resource>>,
    by_name: BTreeMap<Text, BTreeMap<Text, usize>>,
    generation: u64,
}

impl Registry {
    /// Creates a snapshot; of two resources with the same group and plural the first wins.
    #[must_use]
    pub fn new(resources: Vec<Arc<Resource>>, generation: u64) -> Self {
        let mut by_name: BTreeMap<Text, BTreeMap<Text, usize>> = BTreeMap::new();
        for (at, resource) in resources.iter().enumerate() {
            // `or_insert` keeps the first: a CRD cannot shadow a built-in resource.
            by_name.entry(resource.group.clone()).or_default().entry(resource.plural.clone()).or_insert(at);
        }
        Self { resources, by_name, generation }
    }

    /// Looks up a served version; returns its index, too.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<(Arc<Resource>, usize)> {
        let resource = self.resource(group, plural)?;
        let version = resource.served_version(version)?;
        Some((resource.clone(), version))
    }

    /// Looks up a resource, in any version.
    #[must_use]
    pub fn resource(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_name.get(group)?.get(plural).map(|at| &self.resources[*at])
    }

    /// All resources: built-in ones first, in order of preference within their group.
    #[must_use]
    pub fn all(&self) -> &[Arc<Resource>] {
        &self.resources
    }

    /// Increments with every change of the served resources.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
