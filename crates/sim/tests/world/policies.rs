//! Each policy of Jobs under faults: the counts are exact, the Job ends as it should, and then nothing is written.

use std::time::Duration;

use muster_api::job::{JobFacts, JobStatus};
use muster_api::kinds;
use muster_api::meta;
use muster_api::pod::PodFacts;
use muster_api::port::{Act, Cascade, Object};
use muster_sim::{Dice, Faults, World, heartbeat};
use muster_tree::{Tree, tree};

use crate::kubelet::{Asked, End, Ledger};
use crate::worlds::{job, minutes};

/// Looks of the kubelet before a Job must have ended.
const ROUNDS_MAX: u32 = 400;

struct Play {
    says: &'static str,
    spec: fn() -> Tree,
    /// How pods end.
    ends: fn(Asked) -> End,
    /// What the user does in a round.
    user: fn(&mut World, &mut Ledger, u32),
    /// The last condition and its reason.
    end: (&'static str, &'static str),
    /// What the counts must be.
    counts: fn(&Ledger, &JobStatus) -> (u32, u32),
    /// Completed and failed indexes.
    indexes: (&'static str, &'static str),
}

fn good(_: Asked) -> End {
    End::Good
}

fn nothing(_: &mut World, _: &mut Ledger, _: u32) {}

fn patch_job(world: &mut World, spec: &Tree) {
    let job = the_job(world).expect("the Job is there");
    world.call(&kinds::JOBS, &job.tree, Act::Merge(tree!({"spec": spec}))).unwrap();
}

fn the_job(world: &World) -> Option<Object> {
    world.all(&kinds::JOBS).into_iter().next()
}

/// Changes the metadata of one active pod.
fn edit_pod(world: &mut World, metadata: &Tree) {
    if let Some(pod) = Ledger::active(world) {
        world.call(&kinds::PODS, &pod.tree, Act::Merge(tree!({"metadata": metadata}))).unwrap();
    }
}

