//! Jobs that create their own gang, with that feature enabled.

use std::time::Duration;

use muster_api::client::{DeletionPropagation, Kind, RequestVerb, Uid};
use muster_api::gang_objects::{self, GangSupport, PodGroupTemplate, TemplatePolicy, names};
use muster_api::kinds;
use muster_api::meta;
use muster_node::control_plane::ControllerOptions;
use muster_sim::{Faults, World};
use muster_tree::{Tree, tree};

use crate::scenario::{find, is_quiet_for, minutes};
use crate::worlds::job;

const SEEDS: [u64; 3] = [1, 2, 3];

fn world(seed: u64) -> World {
    World::with_settings(seed, 2, ControllerOptions { jobs_make_gangs: true, ..ControllerOptions::default() })
}

fn gang(spec: &Tree) -> Tree {
    let long = tree!({"muster.dev/sim-run-seconds": "600"});
    job("train", &tree!({"scheduling": {"schedulingPolicy": {"gang": {}}}}).merge(spec), &long)
}

fn objects(world: &World) -> Vec<Uid> {
    let all = gang_objects::kinds(GangSupport::default()).flat_map(|kind: &Kind| world.list(kind));
    all.map(|it| meta::uid(&it.tree)).collect()
}

fn min(world: &World) -> Option<u32> {
    let workload = world.list(GangSupport::default().api.workloads()).pop()?;
    match PodGroupTemplate::find(&workload.tree, &names::job_template("train"))?.policy {
        TemplatePolicy::Gang { min } => Some(min),
        TemplatePolicy::Basic => None,
    }
}

/// Parallelism 4 to 8 and back, under one Workload.
///
/// Shows: 5832-54, 5832-44, 5832-46.
#[test]
fn a_running_job_grows_and_shrinks_under_one_workload() {
    for seed in SEEDS {
        let mut world = world(seed);
        world.run(Faults::none(), Duration::from_secs(30));
        world.create(&kinds::JOBS, &gang(&tree!({"parallelism": 4, "completions": 20}))).unwrap();
        world.run(Faults::all(), Duration::from_secs(20));
        world.run(Faults::none(), minutes(1));
        let (before, running) = (objects(&world), world.list(&kinds::PODS));
        assert_eq!((before.len(), running.len(), min(&world)), (2, 4, Some(4)), "seed {seed}");
        assert!(running.iter().all(|pod| gang_objects::names_group(&pod.tree)));
        for size in [8_u32, 4] {
            let one = find(&world, &kinds::JOBS, "train").unwrap();
            world
                .send(
                    &kinds::JOBS,
                    &one.tree,
                    RequestVerb::MergePatch(tree!({"spec": {"parallelism": size}})),
                )
                .unwrap();
            world.run(Faults::all(), Duration::from_secs(20));
            world.run(Faults::none(), minutes(1));
            assert_eq!(min(&world), Some(size), "seed {seed}");
            assert_eq!(objects(&world), before, "seed {seed}: the same two objects");
            let pods = world.list(&kinds::PODS);
            assert_eq!(pods.len(), size as usize, "seed {seed}");
            let kept = |uid: &Uid| pods.iter().any(|pod| meta::uid(&pod.tree) == *uid);
            assert!(
                size < 8 || running.iter().all(|pod| kept(&meta::uid(&pod.tree))),
                "seed {seed}: those that run stay"
            );
        }
        is_quiet_for(&mut world, minutes(2));
        let one = find(&world, &kinds::JOBS, "train").unwrap();
        let act =
            RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
        world.send(&kinds::JOBS, &one.tree, act).unwrap();
        world.run(Faults::none(), minutes(2));
        assert_eq!(
            (objects(&world).len(), world.list(&kinds::PODS).len()),
            (0, 0),
            "seed {seed}: nothing is left"
        );
    }
}

/// Two creates and two Events more than a Job without a gang, independent of its size.
///
/// Shows: 5832-44, 5832-52.
#[test]
fn a_gang_costs_a_job_two_creates() {
    let mut world = world(1);
    world.run(Faults::none(), Duration::from_secs(30));
    world.requests();
    let quick = tree!({"muster.dev/sim-run-seconds": "5"});
    let spec =
        tree!({"parallelism": 20, "completions": 20, "scheduling": {"schedulingPolicy": {"gang": {}}}});
    world.create(&kinds::JOBS, &job("train", &spec, &quick)).unwrap();
    world.run(Faults::none(), minutes(5));
    let calls = world.requests();
    let own = |what: &str| calls.get(&("job-controller".into(), what.into())).copied().unwrap_or(0);
    let counts =
        ["create workloads", "create podgroups", "patch workloads", "create pods", "patch jobs/status"]
            .map(own);
    assert_eq!(counts, [1, 1, 0, 20, 4], "{calls:#?}");
    let events: Vec<String> =
        world.list(&kinds::EVENTS).iter().map(|it| it.tree.str_at(&["reason"]).to_owned()).collect();
    for reason in ["WorkloadCreated", "PodGroupCreated"] {
        assert_eq!(events.iter().filter(|it| *it == reason).count(), 1, "{reason}: {events:?}");
    }
}

/// Shows: 5832-57.
#[test]
fn off_it_makes_nothing() {
    let mut world = World::new(1, 2);
    world.create(&kinds::JOBS, &gang(&tree!({"parallelism": 2, "completions": 2}))).unwrap();
    world.run(Faults::none(), minutes(1));
    assert_eq!((objects(&world).len(), world.list(&kinds::PODS).len()), (0, 2));
}

/// The pods that come last are fewer than those at first, and are placed nevertheless.
///
/// Shows: 5832-55.
#[test]
fn a_gang_ends_though_its_last_pods_are_few() {
    let mut world = world(1);
    let quick = tree!({"muster.dev/sim-run-seconds": "5"});
    let spec = tree!({"parallelism": 4, "completions": 6, "scheduling": {"schedulingPolicy": {"gang": {}}}});
    world.create(&kinds::JOBS, &job("train", &spec, &quick)).unwrap();
    world.run(Faults::none(), minutes(5));
    let end = crate::scenario::job_facts(&world, "train");
    assert_eq!(end.finished_condition().map(|it| it.text_at(&["type"])), Some("Complete".into()));
    assert_eq!(min(&world), Some(2));
}
