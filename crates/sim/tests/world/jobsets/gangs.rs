//! JobSets with gang scheduling: which objects are created, in which order, and that none is left.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{DeletionPropagation, Kind, RequestVerb};
use muster_api::consts::managers;
use muster_api::gang_objects::{self, GangSupport, PodGroupTemplate, TemplatePolicy, consts};
use muster_api::kinds;
use muster_api::meta;
use muster_sim::{Faults, RequestCounts, SeededRng, World};
use muster_tree::{Tree, tree};

use super::sets::{after, jobs, policy, set};
use super::stories::{BASE, over, spoil_sometimes};
use super::{NODES, Stage, Story};
use crate::scenario::{find, minutes};
use crate::worlds;

fn workloads() -> &'static Kind {
    GangSupport::default().api.workloads()
}

fn groups() -> &'static Kind {
    GangSupport::default().api.groups().expect("they are objects here")
}

/// A JobSet with the gang annotation.
fn asking(word: &str, all: &[Tree], more: &Tree) -> Tree {
    set("s", all, more).with(&["metadata", "annotations", consts::GANG], word)
}

fn names(world: &World, kind: &Kind) -> Vec<String> {
    world.list(kind).iter().map(|it| meta::name(&it.tree).to_string()).collect()
}

fn min_of(world: &World, template: &str) -> Option<u32> {
    let workload = find(world, workloads(), "s")?;
    match PodGroupTemplate::find(&workload.tree, template)?.policy {
        TemplatePolicy::Gang { min } => Some(min),
        TemplatePolicy::Basic => None,
    }
}