fn plays() -> Vec<Play> {
    let base = Play {
        says: "",
        spec: || tree!({}),
        ends: good,
        user: nothing,
        end: ("Complete", "CompletionsReached"),
        counts: |_, _| (0, 0),
        indexes: ("", ""),
    };
    vec![
        Play {
            says: "each index has its own limit",
            spec: || tree!({"completionMode": "Indexed", "completions": 4, "parallelism": 3, "backoffLimitPerIndex": 1}),
            ends: |asked| match (asked.index, asked.ended_before) {
                (Some(0), _) | (Some(1), 0) => End::Bad(1),
                _ => End::Good,
            },
            end: ("Failed", "FailedIndexes"),
            counts: |_, _| (3, 3),
            indexes: ("1-3", "0"),
            ..base
        },
        Play {
            says: "one failed index is too many",
            spec: || tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 0, "maxFailedIndexes": 0}),
            ends: |asked| if asked.index == Some(2) { End::Bad(1) } else { End::Later },
            end: ("Failed", "MaxFailedIndexesExceeded"),
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            indexes: ("", "2"),
            ..base
        },
        Play {
            says: "a rule fails the Job",
            spec: || {
                tree!({"completions": 4, "parallelism": 4, "podFailurePolicy": {"rules": [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}})
            },
            ends: |asked| if asked.round > 6 { End::Bad(42) } else { End::Later },
            end: ("Failed", "PodFailurePolicy"),
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            ..base
        },
        Play {
            says: "disruptions are ignored",
            spec: || {
                tree!({"completions": 3, "parallelism": 2, "backoffLimit": 0, "podFailurePolicy": {"rules": [
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}})
            },
            ends: |asked| if asked.ended_before < 2 { End::Disrupted } else { End::Good },
            counts: |_, _| (3, 0),
            ..base
        },
        Play {
            says: "a rule fails an index, others are ignored",
            spec: || {
                tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 3,
                "podFailurePolicy": {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [5]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}})
            },
            ends: |asked| match (asked.index, asked.ended_before) {
                (Some(0), _) => End::Bad(5),
                (Some(1), 0 | 1) => End::Disrupted,
                _ => End::Good,
            },
            end: ("Failed", "FailedIndexes"),
            counts: |_, _| (2, 1),
            indexes: ("1,2", "0"),
            ..base
        },
        Play {
            says: "the leader is enough, and the others are no failures",
            spec: || {
                tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3,
                "successPolicy": {"rules": [{"succeededIndexes": "0"}]}})
            },
            ends: |asked| if asked.index == Some(0) { End::Good } else { End::Later },
            end: ("Complete", "SuccessPolicy"),
            counts: |_, _| (1, 0),
            indexes: ("0", ""),
            ..base
        },
        Play {
            says: "suspended and resumed: pods taken away are no failures",
            spec: || tree!({"completions": 4, "parallelism": 2}),
            user: |world, _, round| match round {
                3 | 9 => patch_job(world, &tree!({"suspend": true})),
                6 | 12 => patch_job(world, &tree!({"suspend": false})),
                _ => {}
            },
            ends: |asked| if asked.round > 12 { End::Good } else { End::Later },
            counts: |_, _| (4, 0),
            ..base
        },
        Play {
            says: "made smaller, then larger",
            spec: || tree!({"completionMode": "Indexed", "completions": 4, "parallelism": 4}),
            user: |world, _, round| match round {
                3 => patch_job(world, &tree!({"completions": 2, "parallelism": 2})),
                7 => patch_job(world, &tree!({"completions": 6, "parallelism": 6})),
                _ => {}
            },
            ends: |asked| if asked.round > 8 || asked.index == Some(3) { End::Good } else { End::Later },
            counts: |_, _| (6, 0),
            indexes: ("0-5", ""),
            ..base
        },
        Play {
            says: "each pod that a user deletes is one failure, replaced at once",
            spec: || tree!({"completions": 3, "parallelism": 3, "backoffLimit": 99}),
            user: delete_some,
            ends: |asked| if asked.round > 8 { End::Good } else { End::Later },
            counts: |ledger, _| (3, u32::try_from(ledger.deleted.len()).unwrap()),
            ..base
        },
        Play {
            says: "each pod that a user deletes is one failure, replaced when it has ended",
            spec: || tree!({"completions": 3, "parallelism": 3, "backoffLimit": 99, "podReplacementPolicy": "Failed"}),
            user: |world, ledger, round| {
                // A pod without a node goes without ever ending: that is no failure under this policy.
                if Ledger::active(world).is_some_and(|pod| !PodFacts::of(&pod.tree).node.is_empty()) {
                    delete_some(world, ledger, round);
                }
            },
            ends: |asked| if asked.round > 8 { End::Good } else { End::Later },
            counts: |ledger, _| (3, u32::try_from(ledger.deleted.len()).unwrap()),
            ..base
        },
        Play {
            says: "it has run too long",
            spec: || tree!({"completions": 3, "parallelism": 3, "activeDeadlineSeconds": 30}),
            ends: |_| End::Later,
            end: ("Failed", "DeadlineExceeded"),
            counts: |ledger, _| (0, u32::try_from(ledger.pods.len()).unwrap()),
            ..base
        },
        Play {
            says: "somebody takes a finalizer away: that pod is not counted, its work is done again",
            spec: || tree!({"completions": 2, "parallelism": 2}),
            user: |world, _, round| {
                if round == 3 {
                    edit_pod(world, &tree!({"finalizers": null}));
                }
            },
            ends: |asked| if asked.round > 3 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..base
        },
        Play {
            says: "somebody takes an owner away: the pod is adopted again",
            spec: || tree!({"completions": 2, "parallelism": 2}),
            user: |world, _, round| {
                if round == 3 {
                    edit_pod(world, &tree!({"ownerReferences": null}));
                }
            },
            ends: |asked| if asked.round > 3 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..base
        },
        Play {
            says: "somebody takes the labels away: the pod is let go and replaced",
            spec: || tree!({"completions": 2, "parallelism": 2}),
            user: |world, _, round| {
                if round == 3 {
                    edit_pod(world, &tree!({"labels": null}));
                }
            },
            ends: |asked| if asked.round > 6 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..base
        },
    ]
}

fn delete_some(world: &mut World, ledger: &mut Ledger, round: u32) {
    if let (3..6, Some(pod)) = (round, Ledger::active(world)) {
        ledger.delete(world, &pod);
    }
}

/// A world with the node that the kubelet of these plays speaks for; the scheduler leaves it alone.
fn world_with_a_node(seed: u64) -> World {
    let mut world = World::new(seed, 0);
    let node = tree!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}, "spec": {"unschedulable": true}});
    world.create(&kinds::NODES, &node).unwrap();
    world
}

/// Plays until the Job has ended or for so many rounds; then without faults until all is said.
fn play(play: &Play, seed: u64, faults: Faults) -> (World, Ledger) {
    let mut world = world_with_a_node(seed);
    let dice = Dice::new(seed ^ 0x000c_0ffe_e000);
    let mut ledger = Ledger::default();
    world.create(&kinds::JOBS, &job("j", &(play.spec)(), &tree!({}))).unwrap();
    for round in 0..ROUNDS_MAX {
        // With faults at first; whoever has not ended after a while gets peace.
        let faults = if round < 40 { faults } else { Faults::none() };
        world.run(faults, Duration::from_secs(3));
        (play.user)(&mut world, &mut ledger, round);
        ledger.act(&mut world, &dice, play.ends);
        let ended = the_job(&world).is_none_or(|job| JobFacts::of(&job.tree).finished().is_some());
        if ended && round > 15 {
            break;
        }
    }
    world.run(Faults::none(), minutes(30));
    (world, ledger)
}

