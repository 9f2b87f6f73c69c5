//! User edits of pods and Jobs, and overlapping selectors: counts stay exact and nothing is stuck.

use std::time::Duration;

use muster_api::client::{ApiObject, RequestVerb};
use muster_api::{kinds, meta};
use muster_sim::{Faults, World};
use muster_tree::{Tree, tree};

use crate::kubelet::{End, Ledger};
use crate::play::{BASE, Play, add_node, good, kubelet_dice, the_job};
use crate::scenario::{Scenario, falls_quiet, find, job_facts, minutes};
use crate::worlds::job;

/// The edits as scenarios.
pub fn scenarios() -> Vec<Scenario> {
    let own = [
        Scenario::new("orphaned pods that match the selector are adopted", 0, adoption),
        Scenario::new(
            "pods with another controller are left alone, although the selector matches",
            0,
            foreign,
        ),
        Scenario::new("two Jobs with one selector: each pod belongs to one of them", 0, rivals),
        Scenario::new("the name of a pod to be created is taken", 0, taken_name),
    ];
    plays().into_iter().map(Scenario::from).chain(own).collect()
}

/// Changes the metadata of one active pod.
fn edit_pod(world: &mut World, metadata: &Tree) {
    if let Some(pod) = Ledger::active(world) {
        world.send(&kinds::PODS, &pod.tree, RequestVerb::MergePatch(tree!({"metadata": metadata}))).unwrap();
    }
}

/// Changes the metadata of every pod.
fn edit_pods(world: &mut World, metadata: &Tree) {
    for pod in world.list(&kinds::PODS) {
        // Removing the finalizer of a terminating pod deletes it.
        let _ = world.send(&kinds::PODS, &pod.tree, RequestVerb::MergePatch(tree!({"metadata": metadata})));
    }
}

fn plays() -> Vec<Play> {
    vec![
        Play {
            says: "a user removes a finalizer: that pod is not counted, its work is repeated",
            spec: || tree!({"completions": 2, "parallelism": 2}),
            user: |world, _, round| {
                if round == 3 {
                    edit_pod(world, &tree!({"finalizers": null}));
                }
            },
            ends: |asked| if asked.round > 3 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..BASE
        },
        Play {
            says: "a user removes an owner reference: the pod is adopted again",
            spec: || tree!({"completions": 2, "parallelism": 2}),
            user: |world, _, round| {
                if round == 3 {
                    edit_pod(world, &tree!({"ownerReferences": null}));
                }
            },
            ends: |asked| if asked.round > 3 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..BASE
        },
        Play {
            says: "a user removes the labels: the pod is released and replaced",
            spec: || tree!({"completions": 2, "parallelism": 2}),
            user: |world, _, round| {
                if round == 3 {
                    edit_pod(world, &tree!({"labels": null}));
                }
            },
            ends: |asked| if asked.round > 6 { End::Good } else { End::Later },
            counts: |_, _| (2, 0),
            ..BASE
        },
        Play {
            says: "all finalizers are removed for a while: no pod counts twice",
            spec: || tree!({"completions": 3, "parallelism": 2}),
            user: |world, _, round| {
                if (3..9).contains(&round) {
                    edit_pods(world, &tree!({"finalizers": null}));
                }
            },
            ends: |asked| if asked.round > 3 { End::Good } else { End::Later },
            counts: |_, _| (3, 0),
            ..BASE
        },
        Play {
            says: "all finalizers of indexed pods are removed for a while: each index counts once",
            spec: || tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 2}),
            user: |world, _, round| {
                if (3..9).contains(&round) {
                    edit_pods(world, &tree!({"finalizers": null}));
                }
            },
            ends: |asked| if asked.round > 3 { End::Good } else { End::Later },
            counts: |_, _| (3, 0),
            indexes: ("0-2", ""),
            ..BASE
        },
        Play {
            says: "all owner references are removed for a while: pods are adopted again and count once",
            spec: || tree!({"completions": 3, "parallelism": 2}),
            user: |world, _, round| {
                if (3..7).contains(&round) {
                    edit_pods(world, &tree!({"ownerReferences": null}));
                }
            },
            ends: |asked| if asked.round > 8 { End::Good } else { End::Later },
            counts: |_, _| (3, 0),
            ..BASE
        },
        Play {
            says: "a user removes the finalizer of a pod that fails: its failure does not count",
            spec: || tree!({"completions": 1, "backoffLimit": 0}),
            user: |world, _, round| {
                if round == 4 {
                    edit_pods(world, &tree!({"finalizers": null}));
                }
            },
            ends: |asked| match (asked.round, asked.ended_before) {
                (0..6, _) => End::Later,
                (_, 0) => End::Bad(1),
                _ => End::Good,
            },
            counts: |_, _| (1, 0),
            ..BASE
        },
    ]
}

