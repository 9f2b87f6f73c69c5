//! The resources of the Kubeflow Trainer API.

use muster_tree::literal;

use crate::client::Kind;
pub use crate::queue::kinds::Scope;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $plural:literal $word:literal $scope:ident;)+) => {
        $( $(#[$doc])* #[doc = concat!("The resource of kind `", $word, "`.")] pub static $name: Kind = Kind {
            group: literal!("trainer.kubeflow.org"),
            version: literal!("v1alpha1"),
            plural: literal!($plural),
        }; )+

        /// Every resource of this API with its kind and scope.
        #[must_use]
        pub fn all() -> Vec<(&'static Kind, &'static str, Scope)> {
            vec![$((&$name, $word, Scope::$scope)),+]
        }
    };
}

kinds! {
    TRAIN_JOBS = "trainjobs" "TrainJob" Namespaced;
    TRAINING_RUNTIMES = "trainingruntimes" "TrainingRuntime" Namespaced;
    CLUSTER_TRAINING_RUNTIMES = "clustertrainingruntimes" "ClusterTrainingRuntime" Cluster;
}
