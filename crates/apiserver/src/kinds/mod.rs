//! What kinds do differently from the generic rule: one small file each.
//!
//! The engine asks a [`Strategy`] at fixed points of a write. Every method has the generic rule as its default, so
//! a kind's file holds only what is special about it.
//!
//! # Invariants
//!
//! - A strategy sees objects in their storage version, after structural defaulting.
//! - It is a function of its arguments: lookups, time and chance come in through [`Cx`].

mod affinity_check;
mod at;
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
mod gang;
mod gang_check;
mod gang_convert;
mod gang_gate;
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
pub(crate) mod shown;
mod template;
mod volume;
mod volume_check;

use std::fmt::Debug;
use std::sync::Arc;

use muster_api::port::Kind;
use muster_api::ports::Entropy;
use muster_api::time::Time;
use muster_schema::error::FieldError;
use muster_store::{Key, Object};
use muster_tree::{Text, Tree};

pub use self::gang_gate::Gangs;
pub(crate) use self::pod::quality;
use self::template::{SIMPLE, Simple};
use crate::registry::Resource;
use crate::request::User;
use crate::status::Status;

/// Looks at other objects.
pub trait Look {
    /// The newest state of an object.
    fn newest(&self, key: &Key) -> Option<Object>;

    /// Everything stored under a resource's storage name.
    fn all(&self, storage: &str) -> Vec<Object>;

    /// Everything stored in one namespace under a resource's storage name.
    fn in_namespace(&self, storage: &str, namespace: &Text) -> Vec<Object>;

    /// Of those the ones whose names begin so.
    fn named(&self, storage: &str, namespace: &Text, beginning: &str) -> Vec<Object>;

    /// What validation finds wrong with a new object of this kind. Admission is not asked, and nothing is stored.
    ///
    /// # Errors
    /// The kind is not served, or the object is none of this kind.
    fn validate_new(&self, kind: &Kind, object: &Tree) -> Result<Errors, Status>;

    /// Takes the wanted or any free service address; `None` when it is taken, out of range, or none is left.
    fn take_service_ip(&self, wanted: Option<&str>) -> Option<String>;
}

/// What a strategy may look at besides the object.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// Place of the version the request came through.
    pub version: usize,
    /// The subresource written through; empty for the object itself.
    pub subresource: &'a str,
    /// The instant of the request.
    pub now: Time,
    /// Chance.
    pub entropy: &'a dyn Entropy,
    /// Other objects.
    pub look: &'a dyn Look,
    /// Who asks.
    pub user: &'a User,
}

/// The errors found so far.
pub type Errors = Vec<FieldError>;

/// What names of a kind may look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// At most 253 bytes: labels joined by dots.
    Subdomain,
    /// At most 63 bytes of lower-case letters, digits and `-`.
    Label,
    /// Anything that can stand in a path.
    PathSegment,
}

/// What counts as a change of the desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The kind has no generation.
    None,
    /// `spec`.
    Spec,
    /// Everything but `metadata` and `status`.
    AllButStatus,
    /// Everything but `metadata`.
    AllButMeta,
}

/// How dependents fare when the client does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They go afterwards.
    Background,
    /// They stay.
    Orphan,
}

/// What a kind does differently.
pub trait Strategy: Debug + Send + Sync {
    /// What names may look like.
    fn name_rule(&self) -> NameRule {
        NameRule::Subdomain
    }

    /// Values that depend on what the client left out, before the schema's defaults fill it in. Wire form.
    fn default_first(&self, tree: Tree) -> Tree {
        tree
    }

    /// Values that stand in for absent ones and that no schema can say. Storage form.
    fn default(&self, tree: Tree) -> Tree {
        tree
    }

    /// Last changes before a create is validated.
    ///
    /// # Errors
    /// A refusal that is not about a field, e.g. that addresses have run out.
    fn prepare_create(&self, tree: Tree, _cx: &Cx<'_>) -> Result<Tree, Status> {
        Ok(tree)
    }

    /// Last changes before an update of the object itself is validated. `status` has been put back already.
    ///
    /// # Errors
    /// A refusal that is not about a field.
    fn prepare_update(&self, new: Tree, _old: &Tree, _cx: &Cx<'_>) -> Result<Tree, Status> {
        Ok(new)
    }

    /// Last changes before an update of a subresource is validated. Everything but `status` and `metadata` has been
    /// put back already.
    fn prepare_status(&self, new: Tree, _old: &Tree, _cx: &Cx<'_>) -> Tree {
        new
    }

