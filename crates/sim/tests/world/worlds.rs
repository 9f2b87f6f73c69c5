//! Jobs under faults, many seeds.

use std::time::Duration;

use muster_api::job::{JobFacts, JobStatus};
use muster_api::kinds;
use muster_api::meta;
use muster_api::pod::{Phase, PodFacts};
use muster_sim::{Faults, World, heartbeat};
use muster_tree::{Tree, tree};

/// A Job whose pods carry these annotations.
pub fn job(name: &str, spec: &Tree, annotations: &Tree) -> Tree {
    let base = tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}}});
    base.merge(&tree!({"spec": spec}))
}

/// So many minutes.
pub fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

fn pods_of(world: &World, job: &JobFacts) -> Vec<PodFacts> {
    let all = world.all(&kinds::PODS);
    let mine = all.iter().filter(|pod| meta::controller(&pod.tree).is_some_and(|owner| owner.uid == job.uid));
    mine.map(|pod| PodFacts::of(&pod.tree)).collect()
}

fn facts(world: &World, name: &str) -> JobFacts {
    let all = world.all(&kinds::JOBS);
    let found = all.iter().find(|job| meta::name(&job.tree) == name);
    JobFacts::of(&found.unwrap_or_else(|| panic!("no job {name}")).tree)
}

/// A world with three Jobs: two that complete and one that fails.
fn world(seed: u64, faults: Faults) -> World {
    let mut world = World::new(seed, 3);
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
    world
}

fn check(world: &mut World, says: &str) {
    for (name, ended, succeeded) in
        [("plain", "Complete", 5), ("indexed", "Complete", 6), ("broken", "Failed", 0)]
    {
        let job = facts(world, name);
        let JobStatus { conditions, .. } = &job.status;
        let pods = pods_of(world, &job);
        let end = job.finished().map(|c| c.str_at(&["type"]).to_owned());
        assert_eq!(
            end.as_deref(),
            Some(ended),
            "{says}: {name}: {conditions:?}\n{:?}\n{pods:#?}\n{:#?}",
            job.status,
            world.refusals()
        );
        assert_eq!(job.status.succeeded, succeeded, "{says}: {name}");
        assert!(pods.iter().all(|pod| !pod.tracked && pod.phase.ended()), "{says}: {name}: {pods:#?}");
        let ended_well = pods.iter().filter(|pod| pod.phase == Phase::Succeeded).count();
        assert_eq!(ended_well, succeeded as usize, "{says}: {name}: every success was counted once");
        let ended_badly = pods.iter().filter(|pod| pod.phase == Phase::Failed).count();
        assert_eq!(ended_badly, job.status.failed as usize, "{says}: {name}: every failure was counted once");
    }
    world.writes();
    world.run(Faults::none(), minutes(5));
    let writes = world.writes();
    let others: Vec<_> = writes.iter().filter(|(resource, _)| **resource != heartbeat()).collect();
    assert!(others.is_empty(), "{says}: a steady world writes nothing but leases: {others:?}");
}

#[test]
fn jobs_end_with_exact_counts_when_nothing_goes_wrong() {
    let mut world = world(1, Faults::none());
    check(&mut world, "no faults");
}

#[test]
fn whatever_happens_jobs_end_with_exact_counts_and_the_world_falls_quiet() {
    let seeds = std::env::var("MUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let mut crashes = 0;
    for seed in 0..seeds {
        let mut world = world(seed, Faults::all());
        check(&mut world, &format!("seed {seed}"));
        crashes += world.crashes();
    }
    assert!(crashes > 0, "the faults did happen");
}

#[test]
fn one_seed_is_one_world() {
    let first = world(7, Faults::all()).hash();
    assert_eq!(first, world(7, Faults::all()).hash(), "in one process");
    assert_ne!(first, world(8, Faults::all()).hash(), "the hash sees something");
    let me = std::env::current_exe().unwrap();
    let other = std::process::Command::new(me)
        .args(["--exact", "worlds::tell_hash", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&other.stdout).into_owned();
    assert!(said.contains(&format!("hash {first:016x}")), "in another process: {first:016x} not in {said}");
}

#[test]
#[ignore = "run by one_seed_is_one_world in a process of its own"]
fn tell_hash() {
    println!("hash {:016x}", world(7, Faults::all()).hash());
}
