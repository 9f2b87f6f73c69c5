//! The kinds of queueing, in the version in which they are stored and read.

use muster_tree::literal;

use crate::port::Kind;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $plural:literal $word:literal $scope:ident;)+) => {
        $( $(#[$doc])* pub static $name: Kind = Kind {
            group: literal!("kueue.x-k8s.io"),
            version: literal!("v1beta2"),
            plural: literal!($plural),
        }; )+

        /// All of them: the kind, its word, and where its objects live.
        #[must_use]
        pub fn all() -> Vec<(&'static Kind, &'static str, Scope)> {
            vec![$((&$name, $word, Scope::$scope)),+]
        }
    };
}

/// Where objects of a kind live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// In the cluster as a whole.
    Cluster,
    /// In namespaces.
    Namespaced,
}

kinds! {
    /// Kinds of machines.
    RESOURCE_FLAVORS = "resourceflavors" "ResourceFlavor" Cluster;
    /// Queues with quota.
    CLUSTER_QUEUES = "clusterqueues" "ClusterQueue" Cluster;
    /// Queues that users name.
    LOCAL_QUEUES = "localqueues" "LocalQueue" Namespaced;
    /// Queues that lend to each other.
    COHORTS = "cohorts" "Cohort" Cluster;
    /// What waits in queues; not what a scheduler calls a Workload.
    WORKLOADS = "workloads" "Workload" Namespaced;
    /// Classes of priority in queues.
    PRIORITY_CLASSES = "workloadpriorityclasses" "WorkloadPriorityClass" Cluster;
    /// What else must agree.
    ADMISSION_CHECKS = "admissionchecks" "AdmissionCheck" Cluster;
    /// How machines lie to each other.
    TOPOLOGIES = "topologies" "Topology" Cluster;
}
