//! The kinds of training.

use muster_tree::literal;

use crate::port::Kind;
pub use crate::queue::kinds::Scope;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $plural:literal $word:literal $scope:ident;)+) => {
        $( $(#[$doc])* pub static $name: Kind = Kind {
            group: literal!("trainer.kubeflow.org"),
            version: literal!("v1alpha1"),
            plural: literal!($plural),
        }; )+

        /// All of them: the kind, its word, and where its objects live.
        #[must_use]
        pub fn all() -> Vec<(&'static Kind, &'static str, Scope)> {
            vec![$((&$name, $word, Scope::$scope)),+]
        }
    };
}

kinds! {
    /// Training, as users ask for it.
    TRAIN_JOBS = "trainjobs" "TrainJob" Namespaced;
    /// What training is made of, for one namespace.
    TRAINING_RUNTIMES = "trainingruntimes" "TrainingRuntime" Namespaced;
    /// The same, for all namespaces.
    CLUSTER_TRAINING_RUNTIMES = "clustertrainingruntimes" "ClusterTrainingRuntime" Cluster;
}
