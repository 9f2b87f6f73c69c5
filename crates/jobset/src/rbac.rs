//! The RBAC rules of the JobSet controller and its webhooks.

/// An RBAC rule: API group, resource, verbs.
pub type PolicyRule = (&'static str, &'static str, &'static [&'static str]);

/// The verbs of an informer.
const FOLLOWED: &[&str] = &["get", "list", "watch"];

/// Workloads are created and resized, and garbage collected with the JobSet.
const WORKLOADS: &[&str] = &["get", "list", "watch", "create", "patch"];
/// PodGroups are deleted with their restart attempt or their Job.
const GROUPS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// All rules. PersistentVolumeClaims are created and never modified. ResourceClaims have a blocking owner reference to
/// their Job, which needs `update` on `jobs/finalizers` (admission plugin `OwnerReferencesPermissionEnforcement`).
pub const RULES: &[PolicyRule] = &[
    ("jobset.x-k8s.io", "jobsets", &["get", "list", "watch", "delete"]),
    ("jobset.x-k8s.io", "jobsets/status", &["patch"]),
    ("jobset.x-k8s.io", "jobsets/finalizers", &["update"]),
    ("batch", "jobs", &["get", "list", "watch", "create", "delete", "patch"]),
    ("batch", "jobs/status", &["patch"]),
    ("batch", "jobs/finalizers", &["update"]),
    ("", "services", &["get", "list", "watch", "create"]),
    ("", "persistentvolumeclaims", &["get", "list", "watch", "create"]),
    ("resource.k8s.io", "resourceclaims", &["get", "list", "watch", "create", "delete"]),
    ("", "pods", &["get", "list", "watch", "delete"]),
    ("", "pods/status", &["patch"]),
    ("", "nodes", FOLLOWED),
    ("scheduling.k8s.io", "workloads", WORKLOADS),
    ("scheduling.k8s.io", "podgroups", GROUPS),
    ("scheduling.muster.dev", "workloads", WORKLOADS),
    ("scheduling.muster.dev", "podgroups", GROUPS),
    ("", "events", &["create", "patch"]),
];

/// Whether the rules allow a verb.
#[must_use]
pub fn allow(group: &str, resource: &str, verb: &str) -> bool {
    RULES.iter().any(|(g, r, verbs)| *g == group && *r == resource && verbs.contains(&verb))
}
