//! The kinds of gangs that our own server does not have.

use muster_tree::literal;

use crate::port::Kind;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $group:literal $version:literal $plural:literal;)+) => {
        $( $(#[$doc])* pub static $name: Kind =
            Kind { group: literal!($group), version: literal!($version), plural: literal!($plural) }; )+
    };
}

kinds! {
    /// Workloads of 1.37.
    RELEASED_WORKLOADS = "scheduling.k8s.io" "v1beta1" "workloads";
    /// Groups of 1.37.
    RELEASED_GROUPS = "scheduling.k8s.io" "v1beta1" "podgroups";
    /// Workloads of 1.36.
    EARLIER_WORKLOADS = "scheduling.k8s.io" "v1alpha2" "workloads";
    /// Groups of 1.36.
    EARLIER_GROUPS = "scheduling.k8s.io" "v1alpha2" "podgroups";
    /// Workloads of our own definition.
    OWN_WORKLOADS = "scheduling.muster.dev" "v1alpha1" "workloads";
    /// Groups of our own definition.
    OWN_GROUPS = "scheduling.muster.dev" "v1alpha1" "podgroups";
    /// Groups of coscheduling.
    COSCHEDULING_GROUPS = "scheduling.x-k8s.io" "v1alpha1" "podgroups";
    /// Groups of Volcano.
    VOLCANO_GROUPS = "scheduling.volcano.sh" "v1beta1" "podgroups";
}
