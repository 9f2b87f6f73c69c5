//! The resources of the Kueue API, in the storage version.

use muster_tree::literal;

use crate::client::Kind;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $plural:literal $word:literal $scope:ident;)+) => {
        $( $(#[$doc])* #[doc = concat!("The resource of kind `", $word, "`.")] pub static $name: Kind = Kind {
            group: literal!("kueue.x-k8s.io"),
            version: literal!("v1beta2"),
            plural: literal!($plural),
        }; )+

        /// Every resource of this API with its kind and scope.
        #[must_use]
        pub fn all() -> Vec<(&'static Kind, &'static str, Scope)> {
            vec![$((&$name, $word, Scope::$scope)),+]
        }
    };
}

/// Scope of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Objects have no namespace.
    Cluster,
    /// Objects live in a namespace.
    Namespaced,
}

kinds! {
    RESOURCE_FLAVORS = "resourceflavors" "ResourceFlavor" Cluster;
    CLUSTER_QUEUES = "clusterqueues" "ClusterQueue" Cluster;
    LOCAL_QUEUES = "localqueues" "LocalQueue" Namespaced;
    COHORTS = "cohorts" "Cohort" Cluster;
    WORKLOADS = "workloads" "Workload" Namespaced;
    PRIORITY_CLASSES = "workloadpriorityclasses" "WorkloadPriorityClass" Cluster;
    ADMISSION_CHECKS = "admissionchecks" "AdmissionCheck" Cluster;
    TOPOLOGIES = "topologies" "Topology" Cluster;
}
