//! Jobs on simulated nodes.

use muster_api::job::JobFacts;
use muster_api::kinds;
use muster_api::meta;
use muster_api::pod::{PodFacts, PodPhase};
use muster_sim::{Faults, World};
use muster_tree::{Tree, tree};

use crate::scenario::{Scenario, falls_quiet, find, job_facts, minutes};

/// Jobs on simulated nodes as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("three Jobs on three nodes", 3, three_jobs),
        Scenario::new("containers restarted in place count towards the limit", 2, in_place),
        Scenario::new("a Job with another managedBy", 1, managed_by_others),
    ]
}

/// A Job whose pods carry these annotations.
pub fn job(name: &str, spec: &Tree, annotations: &Tree) -> Tree {
    let base = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}}});
    base.merge(&tree!({"spec": spec}))
}

fn pods_of(world: &World, job: &JobFacts) -> Vec<PodFacts> {
    let all = world.list(&kinds::PODS);
    let mine =
        all.iter().filter(|pod| meta::controller_of(&pod.tree).is_some_and(|owner| owner.uid == job.uid));
    mine.map(|pod| PodFacts::of(&pod.tree)).collect()
}

/// Two Jobs that complete and one that fails, on simulated nodes.
fn three_jobs(world: &mut World, faults: Faults, _: u64) {
    let quick = tree!({"muster.dev/sim-run-seconds": "0.5"});
    let broken = tree!({"muster.dev/sim-exit-code": "1"});
    for made in [
        job("plain", &tree!({"parallelism": 3, "completions": 5}), &quick),
        job("indexed", &tree!({"parallelism": 4, "completions": 6, "completionMode": "Indexed"}), &tree!({})),
        job("broken", &tree!({"backoffLimit": 1}), &broken),
    ] {
        world.create(&kinds::JOBS, &made).unwrap();
    }
    world.run(faults, minutes(5));
    world.run(Faults::none(), minutes(30));
    check(world);
}

fn check(world: &mut World) {
    for (name, ended, succeeded) in
        [("plain", "Complete", 5), ("indexed", "Complete", 6), ("broken", "Failed", 0)]
    {
        let job = job_facts(world, name);
        let pods = pods_of(world, &job);
        let end = job.finished_condition().map(|c| c.str_at(&["type"]).to_owned());
        assert_eq!(end.as_deref(), Some(ended), "{name}: {:#?}\n{pods:#?}", job.status);
        assert_eq!(job.status.succeeded, succeeded, "{name}");
        assert!(
            pods.iter().all(|pod| !pod.has_tracking_finalizer && pod.phase.is_terminal()),
            "{name}: {pods:#?}"
        );
        let ended_well = pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded).count();
        assert_eq!(ended_well, succeeded as usize, "{name}: every success was counted once");
        let ended_badly = pods.iter().filter(|pod| pod.phase == PodPhase::Failed).count();
        assert_eq!(ended_badly, job.status.failed as usize, "{name}: every failure was counted once");
    }
    falls_quiet(world);
}

/// Containers that are started again in the same pod: their restarts count towards the limit.
fn in_place(world: &mut World, faults: Faults, _: u64) {
    let spec = tree!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let made = job("restarts", &spec, &tree!({"muster.dev/sim-exit-code": "1"}));
    world.create(&kinds::JOBS, &made).unwrap();
    world.run(faults, minutes(3));
    world.run(Faults::none(), minutes(30));
    let job = job_facts(world, "restarts");
    let end = job.finished_condition().map(|c| c.str_at(&["reason"]).to_owned());
    assert_eq!(end.as_deref(), Some("BackoffLimitExceeded"), "{:#?}", job.status);
    assert_eq!((job.status.succeeded, job.status.failed), (0, 1));
    falls_quiet(world);
}

/// A Job that another controller manages is left alone.
fn managed_by_others(world: &mut World, faults: Faults, _: u64) {
    let made = job("theirs", &tree!({"managedBy": "example.com/other", "completions": 2}), &tree!({}));
    world.create(&kinds::JOBS, &made).unwrap();
    world.run(faults, minutes(2));
    assert!(world.list(&kinds::PODS).is_empty(), "no pods");
    let found = find(world, &kinds::JOBS, "theirs").expect("the Job is there");
    assert_eq!(found.tree.at(&["status"]).unwrap_or(&tree!({})), &tree!({}), "no status");
    falls_quiet(world);
}
