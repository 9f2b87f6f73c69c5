//! Resource strategies: the specifics of each kind, one file per kind (kube-apiserver's registry strategies).
//!
//! The engine calls a [`ResourceStrategy`] at fixed points of a write. Every method defaults to the generic behavior,
//! so a kind's file holds only what is special.
//!
//! # Invariants
//!
//! - A strategy sees objects in their storage version, after structural defaulting.
//! - A strategy is a pure function: lookups, time and randomness come in through [`StrategyContext`].

mod affinity_check;
mod claim;
mod config;
mod container_check;
mod cron_schedule;
mod cronjob;
mod device;
mod device_check;
mod device_convert;
mod disruption_budget;
mod endpoint_slice;
mod event;
mod field_path;
mod gang;
mod gang_check;
mod gang_convert;
mod gang_gate;
pub(crate) mod go_format;
mod ingress;
mod ip_address;
mod ip_check;
mod job;
mod job_check;
mod job_policy;
mod job_status;
mod job_update;
mod job_warnings;
mod limits;
mod namespace;
mod network_policy;
mod node;
mod pod;
mod pod_check;
mod pod_defaults;
mod pod_parts;
mod pod_update;
pub(crate) mod quantity;
mod rbac;
mod replication_controller;
mod resource_check;
mod resource_quota;
mod runtime_class;
mod security_check;
mod service;
mod service_parts;
mod template;
mod volume;
mod volume_check;

use std::fmt::Debug;
use std::sync::Arc;

use muster_api::client::Kind;
use muster_api::environment::Entropy;
use muster_api::time::Time;
use muster_schema::error::FieldError;
use muster_store::{Key, StoredObject};
use muster_tree::{Text, Tree};

pub use self::gang_gate::GangFeatures;
pub(crate) use self::pod::quality;
use self::template::{SIMPLE, SimpleStrategy};
use crate::registry::Resource;
use crate::request::UserInfo;
use crate::status::Status;

pub trait ObjectLister {
    fn newest(&self, key: &Key) -> Option<StoredObject>;

    /// All objects of a resource.
    fn all(&self, storage: &str) -> Vec<StoredObject>;

    /// All objects of a resource in one namespace.
    fn in_namespace(&self, storage: &str, namespace: &Text) -> Vec<StoredObject>;

    /// As [`Self::in_namespace`], restricted to a name prefix.
    fn with_name_prefix(&self, storage: &str, namespace: &Text, beginning: &str) -> Vec<StoredObject>;

    /// Validates a new object of another kind, without admission and without storing it.
    ///
    /// # Errors
    /// The kind is not served, or the object is not of this kind.
    fn validate_new(&self, kind: &Kind, object: &Tree) -> Result<FieldErrors, Status>;

    /// Allocates a Service IP; `None` when the wanted one is taken or out of range, or none is free.
    fn allocate_service_ip(&self, wanted: Option<&str>) -> Option<String>;
}

/// The inputs of a strategy besides the object.
#[derive(Clone, Copy)]
pub struct StrategyContext<'a> {
    pub resource: &'a Resource,
    /// Index of the request's version in `resource.versions`.
    pub version: usize,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// The instant of the request.
    pub now: Time,
    pub entropy: &'a dyn Entropy,
    pub lister: &'a dyn ObjectLister,
    pub user: &'a UserInfo,
}

/// Field errors found so far.
pub type FieldErrors = Vec<FieldError>;

/// The validation rule for object names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// DNS subdomain: at most 253 bytes, labels joined by dots.
    Subdomain,
    /// DNS label: at most 63 bytes of lower-case letters, digits and `-`.
    Label,
    /// Any valid path segment.
    PathSegment,
}

/// Which changes increment `metadata.generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationRule {
    None,
    Spec,
    /// Everything except `metadata` and `status`.
    AllButStatus,
    AllButMeta,
}

/// The default `propagationPolicy` of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted afterwards.
    Background,
    Orphan,
}

/// The specifics of a kind.
pub trait ResourceStrategy: Debug + Send + Sync {
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Defaults that depend on absent fields, before schema defaults fill those. Wire form.
    fn default_before_schema(&self, tree: Tree) -> Tree {
        tree
    }

    /// Defaults that a schema cannot express. Storage form.
    fn default(&self, tree: Tree) -> Tree {
        tree
    }

