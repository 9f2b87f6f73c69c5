//! The schema of Trainer's configuration file, and which keys have no effect here.

use super::shape::{Field, Shape, ignored, used};
use super::upstream::{
    API_VERSION, BOUNDED, CERTIFICATES, CLIENT_CONNECTION, HEALTH, KIND, LEADER_ELECTION, PORT, TLS, WEBHOOK,
};
use crate::gates::TRAIN_JOB_STATUS;

pub const VERSION: &str = muster_api::train::consts::CONFIG_VERSION;

/// The `groupKindConcurrency` key of TrainJobs.
pub const TRAIN_JOBS_AT_ONCE: &str = "TrainJob.trainer.kubeflow.org";

const AT_ONCE: Shape = Shape::Whole(1, i64::MAX);
const PLAIN: &str = "not supported, metrics are served over plain HTTP";

pub const FIELDS: [Field; 12] = [
    API_VERSION,
    KIND,
    WEBHOOK,
    LEADER_ELECTION,
    used(
        "metrics",
        Shape::Fields(&[
            used("bindAddress", Shape::Bind),
            ignored("secureServing", Shape::Bool, PLAIN),
            ignored("auth", Shape::Fields(&[used("enabled", Shape::Bool)]), PLAIN),
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
                    ignored("TrainingRuntime.trainer.kubeflow.org", AT_ONCE, BOUNDED),
                    ignored("ClusterTrainingRuntime.trainer.kubeflow.org", AT_ONCE, BOUNDED),
                ]),
            ),
            ignored("cacheSyncTimeout", Shape::Whole(0, i64::MAX), BOUNDED),
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

/// Keys that `muster up` uses, too.
pub const USED_BY_UP: [&str; 2] = ["featureGates", "controller"];
