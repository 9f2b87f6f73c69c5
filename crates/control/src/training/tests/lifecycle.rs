//! Whole lives: what they cost, and that nothing but the objects says when something is due.

use std::time::Duration;

use muster_api::kinds::JOBSETS;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_trainer::controller::DeadlineClock;
use muster_tree::{Tree, tree};

use super::super::TrainJobControllerConfig;
use super::fixture::{Fixture, made_kinds};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const MADE: [&str; 2] = ["apply configmaps 1", "apply jobsets 1"];

fn bench() -> Fixture {
    Fixture::new(TrainJobControllerConfig::default())
}

fn both() -> Tree {
    tree!({"activeDeadlineSeconds": 7200, "ttlSecondsAfterFinished": 3600})
}

fn nothing_left(bench: &Fixture) {
    let left = made_kinds().map(|kind| bench.objects.keys().filter(|key| key.kind == *kind).count());
    assert_eq!(left, [0; 3], "what it was made into is gone");
    assert!(bench.find(&TRAIN_JOBS, "a").is_none());
}

#[test]
fn a_steady_world_writes_nothing() {
    let mut bench = bench();
    bench.submit("a", &tree!({}));
    bench.submit("s", &tree!({"suspend": true}));
    bench.settle();
    assert_eq!(bench.counted(), ["apply configmaps 2", "apply jobsets 2", "status trainjobs 1"]);
    bench.run(DAY);
    assert_eq!(bench.counted(), [""; 0], "for a day");
    bench.crash();
    bench.settle();
    assert_eq!(
        bench.counted(),
        ["apply jobsets 1"],
        "only what may be changed while it is suspended is said again"
    );
    bench.run(DAY);
    assert_eq!(bench.counted(), [""; 0]);
}

/// Shows: 2899-07, 2899-40, 2899-41.
#[test]
fn what_either_field_costs() {
    let mut plain = bench();
    plain.submit("a", &tree!({}));
    plain.run(HOUR);
    plain.ends("a", "Completed");
    plain.run(DAY);
    assert_eq!(plain.counted(), [MADE[0], MADE[1], "status trainjobs 1"], "without the fields");

    let mut ttl = bench();
    ttl.submit("a", &tree!({"ttlSecondsAfterFinished": 60}));
    ttl.run(HOUR);
    ttl.ends("a", "Failed");
    ttl.run(DAY);
    assert_eq!(ttl.counted(), [MADE[0], MADE[1], "delete trainjobs 1", "status trainjobs 1"]);

    let mut deadline = bench();
    deadline.submit("a", &tree!({"activeDeadlineSeconds": 7200}));
    deadline.run(DAY);
    assert_eq!(deadline.counted(), [MADE[0], MADE[1], "delete jobsets 1", "status trainjobs 1"]);
}

/// Shows: 2899-11, 2899-20, 2899-24, 2899-68.
#[test]
fn both_are_kept_to_the_second() {
    let mut bench = bench();
    bench.submit("a", &both());
    bench.run(DAY);
    assert_eq!(bench.times("status", "trainjobs"), [7200]);
    assert_eq!(bench.times("delete", "jobsets"), [7200]);
    assert_eq!(bench.times("delete", "trainjobs"), [10_800]);
    assert_eq!(bench.reasons(), ["DeadlineExceeded", "TTLExpired"]);
    nothing_left(&bench);
}

/// Shows: 2899-28, 2899-31, 2899-32.
#[test]
fn it_may_die_before_any_write() {
    let whole = {
        let mut bench = bench();
        bench.submit("a", &both());
        bench.run(DAY);
        bench.calls.len()
    };
    assert_eq!(whole, 5);
    for before in 0..whole {
        let mut bench = bench();
        bench.crash_before = Some(before);
        bench.submit("a", &both());
        bench.run(HOUR);
        let sets = bench.times("apply", "jobsets").len();
        assert_eq!(sets, 1, "one JobSet is made, crash before {before}");
        bench.run(DAY);
        nothing_left(&bench);
        assert_eq!(bench.times("delete", "trainjobs"), [10_800], "crash before {before}");
        assert_eq!(bench.times("apply", "jobsets").len(), 1, "none is made again, crash before {before}");
    }
}

/// Shows: 2899-28.
#[test]
fn whoever_begins_anew_finds_the_same_times_and_does_at_once_what_is_overdue() {
    let mut bench = bench();
    bench.submit("a", &both());
    bench.run(HOUR);
    bench.crash();
    bench.run(HOUR - Duration::from_secs(1));
    assert!(bench.times("status", "trainjobs").is_empty(), "not a second early");
    bench.run(Duration::from_secs(1));
    assert_eq!(bench.times("status", "trainjobs"), [7200]);
    // Nobody is there when its time is over.
    bench.run(Duration::from_secs(10));
    bench.now = bench.now + DAY;
    bench.crash();
    bench.settle();
    assert_eq!(bench.times("delete", "trainjobs"), [7200 + 10 + 86_400]);
    nothing_left(&bench);
}

/// Shows: 2899-08, 2899-13, 2899-33, 2899-34.
#[test]
fn without_any_time_to_live_the_end_is_seen_before_it_goes() {
    for how in ["Completed", "Failed"] {
        let mut bench = bench();
        bench.submit("a", &tree!({"ttlSecondsAfterFinished": 0}));
        bench.run(HOUR);
        bench.ends("a", how);
        bench.settle();
        let order: Vec<&str> = bench.calls.iter().map(|(_, call)| super::fixture::word(call).0).collect();
        assert_eq!(order, ["apply", "apply", "status", "delete"], "{how}");
        nothing_left(&bench);
        assert_eq!(bench.number("trainjob_ttl_deletions_total"), 1.0);
        assert_eq!(bench.number("trainjob_ttl_deletion_latency_seconds"), 1.0);
        assert_eq!(bench.number("trainjob_ttl_pending_deletions"), 0.0);
    }
}

