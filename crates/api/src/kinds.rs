//! The built-in resources that controllers read and write, by group, version and plural.

use muster_tree::literal;

use crate::client::Kind;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $group:literal $version:literal $plural:literal;)+) => {
        $( $(#[$doc])* #[doc = concat!("`", $plural, "` of `", $group, "/", $version, "`.")] pub static $name: Kind =
            Kind { group: literal!($group), version: literal!($version), plural: literal!($plural) }; )+

        /// Every resource of this module with the name of its constant, for tests that check the table.
        #[must_use]
        pub fn all() -> Vec<(&'static str, &'static Kind)> {
            vec![$((stringify!($name), &$name)),+]
        }
    };
}

kinds! {
    PODS = "" "v1" "pods";
    NODES = "" "v1" "nodes";
    NAMESPACES = "" "v1" "namespaces";
    /// Events of the core group; the event recorder writes these, not `events.k8s.io`.
    EVENTS = "" "v1" "events";
    SERVICE_ACCOUNTS = "" "v1" "serviceaccounts";
    CONFIG_MAPS = "" "v1" "configmaps";
    SECRETS = "" "v1" "secrets";
    SERVICES = "" "v1" "services";
    ENDPOINT_SLICES = "discovery.k8s.io" "v1" "endpointslices";
    JOBS = "batch" "v1" "jobs";
    JOBSETS = "jobset.x-k8s.io" "v1alpha2" "jobsets";
    POD_DISRUPTION_BUDGETS = "policy" "v1" "poddisruptionbudgets";
    RESOURCE_CLAIMS = "resource.k8s.io" "v1" "resourceclaims";
    RESOURCE_CLAIM_TEMPLATES = "resource.k8s.io" "v1" "resourceclaimtemplates";
    DEVICE_CLASSES = "resource.k8s.io" "v1" "deviceclasses";
    RESOURCE_SLICES = "resource.k8s.io" "v1" "resourceslices";
    PERSISTENT_VOLUME_CLAIMS = "" "v1" "persistentvolumeclaims";
    PERSISTENT_VOLUMES = "" "v1" "persistentvolumes";
    STORAGE_CLASSES = "storage.k8s.io" "v1" "storageclasses";
    CSI_NODES = "storage.k8s.io" "v1" "csinodes";
    DEPLOYMENTS = "apps" "v1" "deployments";
    ROLES = "rbac.authorization.k8s.io" "v1" "roles";
    ROLE_BINDINGS = "rbac.authorization.k8s.io" "v1" "rolebindings";
    CLUSTER_ROLES = "rbac.authorization.k8s.io" "v1" "clusterroles";
    CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io" "v1" "clusterrolebindings";
    /// Gang scheduling Workloads as proposed; not Kueue's, see [`crate::queue::kinds`].
    WORKLOADS = "scheduling.k8s.io" "v1alpha1" "workloads";
    POD_GROUPS = "scheduling.k8s.io" "v1alpha1" "podgroups";
    PRIORITY_CLASSES = "scheduling.k8s.io" "v1" "priorityclasses";
    LIMIT_RANGES = "" "v1" "limitranges";
    RUNTIME_CLASSES = "node.k8s.io" "v1" "runtimeclasses";
    LEASES = "coordination.k8s.io" "v1" "leases";
    CRDS = "apiextensions.k8s.io" "v1" "customresourcedefinitions";
    MUTATING_WEBHOOKS = "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations";
    VALIDATING_WEBHOOKS = "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations";
    API_SERVICES = "apiregistration.k8s.io" "v1" "apiservices";
}

/// Cluster-scoped built-in resources that can be owners.
const CLUSTER_SCOPED: &[&str] = &[
    "apiservices",
    "clusterrolebindings",
    "clusterroles",
    "csidrivers",
    "csinodes",
    "customresourcedefinitions",
    "deviceclasses",
    "devicetaintrules",
    "ingressclasses",
    "ipaddresses",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "namespaces",
    "nodes",
    "persistentvolumes",
    "priorityclasses",
    "resourceslices",
    "runtimeclasses",
    "servicecidrs",
    "storageclasses",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
    "volumeattachments",
    "volumeattributesclasses",
];

/// Returns whether a built-in resource is cluster-scoped.
#[must_use]
pub fn is_cluster_scoped(kind: &Kind) -> bool {
    CLUSTER_SCOPED.contains(&kind.plural.as_str())
}

/// Returns whether `plural` is the resource name of the kind `word`; correct for all built-in kinds.
#[must_use]
pub fn is_plural(plural: &str, word: &str) -> bool {
    let lower = word.to_lowercase();
    let front = lower.strip_suffix('y').map(|front| format!("{front}ies"));
    plural == lower
        || plural == format!("{lower}s")
        || plural == format!("{lower}es")
        || front.is_some_and(|it| it == plural)
}
