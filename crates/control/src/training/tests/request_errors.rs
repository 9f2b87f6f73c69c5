//! Failed requests: reported once, retried with backoff, and without delaying other TrainJobs.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use muster_api::client::ApiError;
use muster_api::kinds::JOBSETS;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_tree::{Tree, tree};

use super::super::TrainJobControllerConfig;
use super::fixture::{Fixture, is};

const MINUTE: Duration = Duration::from_secs(60);

fn forbidden() -> ApiError {
    ApiError::Forbidden("trainjobs is forbidden".to_owned())
}

/// Shows: 2899-31, 2899-49.
#[test]
fn a_deletion_that_is_forbidden_is_told_once_and_done_when_it_is_allowed() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"ttlSecondsAfterFinished": 0}));
    bench.settle();
    let allowed = Rc::new(Cell::new(false));
    let may = allowed.clone();
    bench.refuse(move |call| (is(call, "delete", "trainjobs") && !may.get()).then(forbidden));
    bench.ends("a", "Completed");
    bench.run(MINUTE * 2);
    assert_eq!(bench.times("delete", "trainjobs"), [0, 1, 3, 7, 15, 31, 61, 91], "pauses of 1 to 30 s");
    assert_eq!(bench.reasons(), ["Completed", "TTLExpired", "TTLDeletionFailed"]);
    assert!(bench.told[2].2.contains("trainjobs is forbidden"), "{:?}", bench.told[2]);
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 0.0);
    allowed.set(true);
    bench.run(MINUTE);
    assert!(bench.find(&TRAIN_JOBS, "a").is_none());
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 1.0);
    assert!(bench.training().kept.is_empty());
}

#[test]
fn another_reason_is_told_again() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"ttlSecondsAfterFinished": 0}));
    bench.settle();
    let mut times = 0;
    bench.refuse(move |call| {
        times += u32::from(is(call, "delete", "trainjobs"));
        let why = if times < 3 { forbidden() } else { ApiError::Invalid("webhook is away".to_owned()) };
        is(call, "delete", "trainjobs").then_some(why)
    });
    bench.ends("a", "Completed");
    bench.run(MINUTE * 5);
    let failed = bench.reasons().iter().filter(|it| **it == "TTLDeletionFailed").count();
    assert_eq!(failed, 2);
}

/// Shows: 2899-23.
#[test]
fn what_can_never_be_made_ends_in_time_and_goes_in_time() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.refuse(|call| {
        let quota = ApiError::Forbidden("exceeded quota".to_owned());
        is(call, "apply", "jobsets").then_some(quota)
    });
    bench.submit("a", &tree!({"activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 10}));
    bench.run(MINUTE * 5);
    assert_eq!(bench.times("status", "trainjobs"), [100], "to the second, whatever the pause");
    assert_eq!(bench.times("delete", "trainjobs"), [110]);
    assert_eq!(bench.times("apply", "jobsets"), [0, 1, 3, 7, 15, 31, 61, 91]);
    assert_eq!(bench.reasons(), ["TrainJobResourcesCreationFailed", "DeadlineExceeded", "TTLExpired"]);
    assert_eq!(bench.told[0].2, "TrainJob resources reconciliation failed: exceeded quota");
}

/// Shows: 2899-23.
#[test]
fn without_its_runtime_it_waits_and_goes_on_when_there_is_one() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"runtimeRef": {"name": "later"}, "activeDeadlineSeconds": 1000}));
    bench.run(MINUTE * 5);
    assert_eq!(bench.reasons(), ["TrainJobResourcesCreationFailed"], "told once");
    assert_eq!(bench.counted(), [""; 0]);
    let runtime = bench.find(&CLUSTER_TRAINING_RUNTIMES, "torch-distributed").unwrap().clone();
    bench.put(&CLUSTER_TRAINING_RUNTIMES, &runtime.with(&["metadata", "name"], "later"));
    bench.settle();
    assert!(bench.find(&JOBSETS, "a").is_some(), "at once");
    bench.run(MINUTE * 15);
    assert_eq!(bench.times("status", "trainjobs"), [1000]);
}

