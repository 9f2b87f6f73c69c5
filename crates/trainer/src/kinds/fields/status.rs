//! The fields of the status of a TrainJob.

use muster_api::crd_schema::{
    FieldSchema, atomic_list, condition, date_time, int32, map_list, object, string,
};

use super::name;

const CONDITIONS_MAX: i64 = 8;
const JOBS_MAX: i64 = 100;
const METRICS_MAX: i64 = 256;
/// Maximum length of the name and of the value of a metric.
const METRIC_MAX: i64 = 64;

pub(super) fn status() -> FieldSchema {
    object([
        (
            "conditions",
            map_list("type", condition())
                .max_items(CONDITIONS_MAX)
                .description("Suspended, Complete and Failed."),
        ),
        (
            "jobsStatus",
            map_list("name", job())
                .max_items(JOBS_MAX)
                .description("How the Jobs of each replicatedJob fare."),
        ),
        ("trainerStatus", trainer().description("How far the training is, as it reports itself.")),
    ])
    .min_properties(1)
}

fn job() -> FieldSchema {
    let count = || int32().min(0);
    object([
        ("name!", name().description("The replicatedJob.")),
        ("ready!", count().description("Jobs whose pods are all ready or succeeded.")),
        ("succeeded!", count().description("Jobs that succeeded.")),
        ("failed!", count().description("Jobs that failed.")),
        ("active!", count().description("Jobs with pods that run or are pending.")),
        ("suspended!", count().description("Jobs that are suspended.")),
    ])
}

/// The progress that the trainer reports.
fn trainer() -> FieldSchema {
    let word = || string().length(1, METRIC_MAX);
    let metric = object([
        ("name!", word().description("Its name.")),
        ("value!", word().description("Its value as text.")),
    ]);
    object([
        ("progressPercentage", int32().min(0).max(100).description("How much is done, of 100.")),
        ("estimatedRemainingSeconds", int32().min(0).description("Seconds that it will probably take.")),
        (
            "metrics",
            atomic_list(metric).max_items(METRICS_MAX).description("Numbers that the training reports."),
        ),
        ("lastUpdatedTime", date_time().description("When this was reported.")),
    ])
    .rule("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")
}
