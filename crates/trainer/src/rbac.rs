//! RBAC rules of the TrainJob controller and its admission, which reads runtimes, ConfigMaps, JobSets and PriorityClasses.
//!
//! Each rule is used: the suite compares them with the requests that were made.

use muster_jobset::rbac::PolicyRule;

/// Child objects: applied, and never deleted, because the garbage collector deletes them with their owner.
const MADE: &[&str] = &["get", "list", "watch", "create", "patch"];

/// The verbs that are not obvious:
///
/// - `trainjobs` `delete`: the TTL expired. `jobsets` `delete`: the TrainJob exceeded `activeDeadlineSeconds`.
/// - `trainjobs/finalizers` `update`: owner references set `blockOwnerDeletion`, which the admission plugin
///   OwnerReferencesPermissionEnforcement checks.
/// - Runtimes `patch`: removes the finalizer that earlier releases set.
/// - `secrets`: only metadata is watched, but RBAC does not distinguish metadata from whole objects.
/// - `tokenreviews` `create`: authenticates progress reports.
pub const RULES: &[PolicyRule] = &[
    ("trainer.kubeflow.org", "trainjobs", &["get", "list", "watch", "delete"]),
    ("trainer.kubeflow.org", "trainjobs/status", &["patch"]),
    ("trainer.kubeflow.org", "trainjobs/finalizers", &["update"]),
    ("trainer.kubeflow.org", "trainingruntimes", &["get", "list", "watch", "patch"]),
    ("trainer.kubeflow.org", "clustertrainingruntimes", &["get", "list", "watch", "patch"]),
    ("jobset.x-k8s.io", "jobsets", &["get", "list", "watch", "create", "patch", "delete"]),
    ("", "configmaps", MADE),
    ("", "secrets", MADE),
    ("scheduling.x-k8s.io", "podgroups", MADE),
    ("scheduling.volcano.sh", "podgroups", MADE),
    ("scheduling.k8s.io", "priorityclasses", &["get", "list"]),
    ("authentication.k8s.io", "tokenreviews", &["create"]),
    ("", "events", &["create", "patch"]),
];
