//! Requests of pods that quota cannot account for yet: a Workload with one is held, and its condition says why.

use std::fmt;

use muster_api::meta;
use muster_api::paths::pod;
use muster_api::queue::PodSet;
use muster_api::queue::words::annotations;
use muster_tree::Text;

/// The annotations of a pod that ask for a place in a topology.
const TOPOLOGY: [&str; 4] = [
    annotations::TOPOLOGY_REQUIRED,
    annotations::TOPOLOGY_PREFERRED,
    annotations::TOPOLOGY_UNCONSTRAINED,
    annotations::SLICE_REQUIRED,
];

/// What a pod set asks for and no ClusterQueue gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsupported {
    /// A place in a topology (`topologyRequest`, or an annotation of the pods).
    Topology {
        /// The pod set.
        set: Text,
    },
    /// Devices (`spec.resourceClaims` of the pods).
    Devices {
        /// The pod set.
        set: Text,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unsupported::Topology { set } => write!(
                f,
                "pod set {set} requests a topology: no flavor supports TopologyAwareScheduling; remove the topology annotations"
            ),
            // With the feature gate off, Kueue begins with these very words.
            Unsupported::Devices { set } => write!(
                f,
                "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled: pod set {set} has \
                 spec.resourceClaims, which quota does not count"
            ),
        }
    }
}

/// The first request that quota cannot account for.
#[must_use]
pub fn unsupported(sets: &[PodSet]) -> Option<Unsupported> {
    let of_set = |set: &PodSet| {
        let name = set.name.clone();
        let asked = |key: &&str| meta::annotation(&set.template, key).is_some();
        if !set.topology.is_empty() || TOPOLOGY.iter().any(asked) {
            return Some(Unsupported::Topology { set: name });
        }
        let devices = !set.template.items_at(pod::CLAIMS).is_empty();
        devices.then_some(Unsupported::Devices { set: name })
    };
    sets.iter().find_map(of_set)
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::*;

    fn set(template: Tree) -> PodSet {
        PodSet { name: "main".into(), template, count: 1, min_count: None, topology: Tree::Null }
    }

    #[test]
    fn requests_without_an_account_are_found() {
        let plain = set(tree!({"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": []}}));
        let rack = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}});
        let requested = PodSet { topology: tree!({"preferred": "rack"}), ..plain.clone() };
        let devices =
            tree!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "g"}]}});
        assert_eq!(unsupported(std::slice::from_ref(&plain)), None);
        assert_eq!(
            unsupported(&[plain.clone(), set(rack)]),
            Some(Unsupported::Topology { set: "main".into() })
        );
        assert_eq!(unsupported(&[requested]), Some(Unsupported::Topology { set: "main".into() }));
        assert_eq!(unsupported(&[set(devices)]), Some(Unsupported::Devices { set: "main".into() }));
    }
}