/// What happens to gangs.
pub fn stories() -> Vec<Story> {
    vec![
        Story {
            says: "a gang of all pods is restarted until it is through or has failed too often",
            begin: |stage| begin(stage, "AllReplicas", &[]),
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
        Story {
            says: "gangs of single Jobs are deleted and created with their Jobs",
            begin: |stage| begin(stage, "PerJob", &[super::sets::rule("RestartJob", "a")]),
            user: spoil_sometimes,
            end: over,
            ..BASE
        },
        Story {
            says: "gangs of replicatedJobs that wait for each other, deleted and back under their names",
            begin: ordered,
            user: |stage, round| {
                let there = find(stage.world, &kinds::JOBSETS, "s").is_some();
                match stage.dice.below(5) {
                    0 if there => stage.delete("s"),
                    1 if !there => ordered(stage),
                    _ => spoil_sometimes(stage, round),
                }
            },
            end: |stage| {
                if find(stage.world, &kinds::JOBSETS, "s").is_some() {
                    over(stage);
                }
            },
            ..BASE
        },
    ]
}

fn begin(stage: &mut Stage<'_>, word: &str, rules: &[Tree]) {
    let all = ["a", "b"].map(|name| jobs(name, 2, stage.seconds()));
    stage.create(&asking(word, &all, &policy(3, "Recreate", rules)));
}

fn ordered(stage: &mut Stage<'_>) {
    let [a, b] = ["a", "b"].map(|name| jobs(name, 1, stage.seconds()));
    stage.create(&asking("AllReplicas", &[a, after(&b, "a", "Ready")], &policy(3, "Recreate", &[])));
}

/// One gang, restarted once.
pub fn small() -> Story {
    Story {
        begin: |stage| {
            let more = policy(1, "Recreate", &[]).merge(&tree!({"network": {"enableDNSHostnames": false}}));
            stage.create(&asking("PerReplicatedJob", &[jobs("a", 1, 8)], &more));
        },
        user: |stage, round| {
            if round == 2 {
                stage.spoil();
            }
        },
        end: |stage| {
            assert_eq!(stage.terminal("s"), "Completed", "{:?}", stage.facts("s").status);
            assert_eq!(names(stage.world, workloads()), ["s"]);
            assert_eq!(names(stage.world, groups()), ["s-a-r1"], "the one of the attempt before is gone");
            assert_eq!(min_of(stage.world, "a"), Some(2));
        },
        ..BASE
    }
}

fn sent(calls: &RequestCounts, what: &str) -> u64 {
    calls.iter().filter(|((_, did), _)| did == what).map(|(_, n)| n).sum()
}

/// Shows: 5832-44, 5832-52, 5832-46.
#[test]
fn a_gang_costs_one_workload_and_one_group_for_each_attempt() {
    let all = ["a", "b"].map(|name| jobs(name, 3, 60));
    for (word, each) in [("AllReplicas", 1), ("PerReplicatedJob", 2), ("PerJob", 6)] {
        let mut world = World::new(1, NODES);
        world.run(Faults::none(), Duration::from_secs(30));
        world.requests();
        let mut stage = Stage { world: &mut world, dice: SeededRng::new(1), notes: Vec::new() };
        stage.create(&asking(word, &all, &policy(1, "Recreate", &[])));
        stage.world.run(Faults::none(), Duration::from_secs(15));
        stage.spoil();
        stage.world.run(Faults::none(), minutes(5));
        assert_eq!((stage.terminal("s").as_str(), stage.facts("s").status.restarts), ("Completed", 1));
        let calls = world.requests();
        assert_eq!(sent(&calls, "create workloads"), 1, "{word}: {calls:#?}");
        assert_eq!(sent(&calls, "create podgroups"), 2 * each, "{word}");
        assert_eq!(sent(&calls, "delete podgroups"), each, "{word}: those of the attempt that is over");
        assert_eq!(sent(&calls, "patch workloads"), 0, "{word}: its size is as it was");
        let makers: BTreeMap<&str, u64> = calls
            .iter()
            .filter(|((_, what), _)| *what == "create pods")
            .map(|((by, _), n)| (by.as_str(), *n))
            .collect();
        assert_eq!(
            makers.keys().collect::<Vec<_>>(),
            [&managers::JOB.as_str()],
            "pods come from whom they always came"
        );
        let group = world.list(groups())[0].tree.clone();
        assert_eq!(meta::controller_of(&group).map(|it| it.kind), Some("JobSet".into()));
        let set = find(&world, &kinds::JOBSETS, "s").unwrap();
        let act =
            RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
        world.send(&kinds::JOBSETS, &set.tree, act).unwrap();
        world.run(Faults::none(), minutes(2));
        for kind in gang_objects::kinds(GangSupport::default()).chain([&kinds::JOBS, &kinds::PODS]) {
            assert_eq!(names(&world, kind), [""; 0], "{word}: {} are left", kind.plural);
        }
    }
}

/// Shows: 5832-57.
#[test]
fn no_group_without_the_annotation() {
    let mut world = World::new(1, NODES);
    let quick = tree!({"muster.dev/sim-run-seconds": "1"});
    world
        .create(&kinds::JOBS, &worlds::job("j", &tree!({"parallelism": 2, "completions": 2}), &quick))
        .unwrap();
    world.create(&kinds::JOBSETS, &set("s", &[jobs("a", 2, 2)], &policy(1, "Recreate", &[]))).unwrap();
    world.run(Faults::none(), minutes(3));
    let asked: Vec<_> = world
        .requests()
        .into_keys()
        .filter(|(_, what)| what.contains("workloads") || what.contains("podgroups"))
        .collect();
    assert!(asked.is_empty(), "{asked:?}");
    for kind in gang_objects::kinds(GangSupport::default()) {
        assert_eq!(names(&world, kind), [""; 0]);
    }
    assert!(world.list(&kinds::PODS).iter().all(|pod| !gang_objects::names_group(&pod.tree)));
}

/// What the JobSet says is refused or taken by the server itself.
///
/// Shows: 5832-50.
#[test]
fn a_word_that_is_none_is_refused() {
    let mut world = World::new(1, NODES);
    let why = world.create(&kinds::JOBSETS, &asking("Some", &[jobs("a", 1, 1)], &tree!({}))).unwrap_err();
    assert!(why.to_string().contains("\"AllReplicas\", \"PerReplicatedJob\", \"PerJob\""), "{why}");
}
