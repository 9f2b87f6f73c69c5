//! Deadlines and TTLs to the second, with restarted controllers and clock skew.

use std::time::Duration;

use muster_api::client::DeletionPropagation;
use muster_api::kinds;
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_api::train::consts::conditions;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_control::training::DeadlineClock;
use muster_sim::{Faults, RequestCounts, SeededRng, World};
use muster_tree::{Tree, tree};

use super::things::{self, LONG, QUICK};
use super::{NODES, Stage, told};
use crate::scenario::{find, minutes};

const MANAGER: &str = "trainer";

fn world() -> World {
    let mut world = World::with_settings(1, NODES, told(DeadlineClock::Auto, 1));
    for runtime in things::runtimes() {
        world.create(&CLUSTER_TRAINING_RUNTIMES, &runtime).unwrap();
    }
    world.run(Faults::none(), Duration::from_secs(30));
    world
}

fn stage(world: &mut World) -> Stage<'_> {
    Stage { world, dice: SeededRng::new(1), deleted: std::collections::BTreeSet::new() }
}

fn run(stage: &mut Stage<'_>, secs: u64) {
    stage.world.run(Faults::none(), Duration::from_secs(secs));
}

/// When a condition changed last.
fn since(stage: &Stage<'_>, kind: &str) -> Time {
    let status = stage.facts("a").status;
    Time::of(status.condition(kind).and_then(|it| it.at(path::SINCE))).unwrap()
}

/// Shows: 2899-11, 2899-12, 2899-18, 2899-19, 2899-20, 2899-24.
#[test]
fn the_printed_example_lives_for_two_hours_and_stays_for_one() {
    let mut world = world();
    let mut stage = stage(&mut world);
    let began = stage.world.now();
    stage.submit("a", LONG, &tree!({"activeDeadlineSeconds": 7200, "ttlSecondsAfterFinished": 3600}));
    run(&mut stage, 7199);
    assert!(!stage.facts("a").status.is_finished() && !stage.world.list(&kinds::PODS).is_empty());
    run(&mut stage, 2);
    stage.is_overdue("a");
    assert_eq!(since(&stage, conditions::FAILED), began + Duration::from_secs(7200));
    run(&mut stage, 60);
    assert!(stage.world.list(&kinds::JOBSETS).is_empty() && stage.world.list(&kinds::PODS).is_empty());
    run(&mut stage, 3600 - 62);
    assert!(stage.has("a"), "not a second early");
    run(&mut stage, 2);
    assert!(!stage.has("a"));
}

