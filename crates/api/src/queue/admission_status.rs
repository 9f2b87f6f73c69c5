//! The part of a Workload's status that the field manager of admission owns.
//!
//! # Guarantees
//!
//! - [`AdmissionStatus::body`] contains every owned field: server-side apply removes an owned field that is left out. To
//!   change one field, read the others from the object and send its resource version as a precondition.
//! - Conditions of other field managers are never included.

use muster_tree::{Text, Tree, tree};

use super::condition::{self, Condition};
use super::consts::{API_VERSION, WORKLOAD, conditions};
use super::paths::{request, workload as workload_path, workload_status as path};
use super::workload_status::{Admission, AdmissionCheckState, EvictionCount, RequeueState};
use super::{Amounts, amounts_of, amounts_tree, count};
use crate::meta;

/// The fields of a Workload's status that the field manager of admission owns.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror status of a Workload")]
pub struct AdmissionStatus {
    pub namespace: Text,
    pub name: Text,
    /// Conditions of the types in [`conditions::OF_ADMISSION`].
    pub conditions: Vec<Condition>,
    pub admission: Option<Admission>,
    pub requeue: Option<RequeueState>,
    pub checks: Vec<AdmissionCheckState>,
    /// `resourceRequests`; written only while no quota is reserved.
    pub requests: Vec<(Text, Amounts)>,
    pub accumulated_secs: Option<u32>,
    pub evictions: Vec<EvictionCount>,
    pub nominated_clusters: Vec<Text>,
    /// `clusterName` (MultiKueue); empty without one.
    pub cluster: Text,
    pub unhealthy_nodes: Vec<Tree>,
}

impl AdmissionStatus {
    /// Reads it from a Workload.
    #[must_use]
    pub fn of(workload: &Tree) -> AdmissionStatus {
        let none = Tree::Null;
        let status = workload.at(workload_path::STATUS).unwrap_or(&none);
        let conditions = status.items_at(path::CONDITIONS).iter().map(Condition::of);
        let requests = status.items_at(path::REQUESTS).iter();
        AdmissionStatus {
            namespace: meta::namespace(workload),
            name: meta::name(workload),
            conditions: conditions
                .filter(|it| conditions::OF_ADMISSION.contains(&it.kind.as_str()))
                .collect(),
            admission: status.at(path::ADMISSION).filter(|it| it.is_map()).map(Admission::of),
            requeue: status.at(path::REQUEUE).filter(|it| it.is_map()).map(RequeueState::of),
            checks: status.items_at(path::CHECKS).iter().map(AdmissionCheckState::of).collect(),
            requests: requests
                .map(|it| (it.text_at(request::NAME), amounts_of(it.at(request::RESOURCES))))
                .collect(),
            accumulated_secs: count(status, path::ACCUMULATED),
            evictions: status.items_at(path::EVICTIONS).iter().map(EvictionCount::of).collect(),
            nominated_clusters: super::texts(status.items_at(path::NOMINATED_CLUSTERS)),
            cluster: status.text_at(path::CLUSTER),
            unhealthy_nodes: status.items_at(path::UNHEALTHY_NODES).to_vec(),
        }
    }

    /// Sets a condition; its time changes only with its status. Returns whether something changed.
    pub fn set(&mut self, condition: Condition) -> bool {
        condition::set(&mut self.conditions, condition)
    }

    /// Takes a condition away. Returns whether it was there.
    pub fn remove(&mut self, kind: &str) -> bool {
        condition::remove(&mut self.conditions, kind)
    }

    /// Whether a condition holds.
    #[must_use]
    pub fn holds(&self, kind: &str) -> bool {
        condition::holds(&self.conditions, kind)
    }

    /// The status to apply as [`managers::ADMISSION`](super::consts::managers::ADMISSION), with `force`.
    #[must_use]
    pub fn body(&self) -> Tree {
        tree!({"apiVersion": API_VERSION, "kind": WORKLOAD,
            "metadata": {"name": &self.name, "namespace": &self.namespace}, "status": (self.tree())})
    }

    fn tree(&self) -> Tree {
        let list = |items: Vec<Tree>| (!items.is_empty()).then(|| Tree::list(items));
        // What it was given says what it asks for.
        let requests: &[_] = if self.admission.is_some() { &[] } else { &self.requests };
        let request =
            |(name, amounts): &(Text, Amounts)| tree!({"name": name, "resources": amounts_tree(amounts)});
        let cluster = (!self.cluster.is_empty()).then(|| Tree::from(&self.cluster));
        Tree::empty_map()
            .with_option(path::CONDITIONS, list(self.conditions.iter().map(Condition::tree).collect()))
            .with_option(path::ADMISSION, self.admission.as_ref().map(Admission::tree))
            .with_option(path::REQUEUE, self.requeue.as_ref().map(RequeueState::tree))
            .with_option(path::CHECKS, list(self.checks.iter().map(AdmissionCheckState::tree).collect()))
            .with_option(path::REQUESTS, list(requests.iter().map(request).collect()))
            .with_option(path::ACCUMULATED, self.accumulated_secs.map(Tree::from))
            .with_option(path::EVICTIONS, list(self.evictions.iter().map(EvictionCount::tree).collect()))
            .with_option(
                path::NOMINATED_CLUSTERS,
                list(self.nominated_clusters.iter().map(Tree::from).collect()),
            )
            .with_option(path::CLUSTER, cluster)
            .with_option(path::UNHEALTHY_NODES, list(self.unhealthy_nodes.clone()))
    }
}
