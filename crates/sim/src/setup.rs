//! What a world begins with: the settings of its controllers, its nodes, and the objects that its server ships.

use std::sync::Arc;

use muster_api::gang_make::Gangs;
use muster_apiserver::http::identity::{ADMIN_USER, MASTERS};
use muster_apiserver::request::User;
use muster_control::jobsets::Gates;
use muster_control::queueing;
use muster_control::training;
use muster_node::SimNodes;
use muster_node::plane::{self, Train};
use muster_queue::jobs::ancestors::Managed;
use muster_queue::kinds::config;
use muster_trainer::kinds::shipped::{VERSION, WITH_CACHE, public, shipped};
use muster_tree::{Tree, tree};

use crate::chance::Dice;

/// The mark of simulated nodes.
pub(crate) const MARK: &str = "sim";
/// The namespace in which `muster up` runs queues.
const OWN_NAMESPACE: &str = "muster-system";
/// The namespace of the objects that Trainer's clients read.
const TRAINING_NAMESPACE: &str = "kubeflow-system";
/// How many TrainJobs `muster up` deletes at once.
const DELETIONS_MAX: usize = 100;
/// What namespaces publish as the certificate of the server's authority.
const ROOT_CA: &str = "simulated";

/// What a world begins with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The settings of its controllers.
    pub told: plane::Told,
    /// Its nodes.
    pub nodes: Fleet,
    /// Objects that its server ships.
    pub shipped: Vec<Tree>,
}

/// Simulated nodes.
#[derive(Debug, Clone)]
pub enum Fleet {
    /// So many equal ones.
    Count(usize),
    /// One for each Node manifest.
    Manifests(Vec<Tree>),
}

impl Fleet {
    pub(crate) fn simulated(&self) -> SimNodes {
        match self {
            Fleet::Count(count) => SimNodes::count(*count, MARK),
            Fleet::Manifests(manifests) => SimNodes::of(manifests.clone(), MARK),
        }
    }
}

impl Setup {
    /// As `muster up` begins when nothing is configured but its nodes and these feature gates of JobSets.
    ///
    /// `crates/muster` wires the same parts from its configuration. Scenarios that are played on both notice where one of
    /// them has another default.
    #[must_use]
    pub fn up(seed: u64, nodes: Fleet, jobsets: Gates) -> Setup {
        let settings = training::Settings { deletions_max: DELETIONS_MAX, ..training::Settings::default() };
        let told = plane::Told {
            root_ca: ROOT_CA.into(),
            jobsets,
            gangs: Some(Gangs::default()),
            queues: Some(queues()),
            training: Some(Train { settings, entropy: Arc::new(Dice::new(seed ^ 0x7a11)) }),
            ..plane::Told::default()
        };
        Setup { told, nodes, shipped: runtimes() }
    }
}

fn queues() -> queueing::Settings {
    let of = config::Settings::standard(OWN_NAMESPACE);
    queueing::Settings {
        managed: Managed { enabled: of.frameworks.iter().cloned().collect(), ..Managed::default() },
        namespaces: of.namespaces,
        ..queueing::Settings::default()
    }
}

/// The training runtimes, and the ConfigMap with the version that clients read. The runtime that needs a cache is not shipped.
fn runtimes() -> Vec<Tree> {
    let namespace = tree!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": TRAINING_NAMESPACE}});
    let served = shipped("").into_iter().filter(|it| it.str_at(&["metadata", "name"]) != WITH_CACHE);
    [namespace, public(TRAINING_NAMESPACE, VERSION)].into_iter().chain(served).collect()
}

/// The user that `muster up` writes into its kubeconfig.
#[must_use]
pub fn administrator() -> User {
    User { name: ADMIN_USER.into(), groups: vec![MASTERS.into()], ..User::default() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::faults::Faults;
    use crate::{Raw, World};

    fn listed(world: &mut World, path: &str) -> Vec<Tree> {
        let raw = Raw { method: "GET", path, user: administrator(), ..Raw::default() };
        let answered = world.request(&raw);
        assert_eq!(answered.code, 200, "{path}");
        answered.body.items_at(&["items"]).to_vec()
    }

    #[test]
    fn a_world_begins_as_muster_up_does_and_more_nodes_join() {
        let mut world = World::begin(1, Setup::up(1, Fleet::Count(2), Gates::default()));
        world.run(Faults::none(), Duration::from_secs(5));
        let runtimes = listed(&mut world, "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes");
        assert!(runtimes.iter().all(|it| it.str_at(&["metadata", "name"]) != WITH_CACHE));
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