#[test]
fn a_runtime_that_nobody_knows_fails_and_goes() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    let runtime = tree!({"name": "r", "apiGroup": "other.io", "kind": "Recipe"});
    bench.submit("a", &tree!({"runtimeRef": runtime, "ttlSecondsAfterFinished": 60}));
    bench.run(MINUTE * 2);
    assert_eq!(bench.counted(), ["delete trainjobs 1", "status trainjobs 1"]);
    assert_eq!(bench.reasons(), ["Failed", "TTLExpired"]);
}

/// Shows: 2899-32, 2899-48.
#[test]
fn a_server_that_is_away_makes_it_late_and_nothing_is_lost() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 10}));
    bench.run(MINUTE);
    let away = Rc::new(Cell::new(true));
    let is_away = away.clone();
    bench.refuse(move |_| is_away.get().then(|| ApiError::Indeterminate("no route".to_owned())));
    bench.run(MINUTE * 5);
    assert_eq!(bench.number("trainjob_deadline_exceeded_total"), 0.0);
    away.set(false);
    bench.run(MINUTE * 2);
    assert!(bench.find(&TRAIN_JOBS, "a").is_none() && bench.find(&JOBSETS, "a").is_none());
    assert_eq!(bench.number("trainjob_deadline_exceeded_total"), 1.0);
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 1.0);
}

/// Shows: 2899-32.
#[test]
fn whoever_writes_first_makes_it_look_again_and_it_counts_once() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 10}));
    bench.settle();
    let mut first = [true; 2];
    bench.refuse(move |call| {
        let which = usize::from(is(call, "delete", "jobsets"));
        let meant = which == 1 || is(call, "status", "trainjobs");
        (meant && std::mem::take(&mut first[which])).then(|| ApiError::Conflict("changed".to_owned()))
    });
    bench.run(MINUTE * 5);
    assert_eq!(bench.times("status", "trainjobs"), [100, 100]);
    assert_eq!(bench.times("delete", "jobsets"), [100, 100]);
    assert_eq!(bench.number("trainjob_deadline_exceeded_total"), 1.0);
    assert_eq!(bench.reasons(), ["DeadlineExceeded", "TTLExpired"]);
}

#[test]
fn a_jobset_that_may_not_be_deleted_is_tried_until_it_is_gone() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"activeDeadlineSeconds": 100}));
    bench.settle();
    let mut left = 4;
    bench.refuse(move |call| {
        let refused = is(call, "delete", "jobsets") && left > 0;
        left -= i32::from(refused);
        refused.then(|| ApiError::Forbidden("no".to_owned()))
    });
    bench.run(MINUTE * 5);
    assert_eq!(bench.times("delete", "jobsets"), [100, 101, 103, 107, 115]);
    assert_eq!(bench.times("status", "trainjobs"), [100]);
    assert_eq!(bench.reasons(), ["DeadlineExceeded", "TrainJobResourcesCreationFailed"]);
    assert!(bench.find(&JOBSETS, "a").is_none());
}

/// What was planned is remembered before it is sent, and a look may come between.
#[test]
fn what_was_planned_and_never_sent_is_not_taken_for_applied() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    let labels = tree!({"template": {"metadata": {"labels": {"a": "b"}}}});
    bench.submit(
        "a",
        &tree!({"suspend": true, "runtimePatches": [{"manager": "a.io/a", "trainingRuntimeSpec": labels}]}),
    );
    bench.settle();
    bench.counted();
    let mut first = true;
    bench.refuse(move |call| {
        let meant = is(call, "apply", "jobsets") && std::mem::take(&mut first);
        meant.then(|| ApiError::Conflict("changed".to_owned()))
    });
    let job = tree!({"metadata": {"name": "a", "namespace": "ns"}});
    bench.put(&TRAIN_JOBS, &job.with(&["spec", "runtimePatches"], Tree::Null));
    bench.work_until("get", "trainjobs");
    bench.put(&TRAIN_JOBS, &job.with(&["metadata", "labels"], tree!({"touched": "yes"})));
    bench.run(MINUTE);
    assert_eq!(bench.times("apply", "jobsets").len(), 2, "refused, dropped with the look, and done");
}
