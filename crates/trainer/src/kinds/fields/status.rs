//! Fields of the status of a TrainJob.

use muster_api::definition::{Part, atoms, condition, instant, int32, keyed, object, text};

use super::name;

const CONDITIONS_MAX: i64 = 8;
const JOBS_MAX: i64 = 100;
const METRICS_MAX: i64 = 256;
/// The longest name, or value, of a metric.
const METRIC_MAX: i64 = 64;

pub(super) fn status() -> Part {
    object([
        (
            "conditions",
            keyed("type", condition()).max_items(CONDITIONS_MAX).about("Suspended, Complete and Failed."),
        ),
        (
            "jobsStatus",
            keyed("name", job()).max_items(JOBS_MAX).about("How the Jobs of each replicatedJob fare."),
        ),
        ("trainerStatus", trainer().about("How far the training is, as it reports itself.")),
    ])
    .min_entries(1)
}

fn job() -> Part {
    let count = || int32().min(0);
    object([
        ("name!", name().about("The replicatedJob.")),
        ("ready!", count().about("Jobs whose pods are all ready or succeeded.")),
        ("succeeded!", count().about("Jobs that succeeded.")),
        ("failed!", count().about("Jobs that failed.")),
        ("active!", count().about("Jobs with pods that run or are pending.")),
        ("suspended!", count().about("Jobs that are suspended.")),
    ])
}

/// What training tells of itself.
fn trainer() -> Part {
    let word = || text().length(1, METRIC_MAX);
    let metric =
        object([("name!", word().about("Its name.")), ("value!", word().about("Its value as text."))]);
    object([
        ("progressPercentage", int32().min(0).max(100).about("How much is done, of 100.")),
        ("estimatedRemainingSeconds", int32().min(0).about("Seconds that it will probably take.")),
        ("metrics", atoms(metric).max_items(METRICS_MAX).about("Numbers that the training reports.")),
        ("lastUpdatedTime", instant().about("When this was reported.")),
    ])
    .rule("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")
}
