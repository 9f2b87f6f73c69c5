//! Gang scheduling resources that the embedded API server does not serve.

use muster_tree::literal;

use crate::client::Kind;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $group:literal $version:literal $plural:literal;)+) => {
        $( $(#[$doc])* #[doc = concat!("`", $plural, "` of `", $group, "/", $version, "`.")] pub static $name: Kind =
            Kind { group: literal!($group), version: literal!($version), plural: literal!($plural) }; )+
    };
}

kinds! {
    /// The API of Kubernetes 1.37.
    RELEASED_WORKLOADS = "scheduling.k8s.io" "v1beta1" "workloads";
    /// The API of Kubernetes 1.37.
    RELEASED_GROUPS = "scheduling.k8s.io" "v1beta1" "podgroups";
    /// The API of Kubernetes 1.36.
    EARLIER_WORKLOADS = "scheduling.k8s.io" "v1alpha2" "workloads";
    /// The API of Kubernetes 1.36.
    EARLIER_GROUPS = "scheduling.k8s.io" "v1alpha2" "podgroups";
    /// Muster's own CRD, see [`GangApi::Own`](super::GangApi::Own).
    OWN_WORKLOADS = "scheduling.muster.dev" "v1alpha1" "workloads";
    /// Muster's own CRD, see [`GangApi::Own`](super::GangApi::Own).
    OWN_GROUPS = "scheduling.muster.dev" "v1alpha1" "podgroups";
    COSCHEDULING_GROUPS = "scheduling.x-k8s.io" "v1alpha1" "podgroups";
    VOLCANO_GROUPS = "scheduling.volcano.sh" "v1beta1" "podgroups";
}