fn check(play: &Play, world: &mut World, ledger: &Ledger, seed: u64) {
    let says = format!("{}, seed {seed}", play.says);
    let job = JobFacts::of(&the_job(world).expect("the Job is there").tree);
    let end = job.finished().map(|c| (c.str_at(&["type"]).to_owned(), c.str_at(&["reason"]).to_owned()));
    let end = end.as_ref().map(|(kind, reason)| (kind.as_str(), reason.as_str()));
    assert_eq!(end, Some(play.end), "{says}: {:#?}\n{ledger:#?}\n{:#?}", job.status, world.refusals());
    let (succeeded, failed) = (play.counts)(ledger, &job.status);
    assert_eq!((job.status.succeeded, job.status.failed), (succeeded, failed), "{says}\n{ledger:#?}");
    let indexes = (job.status.completed_indexes.as_str(), job.status.failed_indexes.as_deref().unwrap_or(""));
    assert_eq!(indexes, play.indexes, "{says}");
    let held = world.all(&kinds::PODS).into_iter().map(|pod| PodFacts::of(&pod.tree));
    assert_eq!(held.filter(|pod| pod.tracked).count(), 0, "{says}: no pod is held");
    falls_quiet(world, &says);
}

fn falls_quiet(world: &mut World, says: &str) {
    world.writes();
    world.run(Faults::none(), minutes(5));
    let writes = world.writes();
    let others: Vec<_> = writes.iter().filter(|(resource, _)| **resource != heartbeat()).collect();
    assert!(others.is_empty(), "{says}: a steady world writes nothing but leases: {others:?}");
}

fn seeds() -> u64 {
    std::env::var("MUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

#[test]
fn policies_when_nothing_goes_wrong() {
    for one in plays() {
        let (mut world, ledger) = play(&one, 1, Faults::none());
        check(&one, &mut world, &ledger, 1);
    }
}

#[test]
fn whatever_happens_policies_hold_and_counts_are_exact() {
    let mut crashes = 0;
    for (one, seed) in plays().iter().flat_map(|one| (0..seeds()).map(move |seed| (one, seed))) {
        let (mut world, ledger) = play(one, seed, Faults::all());
        check(one, &mut world, &ledger, seed);
        crashes += world.crashes();
    }
    assert!(crashes > 0, "the faults did happen");
}

#[test]
fn deleted_jobs_leave_no_pod_behind_that_is_held() {
    for (cascade, seed) in [Cascade::Background, Cascade::Foreground, Cascade::Orphan]
        .into_iter()
        .flat_map(|cascade| (0..seeds()).map(move |seed| (cascade, seed)))
    {
        let mut world = world_with_a_node(seed);
        let dice = Dice::new(seed);
        let mut ledger = Ledger::default();
        world
            .create(&kinds::JOBS, &job("j", &tree!({"completions": 4, "parallelism": 3}), &tree!({})))
            .unwrap();
        for round in 0..12 {
            world.run(Faults::all(), Duration::from_secs(2));
            if let (5, Some(job)) = (round, the_job(&world)) {
                let act = Act::Delete { cascade, grace_secs: None };
                world.call(&kinds::JOBS, &job.tree, act).unwrap();
            }
            ledger.act(
                &mut world,
                &dice,
                |asked| if asked.ended_before == 0 { End::Good } else { End::Later },
            );
        }
        for _ in 0..20 {
            world.run(Faults::none(), Duration::from_secs(30));
            ledger.act(&mut world, &dice, |_| End::Later);
        }
        let says = format!("{cascade:?}, seed {seed}");
        assert!(the_job(&world).is_none(), "{says}: the Job is gone");
        let pods = world.all(&kinds::PODS);
        assert!(pods.iter().all(|pod| meta::owners(&pod.tree).next().is_none()), "{says}: {pods:#?}");
        assert!(pods.iter().all(|pod| !meta::has_finalizers(&pod.tree)), "{says}: {pods:#?}");
        assert_eq!(pods.is_empty(), cascade != Cascade::Orphan, "{says}: {}", pods.len());
        falls_quiet(&mut world, &says);
    }
}

#[test]
fn pods_of_strangers_are_adopted_where_the_selector_says_so() {
    for seed in 0..seeds() {
        let mut world = world_with_a_node(seed);
        let dice = Dice::new(seed);
        let mut ledger = Ledger::default();
        for name in ["x", "y"] {
            let pod = tree!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
            world.create(&kinds::PODS, &pod).unwrap();
        }
        let spec = tree!({"completions": 3, "parallelism": 3, "manualSelector": true,
            "selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}}});
        world.create(&kinds::JOBS, &job("j", &spec, &tree!({}))).unwrap();
        for _ in 0..20 {
            world.run(Faults::all(), Duration::from_secs(3));
            ledger.act(&mut world, &dice, good);
        }
        world.run(Faults::none(), minutes(30));
        let job = JobFacts::of(&the_job(&world).unwrap().tree);
        assert_eq!((job.status.succeeded, ledger.pods.len()), (3, 3), "seed {seed}: {:#?}", job.status);
        assert!(job.finished().is_some(), "seed {seed}");
        falls_quiet(&mut world, &format!("seed {seed}"));
    }
}
