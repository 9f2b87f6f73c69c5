//! The scheduling requirements of a pod. Pods with equal requirements form one equivalence class.

use muster_tree::{Text, Tree};

use crate::label::Labels;
use crate::node_affinity::NodeRequirements;
use crate::pod_affinity::PodRequirements;
use crate::request::PodRequests;

/// Every field of a Pod that filter and score plugins read, claims aside.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SchedulingRequirements {
    pub request: PodRequests,
    pub node: NodeRequirements,
    pub pods: PodRequirements,
}

impl SchedulingRequirements {
    #[must_use]
    pub fn of(tree: &Tree, namespace: &Text, labels: &Labels) -> SchedulingRequirements {
        SchedulingRequirements {
            request: PodRequests::of(tree),
            node: NodeRequirements::of(tree),
            pods: PodRequirements::of(tree, namespace, labels),
        }
    }
}
