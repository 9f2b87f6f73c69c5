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
        ("conditions", keyed("type", condition()).max_items(CONDITIONS_MAX)),
        ("jobsStatus", keyed("name", job()).max_items(JOBS_MAX)),
        ("trainerStatus", trainer()),
    ])
    .min_entries(1)
}

fn job() -> Part {
    let count = || int32().min(0);
    object([
        ("name!", name()),
        ("ready!", count()),
        ("succeeded!", count()),
        ("failed!", count()),
        ("active!", count()),
        ("suspended!", count()),
    ])
}

/// What training tells of itself.
fn trainer() -> Part {
    let word = || text().length(1, METRIC_MAX);
    let metric = object([("name!", word()), ("value!", word())]);
    object([
        ("progressPercentage", int32().min(0).max(100)),
        ("estimatedRemainingSeconds", int32().min(0)),
        ("metrics", atoms(metric).max_items(METRICS_MAX)),
        ("lastUpdatedTime", instant()),
    ])
    .rule("has(self.lastUpdatedTime)", "lastUpdatedTime is required when trainerStatus is present")
}