    /// What is wrong with a new object.
    fn validate_create(&self, _new: &Tree, _cx: &Cx<'_>, _errors: &mut Errors) {}

    /// What is wrong with an update.
    fn validate_update(&self, _new: &Tree, _old: &Tree, _cx: &Cx<'_>, _errors: &mut Errors) {}

    /// What is wrong with an update of the status.
    fn validate_status(&self, _new: &Tree, _old: &Tree, _cx: &Cx<'_>, _errors: &mut Errors) {}

    /// What the client should hear besides the answer.
    fn warnings(&self, _new: &Tree, _old: Option<&Tree>) -> Vec<String> {
        Vec::new()
    }

    /// Whether an update of a missing object creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update may leave out `metadata.resourceVersion`.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Whether creating is refused, e.g. because the definition of a custom resource is being deleted.
    fn refuses_creates(&self) -> bool {
        false
    }

    /// Whether a client may set the status of a new object although it has an endpoint of its own.
    fn keeps_status_on_create(&self) -> bool {
        false
    }

    /// Whether something besides `metadata.finalizers` keeps an object that is being deleted.
    fn is_kept(&self, _tree: &Tree) -> bool {
        false
    }

    /// The object as it looks when its deletion begins, for kinds that have a way of their own.
    fn doom(&self, _tree: &Tree, _now: Time) -> Option<Tree> {
        None
    }

    /// Seconds between the request to delete and the end; `None` for kinds without grace.
    fn grace(&self, _tree: &Tree, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// How dependents fare when the client does not say.
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// Whether a delete answers with the last state instead of a `Status`.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// Fields that selectors may name besides name and namespace.
    fn selectable_fields(&self) -> &'static [&'static str] {
        &[]
    }

    /// The value of a selectable field as text.
    fn field(&self, tree: &Tree, path: &str) -> String {
        field_text(tree, path)
    }

    /// What counts as a change of the desired state.
    fn generation(&self) -> Generation {
        Generation::None
    }

    /// Whether the endpoint of `status` leaves labels, annotations and the rest of `metadata` alone.
    fn status_keeps_metadata(&self) -> bool {
        false
    }

    /// From the storage version to the version at `version`.
    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        with_api_version(tree, &resource.api_version(version))
    }

    /// From the version at `version` to the storage version.
    fn to_storage(&self, resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        with_api_version(tree, &resource.storage_api_version())
    }

    /// The (storage) tree of an update that came in the version at `version`, with what that version has no words for as
    /// it is in `old`.
    fn unsaid(&self, _resource: &Resource, new: Tree, _old: &Tree, _version: usize) -> Tree {
        new
    }

    /// Whether [`Strategy::to_wire`] shows the empty values that Go always writes, so that the stored form is free of
    /// them.
    fn wire_has_zeros(&self, _resource: &Resource, _version: usize) -> bool {
        false
    }

    /// What is left of a (storage) tree, written in the version at `version`, once it is stored: the stored version of
    /// a custom resource may not know all that another one has.
    fn kept(&self, _resource: &Resource, tree: &Tree, _version: usize) -> Tree {
        tree.clone()
    }

    /// The spec of the definition that a custom resource was made of, and whether it is being deleted.
    fn definition(&self) -> Option<(&Tree, bool)> {
        None
    }

    /// Checks by schema and rules of a custom resource, in the version at `version`.
    fn validate_custom(&self, _version: usize, _new: &Tree, _old: Option<&Tree>, _errors: &mut Errors) {}
}

/// What a built-in kind does differently.
#[must_use]
pub fn strategy(group: &str, plural: &str) -> Arc<dyn Strategy> {
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
        ("", "podtemplates") => templated(&["template"], false, Generation::AllButMeta, false),
        ("", "replicationcontrollers") => Arc::new(replication_controller::ReplicationController),
        ("", "resourcequotas") => Arc::new(resource_quota::ResourceQuota),
        ("", "serviceaccounts") => Arc::new(Simple { returns_deleted: true, ..SIMPLE }),
        ("", "limitranges") => Arc::new(limits::LimitRange),
        ("", "endpoints") => Arc::new(Simple { create_on_update: true, ..SIMPLE }),
        ("batch", "jobs") => Arc::new(job::Job),
        ("batch", "cronjobs") => Arc::new(cronjob::CronJob),
        ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets") => {
            templated(&["spec", "template"], true, Generation::Spec, true)
        }
        ("coordination.k8s.io", "leases") => Arc::new(node::Lease),
        ("coordination.k8s.io", "leasecandidates") => Arc::new(Simple { create_on_update: true, ..SIMPLE }),
        ("scheduling.k8s.io", "priorityclasses") => Arc::new(node::PriorityClass),
        ("scheduling.k8s.io", "workloads") => Arc::new(gang::Workload),
        ("scheduling.k8s.io", "podgroups") => Arc::new(gang::PodGroup),
        ("storage.k8s.io", "storageclasses") => Arc::new(volume::StorageClass),
        ("storage.k8s.io", _) => Arc::new(Simple { returns_deleted: true, ..SIMPLE }),
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
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            Arc::new(crate::crds::definition::Definition)
        }
        ("networking.k8s.io" | "policy" | "discovery.k8s.io", _) => {
            Arc::new(Simple { generation: Generation::AllButStatus, ..SIMPLE })
        }
        ("admissionregistration.k8s.io", _) => {
            Arc::new(Simple { generation: Generation::AllButStatus, ..SIMPLE })
        }
        _ => Arc::new(Plain),
    }
}

fn templated(
    template: &'static [&'static str],
    selects: bool,
    generation: Generation,
    status: bool,
) -> Arc<dyn Strategy> {
    Arc::new(template::Templated { template, selects, generation, status })
}

/// The generic rule, unchanged.
#[derive(Debug, Clone, Copy)]
pub struct Plain;

impl Strategy for Plain {}

/// The same object under another `apiVersion`.
#[must_use]
pub fn with_api_version(tree: &Tree, api_version: &Text) -> Tree {
    if tree.str_at(&["apiVersion"]) == api_version.as_str() {
        return tree.clone();
    }
    tree.with_key("apiVersion", Tree::from(api_version))
}

/// The value at a dotted path as selectors compare it.
#[must_use]
pub fn field_text(tree: &Tree, path: &str) -> String {
    let value = path.split('.').try_fold(tree, |tree, key| tree.get(key));
    match value {
        Some(Tree::Text(text)) => text.to_string(),
        None | Some(Tree::Null) => String::new(),
        Some(other) => other.to_json(),
    }
}
