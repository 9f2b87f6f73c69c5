//! What is read of flavors, checks, classes of priority and topologies.

use muster_tree::{Text, Tree};

use super::condition::{self, Condition};
use super::paths::{check, flavor as path, priority_class, topology, topology_level};
use super::texts;
use super::words::conditions;
use crate::meta;
use crate::port::Uid;

/// What is read of a ResourceFlavor.
#[derive(Debug, Clone, PartialEq)]
pub struct FlavorFacts {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Finalizers.
    pub finalizers: Vec<Text>,
    /// Labels of its nodes, sorted.
    pub labels: Vec<(Text, Text)>,
    /// Taints of its nodes, as written; read by [`crate::node::read_taint`].
    pub taints: Vec<Tree>,
    /// Tolerations that its pods get, as written; read by [`crate::toleration::Toleration::of`].
    pub tolerations: Vec<Tree>,
    /// How its nodes lie to each other; empty when that does not matter.
    pub topology: Text,
}

impl FlavorFacts {
    /// Reads a ResourceFlavor.
    #[must_use]
    pub fn of(tree: &Tree) -> FlavorFacts {
        let labels = tree.entries_at(path::LABELS).iter();
        FlavorFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            deleting: meta::deleting(tree).is_some(),
            finalizers: texts(tree.items_at(crate::paths::meta::FINALIZERS)),
            labels: labels.filter_map(|(key, it)| Some((key.clone(), it.as_text()?.clone()))).collect(),
            taints: tree.items_at(path::TAINTS).to_vec(),
            tolerations: tree.items_at(path::TOLERATIONS).to_vec(),
            topology: tree.text_at(path::TOPOLOGY),
        }
    }
}

/// What is read of an AdmissionCheck.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckFacts {
    /// Name.
    pub name: Text,
    /// UID.
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Who decides.
    pub controller: Text,
    /// Whether that one is there.
    pub active: bool,
}

impl CheckFacts {
    /// Reads an AdmissionCheck.
    #[must_use]
    pub fn of(tree: &Tree) -> CheckFacts {
        let found: Vec<Condition> = tree.items_at(check::CONDITIONS).iter().map(Condition::of).collect();
        CheckFacts {
            name: meta::name(tree),
            uid: meta::uid(tree),
            deleting: meta::deleting(tree).is_some(),
            controller: tree.text_at(check::CONTROLLER),
            active: condition::holds(&found, conditions::ACTIVE),
        }
    }
}

/// What is read of a WorkloadPriorityClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorityClassFacts {
    /// Name.
    pub name: Text,
    /// Priority.
    pub value: i64,
}

impl PriorityClassFacts {
    /// Reads a WorkloadPriorityClass.
    #[must_use]
    pub fn of(tree: &Tree) -> PriorityClassFacts {
        PriorityClassFacts { name: meta::name(tree), value: tree.int_at(priority_class::VALUE).unwrap_or(0) }
    }
}

/// What is read of a Topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyFacts {
    /// Name.
    pub name: Text,
    /// The labels whose values are the domains, the widest first.
    pub levels: Vec<Text>,
}

impl TopologyFacts {
    /// Reads a Topology.
    #[must_use]
    pub fn of(tree: &Tree) -> TopologyFacts {
        let levels = tree.items_at(topology::LEVELS).iter();
        TopologyFacts {
            name: meta::name(tree),
            levels: levels.map(|it| it.text_at(topology_level::LABEL)).collect(),
        }
    }
}
