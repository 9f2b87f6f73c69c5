//! Whole lifecycles that only requeues drive; the controller may restart between any two.

use muster_api::client::DeletionPropagation;
use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::TrainJobFacts;
use muster_trainer::build::{BuildRequest, build};
use muster_trainer::controller::{DeadlineClock, DesiredObjects, TrainJobSnapshot, TrainJobStep, reconcile};
use muster_trainer::kinds::bundled_runtimes::bundled_runtimes;
use muster_tree::{Tree, tree};

use super::world::{Crash, World};
use super::{NothingThere, lines};

/// Runs a lifecycle by its requeues alone: there is never more than one, and it is exact to the second. With `fresh`
/// the controller forgets everything but the objects at each of them.
fn lived(case: &Tree, fresh: bool) -> (Vec<String>, World) {
    let mut world = World::of(case);
    let mut told = Vec::new();
    let restart = if fresh { tree!({"do": {"restart": true}}) } else { Tree::empty_map() };
    for _ in 0..10 {
        let now = world.now;
        told.extend(
            world
                .play(&restart, Crash::Never)
                .into_iter()
                .map(|line| format!("{} {line}", lines::stamp(now))),
        );
        match world.again {
            Some(at) => world.now = at,
            None => return (told, world),
        }
    }
    panic!("it wakes up for ever: {told:#?}");
}

/// Shows: 2899-24.
#[test]
fn the_printed_example_runs_for_two_hours_and_stays_for_one_with_or_without_restarts() {
    let case = tree!({"new": true, "job": {"metadata": {"name": "train"},
        "spec": {"ttlSecondsAfterFinished": 3600, "activeDeadlineSeconds": 7200, "trainer": {"numNodes": 2}}}});
    let want = [
        "@0 apply ConfigMap train-runtime-snapshot",
        "@0 apply JobSet train of 1",
        "@0 again @7200",
        "@7200 Failed=True DeadlineExceeded @7200 \"TrainJob exceeded its active deadline\"",
        "@7200 warning DeadlineExceeded \"TrainJob exceeded its active deadline\"",
        "@7200 delete jobset s1",
        "@7200 again @10800",
        "@10800 normal TTLExpired \"TrainJob is deleted: it finished more than 3600 s ago\"",
        "@10800 delete job due @10800",
    ];
    for fresh in [false, true] {
        let (told, world) = lived(&case, fresh);
        assert_eq!(told, want);
        assert!(world.job.is_none());
    }
}

#[test]
fn whatever_is_overdue_when_somebody_looks_again_happens_at_once() {
    let case = tree!({"job": {"spec": {"ttlSecondsAfterFinished": 10, "activeDeadlineSeconds": 100}}});
    let mut world = World::of(&case);
    let told =
        |world: &mut World, at: i64| world.play(&tree!({"at": at, "do": {"restart": true}}), Crash::Never);
    assert_eq!(told(&mut world, 5), ["again @100"]);
    // No reconciliation for a day: the deadline is enforced late, and the TTL counts from then, since both follow
    // from the objects.
    assert_eq!(told(&mut world, 86_400).last().map(String::as_str), Some("again @86410"));
    assert_eq!(told(&mut world, 100_000).last().map(String::as_str), Some("delete job due @86410"));
}

#[test]
fn without_any_time_to_live_the_end_is_written_and_then_the_job_goes() {
    let case = tree!({"job": {"spec": {"ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 100}}});
    let (told, world) = lived(&case, true);
    let ended = told.iter().position(|line| line.contains("Failed=True")).unwrap();
    let gone = told.iter().position(|line| line.contains("delete job")).unwrap();
    assert!(ended < gone && world.job.is_none(), "{told:#?}");
}

/// Shows: 2899-14.
#[test]
fn a_job_goes_after_its_jobset_and_before_all_else() {
    let job = tree!({"metadata": {"name": "train", "namespace": "ns", "uid": "u"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "ttlSecondsAfterFinished": 10},
        "status": {"conditions": [(lines::condition("Complete=True AllJobsCompleted @50 \"done\""))]}});
    let owner = tree!([{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "train",
        "uid": "u", "controller": true}]);
    let set = |end: &str, active: i64| {
        let conditions: Vec<Tree> = (!end.is_empty())
            .then(|| lines::condition(&format!("{end}=True R @50 \"m\"")))
            .into_iter()
            .collect();
        let counts = lines::job(&format!("node 0 1 0 {active} 0"));
        tree!({"kind": "JobSet", "metadata": {"name": "train", "namespace": "ns", "uid": "s",
                "ownerReferences": (owner.clone())},
            "status": {"conditions": (Tree::list(conditions)), "replicatedJobsStatus": [counts]}})
    };
    for (says, jobset, want) in [
        ("its JobSet is gone", None, DeletionPropagation::Background),
        ("its JobSet completed", Some(set("Completed", 0)), DeletionPropagation::Foreground),
        ("its JobSet failed", Some(set("Failed", 0)), DeletionPropagation::Foreground),
        ("its JobSet failed and still has a Job", Some(set("Failed", 1)), DeletionPropagation::Foreground),
        ("its JobSet runs", Some(set("", 1)), DeletionPropagation::Foreground),
        ("its JobSet is told of nothing yet", Some(set("", 0)), DeletionPropagation::Foreground),
    ] {
        let around = &NothingThere;
        let clock = DeadlineClock::Auto;
        let picture = TrainJobSnapshot { job: &job, jobset: jobset.as_ref(), made: None, around, clock };
        let steps = reconcile(&picture, lines::at(60.0));
        let deleted = steps.iter().find_map(|it| match it {
            TrainJobStep::DeleteTrainJob { cascade, .. } => Some(*cascade),
            _ => None,
        });
        assert_eq!(deleted, Some(want), "{says}");
    }
}

/// Shows: 2899-10.
#[test]
fn a_year_changes_nothing_for_who_says_nothing() {
    let done = tree!({"conditions": "Complete=True AllJobsCompleted @50 \"done\""});
    for case in [done, Tree::empty_map()] {
        let mut world = World::of(&case);
        let year = world.play(&tree!({"at": 31_536_000}), Crash::Never);
        assert!(year.is_empty() && world.job.is_some(), "{year:?}");
        assert_eq!(world.again, None::<Time>);
    }
}

#[test]
fn what_is_built_of_a_runtime_is_applied_and_built_again_of_what_was_kept() {
    let job = tree!({"metadata": {"name": "train", "namespace": "ns", "uid": "u"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}}});
    let facts = TrainJobFacts::of(&job);
    let all = bundled_runtimes("");
    let make = |kept: Option<&Tree>, runtime: Option<&Tree>| {
        DesiredObjects::of(&facts, kept, runtime, |runtime| Ok(build(&BuildRequest::new(&job, runtime))?))
    };
    let made = make(None, all.first());
    let clock = DeadlineClock::Auto;
    let picture =
        TrainJobSnapshot { job: &job, jobset: None, made: Some(&made), around: &NothingThere, clock };
    let applied = reconcile(&picture, lines::at(0.0)).into_iter().map(|step| match step {
        TrainJobStep::Apply(object) => meta::kind_name(&object),
        other => panic!("{other:?}"),
    });
    assert_eq!(applied.collect::<Vec<_>>(), ["ConfigMap", "JobSet"]);
    let made = made.unwrap();
    let again = make(made.snapshot.as_ref(), None).unwrap();
    assert_eq!((again.built, again.snapshot), (made.built, None));
}
