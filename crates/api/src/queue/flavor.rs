//! Typed views of ResourceFlavors, AdmissionChecks, WorkloadPriorityClasses and Topologies.

use muster_tree::{Text, Tree};

use super::condition::{self, Condition};
use super::consts::conditions;
use super::paths::{check, flavor as path, priority_class, topology, topology_level};
use super::texts;
use crate::client::Uid;
use crate::meta;

/// The fields of a ResourceFlavor that the queue engine reads.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "fields mirror metadata and spec of a ResourceFlavor")]
pub struct FlavorFacts {
    pub name: Text,
    pub uid: Uid,
    pub deleting: bool,
    pub finalizers: Vec<Text>,
    /// `nodeLabels`, sorted by key.
    pub labels: Vec<(Text, Text)>,
    /// `nodeTaints`, as written; read by [`crate::node::read_taint`].
    pub taints: Vec<Tree>,
    /// `tolerations` that pods get, as written; read by [`crate::toleration::Toleration::of`].
    pub tolerations: Vec<Tree>,
    /// `topologyName`; empty without topology-aware scheduling.
    pub topology: Text,
}

impl FlavorFacts {
    /// Reads a ResourceFlavor in the storage version.
    #[must_use]
    pub fn of(tree: &Tree) -> FlavorFacts {
        let labels = tree.entries_at(path::LABELS).iter();
        FlavorFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            deleting: meta::deletion_timestamp(tree).is_some(),
            finalizers: texts(tree.items_at(crate::paths::meta::FINALIZERS)),
            labels: labels.filter_map(|(key, it)| Some((key.clone(), it.as_text()?.clone()))).collect(),
            taints: tree.items_at(path::TAINTS).to_vec(),
            tolerations: tree.items_at(path::TOLERATIONS).to_vec(),
            topology: tree.text_at(path::TOPOLOGY),
        }
    }
}

/// The fields of an AdmissionCheck that the queue engine reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror metadata, spec and status of an AdmissionCheck")]
pub struct AdmissionCheckFacts {
    pub name: Text,
    pub uid: Uid,
    pub deleting: bool,
    /// `controllerName`: the controller that sets the state of the check.
    pub controller: Text,
    /// The `Active` condition: that controller is running.
    pub active: bool,
}

impl AdmissionCheckFacts {
    /// Reads an AdmissionCheck in the storage version.
    #[must_use]
    pub fn of(tree: &Tree) -> AdmissionCheckFacts {
        let found: Vec<Condition> = tree.items_at(check::CONDITIONS).iter().map(Condition::of).collect();
        AdmissionCheckFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            deleting: meta::deletion_timestamp(tree).is_some(),
            controller: tree.text_at(check::CONTROLLER),
            active: condition::holds(&found, conditions::ACTIVE),
        }
    }
}

/// The fields of a WorkloadPriorityClass.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields mirror metadata and value of a WorkloadPriorityClass")]
pub struct PriorityClassFacts {
    pub name: Text,
    pub value: i64,
}

impl PriorityClassFacts {
    /// Reads a WorkloadPriorityClass in the storage version.
    #[must_use]
    pub fn of(tree: &Tree) -> PriorityClassFacts {
        PriorityClassFacts { name: meta::name(tree), value: tree.int_at(priority_class::VALUE).unwrap_or(0) }
    }
}

/// The fields of a Topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyFacts {
    /// Name of the Topology.
    pub name: Text,
    /// Node label of each level, the widest domain first.
    pub levels: Vec<Text>,
}

impl TopologyFacts {
    /// Reads a Topology in the storage version.
    #[must_use]
    pub fn of(tree: &Tree) -> TopologyFacts {
        let levels = tree.items_at(topology::LEVELS).iter();
        TopologyFacts {
            name: meta::name(tree),
            levels: levels.map(|it| it.text_at(topology_level::LABEL)).collect(),
        }
    }
}
