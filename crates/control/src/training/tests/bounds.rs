//! What is done at once, and what is kept.

use std::time::Duration;

use muster_api::client::ApiError;
use muster_api::kinds::JOBSETS;
use muster_api::train::kinds::TRAIN_JOBS;
use muster_tree::{Text, Tree, tree};

use super::super::TrainJobControllerConfig;
use super::fixture::{Fixture, is, word};

/// A TrainJob that has ended.
fn ended(name: &str, bench: &Fixture, ttl: u32) -> Tree {
    let end =
        tree!({"type": "Complete", "status": "True", "lastTransitionTime": bench.now.to_seconds_text()});
    tree!({"metadata": {"name": name, "namespace": "ns"}, "status": {"conditions": [end]},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "ttlSecondsAfterFinished": ttl}})
}

fn flood(bench: &mut Fixture, jobs: usize, ttl: u32) {
    for n in 0..jobs {
        let job = ended(&format!("j{n}"), bench, ttl);
        bench.put(&TRAIN_JOBS, &job);
    }
}

/// Shows: 2899-44.
#[test]
fn deletions_under_way_are_bounded() {
    for max in [1, 5] {
        let mut bench = Fixture::new(TrainJobControllerConfig {
            deletions_max: max,
            ..TrainJobControllerConfig::default()
        });
        flood(&mut bench, 200, 60);
        bench.run(Duration::from_secs(59));
        assert_eq!(bench.counted(), [""; 0]);
        assert_eq!(bench.number("trainjob_ttl_pending_deletions"), 200.0);
        bench.run(Duration::from_secs(1));
        assert_eq!(bench.counted(), ["delete trainjobs 200"], "no time passes, each once");
        assert_eq!(bench.deletions_most, max);
        assert_eq!(bench.training().deletions.count(), (0, 0));
    }
}

/// Shows: 2899-44.
#[test]
fn a_server_that_keeps_up_gets_more_deletions_at_once() {
    let mut bench =
        Fixture::new(TrainJobControllerConfig { deletions_max: 48, ..TrainJobControllerConfig::default() });
    flood(&mut bench, 200, 60);
    bench.run(Duration::from_secs(60));
    assert_eq!(bench.counted(), ["delete trainjobs 200"], "each once, and nothing is read");
    assert_eq!(bench.deletions_most, 48);
}

/// Shows: 2899-20, 2899-44.
#[test]
fn deadlines_are_written_before_anything_is_deleted_that_is_due_with_them() {
    let mut bench =
        Fixture::new(TrainJobControllerConfig { deletions_max: 48, ..TrainJobControllerConfig::default() });
    flood(&mut bench, 200, 60);
    (0..20).for_each(|n| bench.submit(&format!("late{n}"), &tree!({"activeDeadlineSeconds": 60})));
    bench.run(Duration::from_secs(59));
    bench.calls.clear();
    bench.run(Duration::from_secs(1));
    let order: Vec<(&str, Text)> = bench.calls.iter().map(|(_, call)| word(call)).collect();
    let ends = order.iter().rposition(|it| *it == ("status", "trainjobs".into()));
    let goes = order.iter().position(|it| *it == ("delete", "trainjobs".into()));
    assert!(ends < goes, "the last deadline is call {ends:?}, the first deletion {goes:?}");
    let want = ["delete jobsets 20", "delete trainjobs 200", "status trainjobs 20"];
    assert_eq!(bench.counted(), want);
}

/// Shows: 2899-38, 2899-45.
#[test]
fn five_thousand_due_in_one_second_go_in_that_second() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    for n in 0..5_000 {
        let space = if n < 1_000 { "crowded".to_owned() } else { format!("small{}", n % 40) };
        let job = ended(&format!("j{n}"), &bench, 60).with(&["metadata", "namespace"], space);
        bench.put(&TRAIN_JOBS, &job);
    }
    bench.run(Duration::from_secs(120));
    assert_eq!(bench.times("delete", "trainjobs"), [60_u64; 5_000]);
    assert_eq!(bench.counted(), ["delete trainjobs 5000"]);
    assert_eq!(bench.number("trainjob_ttl_deletion_latency_seconds"), 5_000.0);
    assert!(bench.objects.keys().all(|key| key.kind != TRAIN_JOBS));
}

