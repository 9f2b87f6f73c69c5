//! What the TrainJob controller may ask a cluster for: the rules of its role.
//!
//! Admission looks at runtimes, ConfigMaps, JobSets and classes of priority, which are among them.

use muster_jobset::rights::Rule;

/// What a TrainJob is made into: applied, and never deleted, since it goes with its owner.
const MADE: &[&str] = &["get", "list", "watch", "create", "patch"];

/// All rules. TrainJobs are deleted when their time is over, JobSets when their TrainJob has been active for too long. What
/// is made blocks the deletion of its TrainJob, which takes a right of its own where owners are checked. Runtimes are only
/// ever freed of what earlier releases held them with. Of Secrets the metadata is followed, which takes the same right as
/// the whole. Whoever tells how far training is shows a token, which the server is asked about.
pub const RULES: &[Rule] = &[
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
