//! Requests that quota does not support: such a Workload is put on hold with the reason.

use std::fmt;

use muster_api::meta;
use muster_api::paths::pod;
use muster_api::queue::PodSet;
use muster_api::queue::consts::annotations;
use muster_tree::Text;

/// Annotations that request a topology.
const TOPOLOGY: [&str; 4] = [
    annotations::TOPOLOGY_REQUIRED,
    annotations::TOPOLOGY_PREFERRED,
    annotations::TOPOLOGY_UNCONSTRAINED,
    annotations::SLICE_REQUIRED,
];

/// An unsupported request of a pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsupportedRequest {
    /// `topologyRequest` or a topology annotation.
    Topology {
        set: Text,
    },
    Devices {
        set: Text,
    },
}

impl fmt::Display for UnsupportedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnsupportedRequest::Topology { set } => write!(
                f,
                "pod set {set} requests a topology: no flavor supports TopologyAwareScheduling; remove the topology annotations"
            ),
            // The message starts as Kueue's with the feature gate off.
            UnsupportedRequest::Devices { set } => write!(
                f,
                "Workload uses DRA resources but the KueueDRAIntegration feature gate is not enabled: pod set {set} has \
                 spec.resourceClaims, which quota does not count"
            ),
        }
    }
}

/// The first unsupported request.
#[must_use]
pub fn unsupported(sets: &[PodSet]) -> Option<UnsupportedRequest> {
    let of_set = |set: &PodSet| {
        let name = set.name.clone();
        let annotated = |key: &&str| meta::annotation(&set.template, key).is_some();
        if !set.topology.is_empty() || TOPOLOGY.iter().any(annotated) {
            return Some(UnsupportedRequest::Topology { set: name });
        }
        let devices = !set.template.items_at(pod::CLAIMS).is_empty();
        devices.then_some(UnsupportedRequest::Devices { set: name })
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
    fn unsupported_requests_are_found() {
        let plain = set(tree!({"metadata": {"annotations": {"a": "b"}}, "spec": {"containers": []}}));
        let rack = tree!({"metadata": {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}});
        let requested = PodSet { topology: tree!({"preferred": "rack"}), ..plain.clone() };
        let devices =
            tree!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "g"}]}});
        assert_eq!(unsupported(std::slice::from_ref(&plain)), None);
        assert_eq!(
            unsupported(&[plain.clone(), set(rack)]),
            Some(UnsupportedRequest::Topology { set: "main".into() })
        );
        assert_eq!(unsupported(&[requested]), Some(UnsupportedRequest::Topology { set: "main".into() }));
        assert_eq!(unsupported(&[set(devices)]), Some(UnsupportedRequest::Devices { set: "main".into() }));
    }
}
