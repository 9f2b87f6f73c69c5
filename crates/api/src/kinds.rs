//! The built-in kinds that controllers name.

use muster_tree::literal;

use crate::port::Kind;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $group:literal $version:literal $plural:literal;)+) => {
        $( $(#[$doc])* pub static $name: Kind =
            Kind { group: literal!($group), version: literal!($version), plural: literal!($plural) }; )+

        /// All of them, with their constant's name.
        #[must_use]
        pub fn all() -> Vec<(&'static str, &'static Kind)> {
            vec![$((stringify!($name), &$name)),+]
        }
    };
}

kinds! {
    /// Pods.
    PODS = "" "v1" "pods";
    /// Nodes.
    NODES = "" "v1" "nodes";
    /// Namespaces.
    NAMESPACES = "" "v1" "namespaces";
    /// Events of the core group, which is how the recorder writes them.
    EVENTS = "" "v1" "events";
    /// Service accounts.
    SERVICE_ACCOUNTS = "" "v1" "serviceaccounts";
    /// ConfigMaps.
    CONFIG_MAPS = "" "v1" "configmaps";
    /// Secrets.
    SECRETS = "" "v1" "secrets";
    /// Services.
    SERVICES = "" "v1" "services";
    /// EndpointSlices.
    ENDPOINT_SLICES = "discovery.k8s.io" "v1" "endpointslices";
    /// Jobs.
    JOBS = "batch" "v1" "jobs";
    /// JobSets.
    JOBSETS = "jobset.x-k8s.io" "v1alpha2" "jobsets";
    /// Budgets of disruption.
    BUDGETS = "policy" "v1" "poddisruptionbudgets";
    /// Claims to devices.
    RESOURCE_CLAIMS = "resource.k8s.io" "v1" "resourceclaims";
    /// Templates of claims to devices.
    RESOURCE_CLAIM_TEMPLATES = "resource.k8s.io" "v1" "resourceclaimtemplates";
    /// Classes of devices.
    DEVICE_CLASSES = "resource.k8s.io" "v1" "deviceclasses";
    /// Lists of devices.
    RESOURCE_SLICES = "resource.k8s.io" "v1" "resourceslices";
    /// Claims to volumes.
    CLAIMS = "" "v1" "persistentvolumeclaims";
    /// Volumes.
    VOLUMES = "" "v1" "persistentvolumes";
    /// Storage classes.
    STORAGE_CLASSES = "storage.k8s.io" "v1" "storageclasses";
    /// What nodes can attach.
    CSI_NODES = "storage.k8s.io" "v1" "csinodes";
    /// Deployments.
    DEPLOYMENTS = "apps" "v1" "deployments";
    /// Roles of a namespace.
    ROLES = "rbac.authorization.k8s.io" "v1" "roles";
    /// Who has them.
    ROLE_BINDINGS = "rbac.authorization.k8s.io" "v1" "rolebindings";
    /// Roles of a cluster.
    CLUSTER_ROLES = "rbac.authorization.k8s.io" "v1" "clusterroles";
    /// Who has them.
    CLUSTER_ROLE_BINDINGS = "rbac.authorization.k8s.io" "v1" "clusterrolebindings";
    /// How gangs are to be placed.
    WORKLOADS = "scheduling.k8s.io" "v1alpha1" "workloads";
    /// Gangs.
    POD_GROUPS = "scheduling.k8s.io" "v1alpha1" "podgroups";
    /// Classes of priority.
    PRIORITY_CLASSES = "scheduling.k8s.io" "v1" "priorityclasses";
    /// Bounds of what containers and pods of a namespace ask for.
    LIMIT_RANGES = "" "v1" "limitranges";
    /// How containers are run.
    RUNTIME_CLASSES = "node.k8s.io" "v1" "runtimeclasses";
    /// Leases.
    LEASES = "coordination.k8s.io" "v1" "leases";
    /// Custom resource definitions.
    CRDS = "apiextensions.k8s.io" "v1" "customresourcedefinitions";
    /// Who may change objects before they are kept.
    MUTATING_WEBHOOKS = "admissionregistration.k8s.io" "v1" "mutatingwebhookconfigurations";
    /// Who may refuse them.
    VALIDATING_WEBHOOKS = "admissionregistration.k8s.io" "v1" "validatingwebhookconfigurations";
    /// Groups that a server hands on to another.
    API_SERVICES = "apiregistration.k8s.io" "v1" "apiservices";
}

/// Built-in kinds without a namespace that may own something.
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

/// Whether a built-in kind has no namespace.
#[must_use]
pub fn is_cluster_scoped(kind: &Kind) -> bool {
    CLUSTER_SCOPED.contains(&kind.plural.as_str())
}

/// Whether `plural` is how the kind called `word` is spelled in paths; right for all built-in kinds.
#[must_use]
pub fn is_plural(plural: &str, word: &str) -> bool {
    let lower = word.to_lowercase();
    let front = lower.strip_suffix('y').map(|front| format!("{front}ies"));
    plural == lower
        || plural == format!("{lower}s")
        || plural == format!("{lower}es")
        || front.is_some_and(|it| it == plural)
}
