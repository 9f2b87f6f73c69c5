//! The configuration file of Trainer: read, checked, and kept until there are TrainJobs.

use super::shape::{Field, Shape, kept, needless, used};
use super::upstream::{
    API_VERSION, BOUNDED, CERTIFICATES, CLIENT_CONNECTION, CONTROLLER, HEALTH, KIND, LEADER_ELECTION, PORT,
    TLS, WEBHOOK,
};

/// Its version.
pub const VERSION: &str = "config.trainer.kubeflow.org/v1alpha1";

const LATER: &str = "kept for when TrainJobs are built in";
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
    CONTROLLER,
    used("certManagement", CERTIFICATES),
    CLIENT_CONNECTION,
    kept(
        "statusServer",
        Shape::Fields(&[
            used("port", PORT),
            needless("qps", Shape::Number, BOUNDED),
            needless("burst", Shape::Whole(0, i64::MAX), BOUNDED),
        ]),
        LATER,
    ),
    kept("featureGates", Shape::Map(&Shape::Bool), LATER),
    TLS,
];