/// Shows: 2899-28, 2899-48, 2899-51.
#[test]
fn without_a_leader_nothing_happens_and_overdue_work_follows_at_once() {
    let mut world = world();
    let mut stage = stage(&mut world);
    stage.submit("a", LONG, &tree!({"activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 100}));
    run(&mut stage, 50);
    stage.world.lose_leadership();
    run(&mut stage, 1000);
    assert!(!stage.facts("a").status.is_finished());
    stage.world.acquire_leadership();
    run(&mut stage, 5);
    stage.is_overdue("a");
    stage.world.lose_leadership();
    run(&mut stage, 50);
    stage.world.acquire_leadership();
    run(&mut stage, 40);
    assert!(stage.has("a"), "the time goes on where it was");
    run(&mut stage, 10);
    assert!(!stage.has("a"));
}

/// Shows: 2899-09, 2899-51.
#[test]
fn stored_times_win_over_the_clock_of_the_controller() {
    for (ahead, failed, gone) in [(40, 60, 100 + 60), (-40, 140, 140 + 60)] {
        let mut world = world();
        let mut stage = stage(&mut world);
        let began = stage.world.now();
        stage.world.set_clock_skew(ahead);
        stage.submit("a", LONG, &tree!({"activeDeadlineSeconds": 100, "ttlSecondsAfterFinished": 60}));
        run(&mut stage, failed - 1);
        assert!(!stage.facts("a").status.is_finished(), "{ahead}");
        run(&mut stage, 2);
        stage.is_overdue("a");
        let told = since(&stage, conditions::FAILED);
        assert_eq!(
            told,
            began + Duration::from_secs(100),
            "{ahead}: what is told fits what was stored before"
        );
        // The clock is set right: what is stored counts, not when the controller saw it.
        stage.world.set_clock_skew(0);
        run(&mut stage, gone - failed - 2);
        let left = stage.has("a");
        assert_eq!(left, ahead > 0, "{ahead}: an end in the future postpones, one in the past is overdue");
        run(&mut stage, 2);
        assert!(!stage.has("a"), "{ahead}");
        let late =
            things::number(stage.world.control(), "trainjob_ttl_deletion_latency_seconds", stage.world.now());
        assert_eq!(late, 1);
    }
}

/// The requests of the TrainJob controller in this interval.
fn asked(world: &mut World, spec: &Tree, runtime: &str) -> RequestCounts {
    world.requests();
    let mut stage = stage(world);
    stage.submit("a", runtime, spec);
    run(&mut stage, 600);
    let calls = stage.world.requests();
    let asked =
        calls.into_iter().filter(|((by, what), _)| by == MANAGER && !what.ends_with("events")).collect();
    if let Some(job) = find(stage.world, &TRAIN_JOBS, "a") {
        stage.remove(&TRAIN_JOBS, &job.tree, DeletionPropagation::Foreground);
    }
    run(&mut stage, 120);
    asked
}

/// Shows: 2899-07, 2899-40, 2899-41.
#[test]
fn what_either_field_costs_in_calls() {
    let mut world = world();
    let plain = asked(&mut world, &tree!({}), QUICK);
    let timed =
        asked(&mut world, &tree!({"ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 500}), QUICK);
    let more = |what: &str, n: u64| ((MANAGER.into(), what.to_owned()), n);
    let mut want = plain.clone();
    want.extend([more("delete trainjobs", 1)]);
    assert_eq!(timed, want, "a time to live: one deletion, and nothing is read");
    let busy = asked(&mut world, &tree!({}), LONG);
    let late = asked(&mut world, &tree!({"activeDeadlineSeconds": 500}), LONG);
    let mut want = busy.clone();
    *want.get_mut(&(MANAGER.into(), "patch trainjobs/status".to_owned())).unwrap() += 1;
    want.extend([more("delete jobsets", 1)]);
    assert_eq!(late, want, "a deadline: one status and one deletion");
    assert!(busy.keys().all(|(_, what)| !what.starts_with("get")), "{busy:?}");
    crate::scenario::is_quiet_for(&mut world, minutes(10));
}

/// Shows: 2899-14.
#[test]
fn owned_objects_are_deleted_with_it_and_retained_ones_stay() {
    let mut world = world();
    let long = things::runtimes().into_iter().find(|it| it.str_at(&["metadata", "name"]) == QUICK).unwrap();
    let template = |name: &str, policy: &str| crate::jobsets::volume(name, policy);
    let volumes = Tree::list([template("cache", "Delete"), template("keep", "Retain")]);
    let jobs = long.items_at(&["spec", "template", "spec", "replicatedJobs"]);
    let jobs = Tree::list(jobs.iter().map(|job| crate::jobsets::mounting(job, &["cache", "keep"])));
    let runtime = long
        .with(&["metadata", "name"], "volumes")
        .with(&["spec", "template", "spec", "replicatedJobs"], jobs)
        .with(&["spec", "template", "spec", "volumeClaimPolicies"], volumes);
    world.create(&CLUSTER_TRAINING_RUNTIMES, &runtime).unwrap();
    let mut stage = stage(&mut world);
    stage.submit("a", "volumes", &tree!({"ttlSecondsAfterFinished": 30}));
    run(&mut stage, 25);
    assert_eq!(stage.world.list(&kinds::PERSISTENT_VOLUME_CLAIMS).len(), 2);
    run(&mut stage, 120);
    assert!(!stage.has("a"));
    let left = |kind| {
        let all = stage.world.list(kind);
        all.iter().map(|it| it.tree.str_at(&["metadata", "name"]).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(left(&kinds::PERSISTENT_VOLUME_CLAIMS), ["keep-a"]);
    for kind in [&kinds::JOBSETS, &kinds::JOBS, &kinds::PODS] {
        assert!(left(kind).is_empty(), "{}", kind.plural);
    }
    assert!(!left(&kinds::CONFIG_MAPS).iter().any(|name| name.starts_with("a-")));
}
