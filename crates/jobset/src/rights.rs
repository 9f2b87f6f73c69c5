//! What the JobSet controller may ask a cluster for: the rules of its role.
//!
//! Admission looks at volume claims, nodes and pods, which are among them.

/// A rule: group, resource, verbs.
pub type Rule = (&'static str, &'static str, &'static [&'static str]);

/// Reads of whatever is followed.
const FOLLOWED: &[&str] = &["get", "list", "watch"];

/// What is done to the Workload of a gang: it is made, its size changes, and it goes with the JobSet.
const WORKLOADS: &[&str] = &["get", "list", "watch", "create", "patch"];
/// What is done to a gang: it goes with its attempt, or with its Job.
const GROUPS: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];

/// All rules. Volume claims are made and never deleted or changed; claims of devices block the deletion of their Jobs,
/// which takes a right of its own where owners are checked.
pub const RULES: &[Rule] = &[
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

/// Whether a rule allows this.
#[must_use]
pub fn allow(group: &str, resource: &str, verb: &str) -> bool {
    RULES.iter().any(|(g, r, verbs)| *g == group && *r == resource && verbs.contains(&verb))
}
