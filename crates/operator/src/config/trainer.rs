//! The configuration file of Trainer: which keys there are, and which of them do nothing here.

use super::shape::{Field, Shape, needless, used};
use super::upstream::{
    API_VERSION, BOUNDED, CERTIFICATES, CLIENT_CONNECTION, HEALTH, KIND, LEADER_ELECTION, PORT, TLS, WEBHOOK,
};
use crate::gates::TRAIN_JOB_STATUS;

/// Its version.
pub const VERSION: &str = "config.trainer.kubeflow.org/v1alpha1";

/// The key that says how many TrainJobs are worked on at once.
pub const TRAIN_JOBS_AT_ONCE: &str = "TrainJob.trainer.kubeflow.org";

const AT_ONCE: Shape = Shape::Whole(1, i64::MAX);
const PLAIN: &str = "not there, numbers are told in plain HTTP";

/// Its keys.
pub const FIELDS: [Field; 12] = [
    API_VERSION,
    KIND,
    WEBHOOK,
    LEADER_ELECTION,
    used(
        "metrics",
        Shape::Fields(&[
            used("bindAddress", Shape::Bind),
            needless("secureServing", Shape::Bool, PLAIN),
            needless("auth", Shape::Fields(&[used("enabled", Shape::Bool)]), PLAIN),
        ]),
    ),
    HEALTH,
    used(
        "controller",
        Shape::Fields(&[
            used(
                "groupKindConcurrency",
                Shape::Fields(&[
                    used(TRAIN_JOBS_AT_ONCE, AT_ONCE),
                    needless("TrainingRuntime.trainer.kubeflow.org", AT_ONCE, BOUNDED),
                    needless("ClusterTrainingRuntime.trainer.kubeflow.org", AT_ONCE, BOUNDED),
                ]),
            ),
            needless("cacheSyncTimeout", Shape::Whole(0, i64::MAX), BOUNDED),
        ]),
    ),
    used("certManagement", CERTIFICATES),
    CLIENT_CONNECTION,
    used(
        "statusServer",
        Shape::Fields(&[
            used("port", PORT),
            used("qps", Shape::Number),
            used("burst", Shape::Whole(0, i64::MAX)),
        ]),
    ),
    used("featureGates", Shape::Fields(&[used(TRAIN_JOB_STATUS, Shape::Bool)])),
    TLS,
];

/// Keys that `muster up` acts upon, too.
pub const EVERYWHERE: [&str; 2] = ["featureGates", "controller"];
