//! Pods as processes of a machine that is played: servers die, processes do not.

use std::time::Duration;

use muster_api::client::{DeletionPropagation, RequestVerb};
use muster_api::pod::PodFacts;
use muster_api::{kinds, meta};
use muster_sim::{Faults, World};
use muster_tree::{Tree, tree};

use crate::scenario::{Scenario, falls_quiet, job_facts, minutes};

pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("Jobs of processes complete once, whichever loop crashes", 0, jobs),
        Scenario::new("processes of deleted pods end and leave nothing", 0, deleted),
    ]
}

fn job(name: &str, policy: &str, command: &[&str], spec: &Tree) -> Tree {
    let command = Tree::list(command.iter().map(|word| Tree::from(*word)));
    let init = tree!({"name": "init", "image": "i", "command": ["play", "1", "0"]});
    let sidecar =
        tree!({"name": "side", "image": "i", "restartPolicy": "Always", "command": ["play", "9999", "0"]});
    let main = tree!({"name": "c", "image": "i", "command": command});
    tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": policy, "initContainers": [init, sidecar],
            "containers": [main]}}}})
    .merge(&tree!({"spec": spec}))
}

/// Every reported container state is that of a run, and no run was started twice.
fn check(world: &mut World) {
    let machine = world.machine();
    assert!(
        machine.begun().values().all(|times| *times == 1),
        "a run was begun twice: {:?}",
        machine.begun()
    );
    assert_eq!(machine.alive(), 0, "nothing runs when all is done");
}

fn jobs(world: &mut World, faults: Faults, _: u64) {
    world.add_machine();
    for made in [
        job("plain", "Never", &["play", "3", "0"], &tree!({"parallelism": 3, "completions": 5})),
        job("again", "OnFailure", &["play", "2", "1", "1", "0"], &tree!({"backoffLimit": 9})),
        job("broken", "Never", &["play", "1", "7"], &tree!({"backoffLimit": 1})),
    ] {
        world.create(&kinds::JOBS, &made).unwrap();
    }
    world.run(faults, minutes(5));
    world.run(Faults::none(), minutes(30));
    for (name, ended, succeeded) in
        [("plain", "Complete", 5), ("again", "Complete", 1), ("broken", "Failed", 0)]
    {
        let job = job_facts(world, name);
        let end = job.finished_condition().map(|c| c.str_at(&["type"]).to_owned());
        assert_eq!(end.as_deref(), Some(ended), "{name}: {:#?}", job.status);
        assert_eq!(job.status.succeeded, succeeded, "{name}");
    }
    let restarts: Vec<i64> =
        world.list(&kinds::PODS).iter().map(|pod| PodFacts::of(&pod.tree).restarts).collect();
    assert_eq!(restarts.iter().sum::<i64>(), 2, "one pod was restarted twice: {restarts:?}");
    check(world);
    falls_quiet(world);
}

fn deleted(world: &mut World, faults: Faults, _: u64) {
    world.add_machine();
    let long = job("long", "Never", &["play", "3600", "0"], &tree!({"parallelism": 4, "completions": 4}));
    world.create(&kinds::JOBS, &long).unwrap();
    world.run(faults, Duration::from_secs(30));
    for grace_secs in [Some(0), None] {
        for pod in world.list(&kinds::PODS).iter().step_by(2) {
            let _ = world.send(
                &kinds::PODS,
                &pod.tree,
                RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs },
            );
        }
        world.run(faults, Duration::from_secs(20));
    }
    let job = world.list(&kinds::JOBS).remove(0);
    world
        .send(
            &kinds::JOBS,
            &job.tree,
            RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None },
        )
        .unwrap();
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(10));
    let left: Vec<_> = world.list(&kinds::PODS).iter().map(|pod| meta::name(&pod.tree)).collect();
    assert!(left.is_empty(), "pods are left: {left:?}");
    check(world);
    assert_eq!(world.machine().kept(), 0, "nothing of them is left on disk");
    falls_quiet(world);
}