    /// PrepareForCreate: changes before validation.
    ///
    /// # Errors
    /// An error that is not about a field, e.g. that addresses are exhausted.
    fn prepare_create(&self, tree: Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(tree)
    }

    /// PrepareForUpdate: changes before validation. `status` was restored already.
    ///
    /// # Errors
    /// An error that is not about a field.
    fn prepare_update(&self, new: Tree, _old: &Tree, _cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        Ok(new)
    }

    /// PrepareForUpdate of the status. Everything except `status` and `metadata` was restored already.
    fn prepare_status(&self, new: Tree, _old: &Tree, _cx: &StrategyContext<'_>) -> Tree {
        new
    }

    /// Validates a new object.
    fn validate_create(&self, _new: &Tree, _cx: &StrategyContext<'_>, _errors: &mut FieldErrors) {}

    fn validate_update(
        &self,
        _new: &Tree,
        _old: &Tree,
        _cx: &StrategyContext<'_>,
        _errors: &mut FieldErrors,
    ) {
    }

    /// Validates an update of the status.
    fn validate_status(
        &self,
        _new: &Tree,
        _old: &Tree,
        _cx: &StrategyContext<'_>,
        _errors: &mut FieldErrors,
    ) {
    }

    /// WarningsOnCreate and WarningsOnUpdate of kube-apiserver's strategies.
    fn warnings(&self, _new: &Tree, _old: Option<&Tree>) -> Vec<String> {
        Vec::new()
    }

    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether updates without resourceVersion are allowed.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Whether creates are rejected, e.g. because the CRD is terminating.
    fn rejects_creates(&self) -> bool {
        false
    }

    /// Whether creates keep a status that the client sent.
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Whether something besides `metadata.finalizers` holds a deleting object, e.g. `spec.finalizers` of a
    /// Namespace.
    fn holds_deletion(&self, _tree: &Tree) -> bool {
        false
    }

    /// The object with its deletion mark, for kinds with their own deletion protocol.
    fn begin_deletion(&self, _tree: &Tree, _now: Time) -> Option<Tree> {
        None
    }

    /// The grace period of a delete in seconds; `None` for kinds without graceful deletion.
    fn grace_period_secs(&self, _tree: &Tree, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// The default `propagationPolicy` of deletes.
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// Whether a delete returns the object instead of a `Status`.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// Selectable fields besides name and namespace.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The value of a selectable field.
    fn field(&self, tree: &Tree, path: &str) -> String {
        field_text(tree, path)
    }

    /// Which changes increment `metadata.generation`.
    fn generation(&self) -> GenerationRule {
        GenerationRule::None
    }

    /// Whether status updates keep all of `metadata`.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// Converts from the storage version to the version at `version`.
    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        with_api_version(tree, &resource.api_version(version))
    }

    /// Converts from the version at `version` to the storage version.
    fn to_storage(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        with_api_version(tree, &resource.storage_api_version())
    }

    /// Restores from `old` the fields that the request's version cannot express. Storage form.
    fn restore_unrepresentable(&self, _resource: &Resource, new: Tree, _old: &Tree, _version: usize) -> Tree {
        new
    }

    /// Whether [`ResourceStrategy::to_wire`] adds the zero values that Go always serializes, so that the stored form
    /// has none.
    fn wire_has_zeros(&self, _resource: &Resource, _version: usize) -> bool {
        false
    }

    /// Prunes a tree for storage: the stored version of a custom resource may lack fields of the written one.
    fn prune_for_storage(&self, _resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        tree.clone()
    }

    /// The CRD spec of a custom resource, and whether the CRD is terminating.
    fn crd_spec(&self) -> Option<(&Tree, bool)> {
        None
    }

    /// Validates a custom resource by schema and CEL rules, in the version at `version`.
    fn validate_custom(&self, _version: usize, _new: &Tree, _old: Option<&Tree>, _errors: &mut FieldErrors) {}
}

/// The strategy of a built-in kind.
#[must_use]
pub fn strategy(group: &str, plural: &str) -> Arc<dyn ResourceStrategy> {
    match (group, plural) {
        ("", "pods") => Arc::new(pod::Pod),
        ("", "namespaces") => Arc::new(namespace::Namespace),
        ("", "services") => Arc::new(service::Service),
        ("", "persistentvolumeclaims") => Arc::new(claim::VolumeClaim),
        ("", "persistentvolumes") => Arc::new(volume::Volume),
        ("", "configmaps") => Arc::new(config::ConfigMap),
        ("", "secrets") => Arc::new(config::Secret),
        ("", "nodes") => Arc::new(node::Node),
        ("" | "events.k8s.io", "events") => Arc::new(event::Event),
        ("", "podtemplates") => templated(&["template"], false, GenerationRule::AllButMeta, false),
        ("", "replicationcontrollers") => Arc::new(replication_controller::ReplicationController),
        ("", "resourcequotas") => Arc::new(resource_quota::ResourceQuota),
        ("", "serviceaccounts") => Arc::new(SimpleStrategy { returns_deleted: true, ..SIMPLE }),
        ("", "limitranges") => Arc::new(limits::LimitRange),
        ("", "endpoints") => Arc::new(SimpleStrategy { create_on_update: true, ..SIMPLE }),
        ("batch", "jobs") => Arc::new(job::Job),
        ("batch", "cronjobs") => Arc::new(cronjob::CronJob),
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => {
            templated(&["spec", "template"], true, GenerationRule::Spec, true)
        }
        ("coordination.k8s.io", "leases") => Arc::new(node::Lease),
        ("coordination.k8s.io", "leasecandidates") => {
            Arc::new(SimpleStrategy { create_on_update: true, ..SIMPLE })
        }
        ("scheduling.k8s.io", "priorityclasses") => Arc::new(node::PriorityClass),
        ("scheduling.k8s.io", "workloads") => Arc::new(gang::Workload),
        ("scheduling.k8s.io", "podgroups") => Arc::new(gang::PodGroup),
        ("storage.k8s.io", "storageclasses") => Arc::new(volume::StorageClass),
        ("storage.k8s.io", _) => Arc::new(SimpleStrategy { returns_deleted: true, ..SIMPLE }),
        ("resource.k8s.io", "resourceclaims") => Arc::new(device::ResourceClaim),
        ("resource.k8s.io", "resourceclaimtemplates") => Arc::new(device::ResourceClaimTemplate),
        ("resource.k8s.io", "deviceclasses") => Arc::new(device::DeviceClass),
        ("resource.k8s.io", "resourceslices") => Arc::new(device::ResourceSlice),
        ("rbac.authorization.k8s.io", _) => Arc::new(rbac::Rbac),
        ("node.k8s.io", "runtimeclasses") => Arc::new(runtime_class::RuntimeClass),
        ("networking.k8s.io", "ingresses") => Arc::new(ingress::Ingress),
        ("networking.k8s.io", "networkpolicies") => Arc::new(network_policy::NetworkPolicy),
        ("networking.k8s.io", "ipaddresses") => Arc::new(ip_address::IpAddress),
        ("policy", "poddisruptionbudgets") => Arc::new(disruption_budget::DisruptionBudget),
        ("discovery.k8s.io", "endpointslices") => Arc::new(endpoint_slice::EndpointSlice),
        ("apiextensions.k8s.io", "customresourcedefinitions") => Arc::new(crate::crds::strategy::CrdStrategy),
        ("networking.k8s.io" | "policy" | "discovery.k8s.io", _) => {
            Arc::new(SimpleStrategy { generation: GenerationRule::AllButStatus, ..SIMPLE })
        }
        ("admissionregistration.k8s.io", _) => {
            Arc::new(SimpleStrategy { generation: GenerationRule::AllButStatus, ..SIMPLE })
        }
        _ => Arc::new(DefaultStrategy),
    }
}

fn templated(
    template: &'static [&'static str],
    selects: bool,
    generation: GenerationRule,
    status: bool,
) -> Arc<dyn ResourceStrategy> {
    Arc::new(template::TemplateStrategy { template, selects, generation, status })
}

#[derive(Debug, Clone, Copy)]
pub struct DefaultStrategy;

impl ResourceStrategy for DefaultStrategy {}

#[must_use]
pub fn with_api_version(tree: &Tree, api_version: &Text) -> Tree {
    if tree.str_at(&["apiVersion"]) == api_version.as_str() {
        return tree.clone();
    }
    tree.with_key("apiVersion", Tree::from(api_version))
}

/// The value at a dotted path, as field selectors compare it.
#[must_use]
pub fn field_text(tree: &Tree, path: &str) -> String {
    let value = path.split('.').try_fold(tree, |tree, key| tree.get(key));
    match value {
        Some(Tree::Text(text)) => text.to_string(),
        None | Some(Tree::Null) => String::new(),
        Some(other) => other.to_json(),
    }
}
