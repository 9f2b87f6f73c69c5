//! The initial state of a world: controller settings, nodes, and bundled manifests.

use std::sync::Arc;

use muster_api::gang_objects::GangSupport;
use muster_apiserver::http::identity::{ADMIN_USER, MASTERS};
use muster_apiserver::request::UserInfo;
use muster_control::jobsets::FeatureGates;
use muster_control::queueing;
use muster_control::training;
use muster_node::SimulatedNodes;
use muster_node::control_plane::{self, TrainingOptions};
use muster_queue::jobs::owner_chain::ManagedKinds;
use muster_queue::kinds::config;
use muster_trainer::kinds::bundled_runtimes::{
    DATA_CACHE_RUNTIME, VERSION, bundled_runtimes, version_config_map,
};
use muster_tree::{Tree, tree};

use crate::rng::SeededRng;

/// The provider mark of simulated nodes.
pub(crate) const MARK: &str = "sim";
/// The namespace in which `muster up` runs queues.
const OWN_NAMESPACE: &str = "muster-system";
/// The namespace of the objects that Trainer's clients read.
const TRAINING_NAMESPACE: &str = "kubeflow-system";
/// Parallel TrainJob deletions of `muster up`.
const DELETIONS_MAX: usize = 100;
/// The CA certificate that namespaces publish.
const ROOT_CA: &str = "simulated";

/// The initial state of a world.
#[derive(Debug, Clone)]
pub struct Setup {
    pub told: control_plane::ControllerOptions,
    pub nodes: NodeFleet,
    pub shipped: Vec<Tree>,
}

#[derive(Debug, Clone)]
pub enum NodeFleet {
    /// This many equal nodes.
    Count(usize),
    /// One node per manifest.
    Manifests(Vec<Tree>),
}

impl NodeFleet {
    pub(crate) fn simulated(&self) -> SimulatedNodes {
        match self {
            NodeFleet::Count(count) => SimulatedNodes::count(*count, MARK),
            NodeFleet::Manifests(manifests) => SimulatedNodes::of(manifests.clone(), MARK),
        }
    }
}

impl Setup {
    /// The defaults of `muster up`, with these nodes and JobSet feature gates.
    ///
    /// `crates/muster` wires the same parts from its configuration. Scenarios that run on both detect a different default.
    #[must_use]
    pub fn up(seed: u64, nodes: NodeFleet, jobsets: FeatureGates) -> Setup {
        let settings = training::TrainJobControllerConfig {
            deletions_max: DELETIONS_MAX,
            ..training::TrainJobControllerConfig::default()
        };
        let told = control_plane::ControllerOptions {
            root_ca: ROOT_CA.into(),
            jobsets,
            gangs: Some(GangSupport::default()),
            queues: Some(queues()),
            training: Some(TrainingOptions { settings, entropy: Arc::new(SeededRng::new(seed ^ 0x7a11)) }),
            ..control_plane::ControllerOptions::default()
        };
        Setup { told, nodes, shipped: runtimes() }
    }
}

fn queues() -> queueing::QueueControllerConfig {
    let of = config::QueueConfig::default_for(OWN_NAMESPACE);
    queueing::QueueControllerConfig {
        managed: ManagedKinds { enabled: of.frameworks.iter().cloned().collect(), ..ManagedKinds::default() },
        namespaces: of.namespaces,
        ..queueing::QueueControllerConfig::default()
    }
}

/// The training runtimes, and the ConfigMap with the version that clients read. The runtime that needs a cache is left
/// out.
fn runtimes() -> Vec<Tree> {
    let namespace = tree!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": TRAINING_NAMESPACE}});
    let served =
        bundled_runtimes("").into_iter().filter(|it| it.str_at(&["metadata", "name"]) != DATA_CACHE_RUNTIME);
    [namespace, version_config_map(TRAINING_NAMESPACE, VERSION)].into_iter().chain(served).collect()
}

/// The user in the kubeconfig that `muster up` writes.
#[must_use]
pub fn administrator() -> UserInfo {
    UserInfo { name: ADMIN_USER.into(), groups: vec![MASTERS.into()], ..UserInfo::default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::faults::Faults;
    use crate::{InProcessRequest, World};

    fn listed(world: &mut World, path: &str) -> Vec<Tree> {
        let raw =
            InProcessRequest { method: "GET", path, user: administrator(), ..InProcessRequest::default() };
        let answered = world.request(&raw);
        assert_eq!(answered.code, 200, "{path}");
        answered.body.items_at(&["items"]).to_vec()
    }

    #[test]
    fn a_world_begins_as_muster_up_does_and_more_nodes_join() {
        let mut world = World::from_setup(1, Setup::up(1, NodeFleet::Count(2), FeatureGates::default()));
        world.run(Faults::none(), Duration::from_secs(5));
        let runtimes = listed(&mut world, "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes");
        assert!(runtimes.iter().all(|it| it.str_at(&["metadata", "name"]) != DATA_CACHE_RUNTIME));
        assert!(runtimes.len() > 3, "{} runtimes", runtimes.len());
        for path in ["/apis/kueue.x-k8s.io/v1beta2/clusterqueues", "/apis/jobset.x-k8s.io/v1alpha2/jobsets"] {
            assert!(listed(&mut world, path).is_empty(), "{path}");
        }
        assert_eq!(listed(&mut world, "/api/v1/nodes").len(), 2);
        let room = tree!({"cpu": "1", "memory": "1Gi", "pods": "10"});
        world.add_nodes(vec![tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "later"},
            "status": {"capacity": room.clone(), "allocatable": room}})]);
        world.run(Faults::none(), Duration::from_secs(5));
        let nodes = listed(&mut world, "/api/v1/nodes");
        let is_ready = |node: &Tree| {
            let of = |it: &Tree| it.str_at(&["type"]) == "Ready" && it.str_at(&["status"]) == "True";
            node.items_at(&["status", "conditions"]).iter().any(of)
        };
        assert_eq!(nodes.iter().filter(|node| is_ready(node)).count(), 3);
    }
}