/// Shows: 2899-15, 2899-31, 2899-33.
#[test]
fn whoever_else_holds_it_is_waited_for_with_one_deletion() {
    let mut bench = bench();
    bench.submit("a", &tree!({"ttlSecondsAfterFinished": 60}));
    bench.put(
        &TRAIN_JOBS,
        &tree!({"metadata": {"name": "a", "namespace": "ns", "finalizers": ["other.io/x"]}}),
    );
    bench.settle();
    bench.ends("a", "Completed");
    bench.run(DAY);
    assert_eq!(bench.times("delete", "trainjobs").len(), 1);
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 1.0, "it is accepted");
    assert_eq!(bench.number("trainjob_ttl_deletion_latency_seconds"), 0.0, "it is not gone");
    assert!(bench.find(&TRAIN_JOBS, "a").is_some());
    bench.remove(&TRAIN_JOBS, "a");
    bench.run(DAY);
    assert_eq!(bench.times("delete", "trainjobs").len(), 1);
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 1.0);
    assert_eq!(bench.number("trainjob_ttl_deletion_latency_seconds"), 1.0);
}

/// Shows: 2899-16.
#[test]
fn a_namesake_inherits_nothing() {
    let mut bench = bench();
    bench.submit("a", &tree!({"ttlSecondsAfterFinished": 60}));
    bench.settle();
    bench.ends("a", "Completed");
    bench.run(Duration::from_secs(30));
    bench.remove(&TRAIN_JOBS, "a");
    bench.submit("a", &tree!({"ttlSecondsAfterFinished": 600}));
    bench.settle();
    bench.ends("a", "Completed");
    bench.run(Duration::from_secs(599));
    assert!(bench.find(&TRAIN_JOBS, "a").is_some(), "the times of the first do not count");
    bench.run(Duration::from_secs(1));
    nothing_left(&bench);
}

/// Shows: 2899-17, 2899-26.
#[test]
fn resuming_under_each_clock() {
    for (clock, queued, due) in [
        (DeadlineClock::Creation, false, 3600),
        (DeadlineClock::Active, false, 3600 + 1800),
        (DeadlineClock::Auto, false, 3600),
        (DeadlineClock::Auto, true, 3600 + 1800),
    ] {
        let mut bench =
            Fixture::new(TrainJobControllerConfig { clock, ..TrainJobControllerConfig::default() });
        bench.submit("a", &tree!({"activeDeadlineSeconds": 1800, "suspend": true}));
        if queued {
            let labels = tree!({"kueue.x-k8s.io/queue-name": "q"});
            bench.put(&TRAIN_JOBS, &tree!({"metadata": {"name": "a", "namespace": "ns", "labels": labels}}));
        }
        bench.run(HOUR);
        assert_eq!(bench.times("delete", "jobsets"), [0_u64; 0], "whoever is suspended does not fail");
        assert_eq!(bench.number("trainjob_active_deadline_remaining_seconds"), 0.0);
        bench.put(
            &TRAIN_JOBS,
            &tree!({"metadata": {"name": "a", "namespace": "ns"}, "spec": {"suspend": false}}),
        );
        bench.run(DAY);
        assert_eq!(bench.times("delete", "jobsets"), [due], "{clock:?}, queued {queued}");
        assert_eq!(bench.number("trainjob_deadline_exceeded_total"), 1.0);
    }
}

/// Shows: 2899-25, 2899-29.
#[test]
fn what_ended_is_not_made_again() {
    for how in ["Completed", "Failed"] {
        let mut bench = bench();
        bench.submit("a", &tree!({"ttlSecondsAfterFinished": 7200}));
        bench.settle();
        bench.ends("a", how);
        bench.settle();
        bench.remove(&JOBSETS, "a");
        bench.run(HOUR);
        assert!(bench.find(&JOBSETS, "a").is_none(), "{how}");
        assert!(bench.find(&TRAIN_JOBS, "a").is_some(), "its own time is not over");
        bench.run(HOUR);
        nothing_left(&bench);
    }
}

#[test]
fn a_jobset_that_is_lost_before_the_end_is_made_again() {
    let mut bench = bench();
    bench.submit("a", &tree!({}));
    bench.settle();
    bench.remove(&JOBSETS, "a");
    bench.settle();
    assert!(bench.find(&JOBSETS, "a").is_some());
}

/// Shows: 2899-35.
#[test]
fn what_is_left_counts_down() {
    let mut bench = bench();
    bench.submit("a", &tree!({"activeDeadlineSeconds": 100}));
    bench.run(Duration::from_secs(40));
    assert_eq!(bench.number("trainjob_active_deadline_remaining_seconds"), 60.0);
    bench.ends("a", "Completed");
    bench.settle();
    assert_eq!(bench.number("trainjob_active_deadline_remaining_seconds"), 0.0, "no such series");
    bench.run(DAY);
    assert_eq!(bench.number("trainjob_deadline_exceeded_total"), 0.0);
}

/// Shows: 2899-60.
#[test]
fn what_is_managed_elsewhere_is_not_touched() {
    let mut bench = bench();
    bench.submit("a", &both().merge(&tree!({"managedBy": "kueue.x-k8s.io/multikueue"})));
    bench.run(DAY);
    let end =
        tree!({"type": "Complete", "status": "True", "lastTransitionTime": bench.now.to_seconds_text()});
    bench.put(
        &TRAIN_JOBS,
        &tree!({"metadata": {"name": "a", "namespace": "ns"}, "status": {"conditions": [end]}}),
    );
    bench.run(DAY);
    assert_eq!(bench.counted(), [""; 0]);
}