fn pod(name: &str, owner: Option<&ApiObject>) -> Tree {
    let base = tree!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let Some(owner) = owner else { return base };
    let owner = tree!({"apiVersion": "v1", "kind": "ConfigMap", "controller": true,
        "name": meta::name(&owner.tree), "uid": meta::uid(&owner.tree)});
    base.with(&["metadata", "ownerReferences"], Tree::list([owner]))
}

/// A Job whose selector is `app=a`, as its pods are labelled.
fn selecting(name: &str, completions: i64) -> Tree {
    let spec = tree!({"completions": completions, "parallelism": completions, "manualSelector": true,
        "selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": {"app": "a"}}}});
    job(name, &spec, &tree!({}))
}

/// Lets the kubelet end all pods well.
fn work(world: &mut World, faults: Faults, seed: u64) -> Ledger {
    let dice = kubelet_dice(seed);
    let mut ledger = Ledger::default();
    for round in 0..40 {
        let faults = if round < 20 { faults } else { Faults::none() };
        world.run(faults, Duration::from_secs(3));
        ledger.act(world, &dice, good);
    }
    world.run(Faults::none(), minutes(30));
    ledger
}

fn adoption(world: &mut World, faults: Faults, seed: u64) {
    add_node(world);
    for name in ["x", "y"] {
        world.create(&kinds::PODS, &pod(name, None)).unwrap();
    }
    world.create(&kinds::JOBS, &selecting("j", 3)).unwrap();
    let ledger = work(world, faults, seed);
    let job = job_facts(world, "j");
    assert_eq!((job.status.succeeded, ledger.pods.len()), (3, 3), "{:#?}", job.status);
    assert!(job.finished_condition().is_some());
    falls_quiet(world);
}

fn foreign(world: &mut World, faults: Faults, seed: u64) {
    add_node(world);
    let owner = tree!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": "default"}});
    let owner = world.create(&kinds::CONFIG_MAPS, &owner).unwrap();
    for name in ["x", "y"] {
        world.create(&kinds::PODS, &pod(name, Some(&owner))).unwrap();
    }
    world.create(&kinds::JOBS, &selecting("j", 2)).unwrap();
    let ledger = work(world, faults, seed);
    let status = job_facts(world, "j").status;
    assert_eq!((status.succeeded, status.failed, ledger.pods.len()), (2, 0, 4), "{status:#?}");
    for name in ["x", "y"] {
        let pod = find(world, &kinds::PODS, name).expect("the stranger's pod is there");
        let owner = meta::controller_of(&pod.tree).map(|owner| owner.name);
        assert_eq!(owner.as_deref(), Some("owner"), "{name} still is the stranger's");
        assert!(!meta::has_finalizers(&pod.tree), "{name}");
    }
    falls_quiet(world);
}

fn rivals(world: &mut World, faults: Faults, seed: u64) {
    add_node(world);
    world.create(&kinds::PODS, &pod("x", None)).unwrap();
    for name in ["one", "two"] {
        world.create(&kinds::JOBS, &selecting(name, 2)).unwrap();
    }
    let ledger = work(world, faults, seed);
    for name in ["one", "two"] {
        let job = job_facts(world, name);
        assert!(job.finished_condition().is_some(), "{name}: {:#?}", job.status);
        assert_eq!((job.status.succeeded, job.status.failed), (2, 0), "{name}");
    }
    assert_eq!(ledger.pods.len(), 4, "the pod that was there is one of the four");
    falls_quiet(world);
}

/// The name of a pod is derived from its Job: an orphaned pod keeps it.
fn taken_name(world: &mut World, faults: Faults, seed: u64) {
    add_node(world);
    let spec = tree!({"completionMode": "Indexed", "completions": 2, "parallelism": 2});
    world.create(&kinds::JOBS, &job("j", &spec, &tree!({}))).unwrap();
    world.run(Faults::none(), Duration::from_secs(3));
    edit_pods(world, &tree!({"labels": null, "finalizers": null, "ownerReferences": null}));
    let strangers: Vec<_> = world.list(&kinds::PODS).iter().map(|pod| meta::uid(&pod.tree)).collect();
    let ledger = work(world, faults, seed);
    let job = the_job(world).expect("the Job is there");
    let status = job_facts(world, "j").status;
    assert_eq!((status.succeeded, status.failed, status.completed_indexes.as_str()), (2, 0, "0,1"));
    assert_eq!((strangers.len(), ledger.pods.len()), (2, 4), "{status:#?}");
    for pod in world.list(&kinds::PODS) {
        let own = meta::controller_of(&pod.tree).is_some_and(|owner| owner.uid == meta::uid(&job.tree));
        assert_ne!(own, strangers.contains(&meta::uid(&pod.tree)), "strangers stay strangers");
    }
    falls_quiet(world);
}