/// Shows: 2899-46.
#[test]
fn a_hundred_a_minute_go_as_they_are_due_for_an_hour() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    let mut want: Vec<u64> = Vec::new();
    for minute in 0..60 {
        flood(&mut bench, 100, 30);
        want.extend([minute * 60 + 30; 100]);
        bench.run(Duration::from_secs(60));
    }
    assert_eq!(bench.times("delete", "trainjobs"), want);
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 6_000.0);
}

/// Shows: 2899-44.
#[test]
fn whoever_is_refused_keeps_no_other_from_going() {
    let mut bench =
        Fixture::new(TrainJobControllerConfig { deletions_max: 2, ..TrainJobControllerConfig::default() });
    bench.refuse(|call| {
        let held = is(call, "delete", "trainjobs") && call.target.name.ends_with('0');
        held.then(|| ApiError::Forbidden("no".to_owned()))
    });
    flood(&mut bench, 100, 1);
    bench.run(Duration::from_secs(1));
    let left = bench.objects.keys().filter(|key| key.kind == TRAIN_JOBS).count();
    assert_eq!(left, 10, "only those that may not go");
    bench.refuse(|_| None);
    bench.run(Duration::from_secs(30));
    assert!(bench.objects.keys().all(|key| key.kind != TRAIN_JOBS));
    assert_eq!(bench.deletions_most, 2);
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 100.0);
}

/// Shows: 2899-42.
#[test]
fn fifty_thousand_that_wait_cost_nothing_while_they_wait() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    flood(&mut bench, 50_000, 86_400);
    bench.settle();
    assert_eq!(bench.number("trainjob_ttl_pending_deletions"), 50_000.0);
    let before = bench.looks();
    bench.run(Duration::from_secs(86_399));
    assert_eq!(bench.looks(), before, "nobody is looked at before the time comes");
    bench.submit("new", &tree!({}));
    bench.settle();
    // Once, and once more for each thing that was made for it.
    assert!(bench.looks() - before <= 3, "{} looks", bench.looks() - before);
    assert_eq!(bench.counted(), ["apply configmaps 1", "apply jobsets 1"]);
}

/// What the controller keeps of TrainJobs, all told.
fn kept(bench: &Fixture) -> usize {
    let it = bench.training();
    let (in_flight, waiting) = it.deletions.count();
    let samples = it.numbers.samples(bench.now).iter().filter(|sample| sample.labels.len() > 1).count();
    it.kept.len()
        + it.news.len()
        + it.retries.len()
        + in_flight
        + waiting
        + it.numbers.tracked_jobs()
        + samples
}

/// Shows: 2899-43.
#[test]
fn a_hundred_thousand_that_came_and_went_leave_nothing() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    for round in 0..100 {
        for n in 0..990 {
            let job = ended(&format!("j{round}-{n}"), &bench, n % 3);
            bench.put(&TRAIN_JOBS, &job);
        }
        // Some are there from the beginning to the end, and one of them could not be made at first.
        for n in 0..10 {
            bench.submit(&format!("whole{n}"), &tree!({"ttlSecondsAfterFinished": 1, "suspend": n == 3}));
        }
        bench.refuse(|call| {
            let late = is(call, "apply", "jobsets") && call.target.name == "whole7";
            late.then(|| ApiError::Forbidden("quota".to_owned()))
        });
        bench.run(Duration::from_secs(1));
        assert!(kept(&bench) > 0);
        bench.refuse(|_| None);
        bench.run(Duration::from_secs(2));
        (0..10).for_each(|n| bench.ends(&format!("whole{n}"), "Completed"));
        bench.run(Duration::from_secs(3));
        bench.calls.clear();
        bench.told.clear();
    }
    assert_eq!(bench.number("trainjob_ttl_deletions_total"), 100_000.0);
    assert!(bench.objects.keys().all(|key| key.kind != TRAIN_JOBS && key.kind != JOBSETS));
    assert_eq!(kept(&bench), 0);
}
