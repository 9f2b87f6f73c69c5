//! Pods of all priorities compete for a few nodes: pods are created and deleted, nodes vanish and return, victims are
//! preempted.
//!
//! Invariants: no node is overcommitted, no pod is bound twice, pods of the highest priority are never preempted, and in
//! the end every pod was scheduled.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiObject, DeletionPropagation, Kind, RequestVerb, Uid};
use muster_api::pod::{PodFacts, PodPhase};
use muster_api::{condition, kinds, meta};
use muster_sim::{Faults, SeededRng, World};
use muster_store::Record;
use muster_tree::{Text, Tree, literal, tree};

use crate::scenario::{Scenario, falls_quiet, minutes};

pub static PRIORITY_CLASSES: Kind = Kind {
    group: literal!("scheduling.k8s.io"),
    version: literal!("v1"),
    plural: literal!("priorityclasses"),
};

/// Names and values of the PriorityClasses; the last is the highest.
const PRIORITIES: [(&str, i64); 3] = [("low", 1), ("mid", 100), ("high", 1000)];
/// CPU of a simulated node in thousandths.
const NODE_MILLI: i64 = 32_000;
/// CPU requests of pods: up to four, three, two or one fit on a node.
const SHARES: [i64; 4] = [8_000, 10_000, 15_000, 32_000];
/// Rounds with an action.
const ROUNDS: usize = 12;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("pods of all priorities crowd three nodes", 3, |world, faults, seed| {
            crowd(world, faults, seed, false);
        }),
        Scenario::new(
            "pods of all priorities crowd four nodes that vanish and come back",
            4,
            |world, faults, seed| {
                crowd(world, faults, seed, true);
            },
        ),
    ]
}

pub fn add_priorities(world: &mut World) {
    for (name, value) in PRIORITIES {
        let class = tree!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value});
        world.create(&PRIORITY_CLASSES, &class).unwrap();
    }
}

fn crowd(world: &mut World, faults: Faults, seed: u64, nodes_vanish: bool) {
    let dice = SeededRng::new(seed ^ 0x00c0_ffee);
    add_priorities(world);
    world.run(Faults::none(), minutes(1));
    for round in 0..ROUNDS {
        for n in 0..1 + dice.below(3) {
            world.create(&kinds::PODS, &pod(&format!("p{round}-{n}"), &dice)).unwrap();
        }
        world.run(faults, Duration::from_secs(1 + dice.next() % 8));
        if dice.one_in(4) {
            delete_one(world, &kinds::PODS, &dice);
        }
        if nodes_vanish && dice.one_in(4) && world.list(&kinds::NODES).len() > 1 {
            delete_one(world, &kinds::NODES, &dice);
        }
    }
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(90));
    Check::default().read(world.records());
    let waiting: Vec<Text> =
        world.list(&kinds::PODS).iter().filter(|pod| waits(pod)).map(|pod| meta::name(&pod.tree)).collect();
    assert!(waiting.is_empty(), "nobody waits for ever: {waiting:?}");
    falls_quiet(world);
}

fn waits(pod: &ApiObject) -> bool {
    !PodFacts::of(&pod.tree).phase.is_terminal()
}

/// Deletes one object of a kind.
pub fn delete_one(world: &mut World, kind: &Kind, dice: &SeededRng) {
    let all = world.list(kind);
    if all.is_empty() {
        return;
    }
    let one = &all[dice.below(all.len())];
    let act = RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    world.send(kind, &one.tree, act).unwrap();
}

fn pod(name: &str, dice: &SeededRng) -> Tree {
    let asks = tree!({"cpu": format!("{}m", SHARES[dice.below(SHARES.len())])});
    let app = ["a", "b"][dice.below(2)];
    let mine =
        tree!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}});
    let company = match dice.below(5) {
        0 => {
            tree!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(mine)]}}})
        }
        1 => {
            let rule = tree!({"maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}).merge(&mine);
            tree!({"topologySpreadConstraints": [(rule)]})
        }
        _ => tree!({}),
    };
    let spec = tree!({"restartPolicy": "Never", "terminationGracePeriodSeconds": 5,
        "priorityClassName": PRIORITIES[dice.below(PRIORITIES.len())].0,
        "containers": [{"name": "c", "image": "i", "command": ["true"], "resources": {"requests": asks}}]});
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": app},
            "annotations": {"muster.dev/sim-run-seconds": (10 + dice.below(60)).to_string()}},
        "spec": spec.merge(&company)})
}

/// Reads the whole history and follows what nodes hold.
#[derive(Default)]
struct Check {
    /// Bound pods: node, and CPU in thousandths.
    placed: BTreeMap<Uid, (Text, i64)>,
}

impl Check {
    fn read<Time>(&mut self, records: &[(Time, Record)]) {
        for (_, record) in records.iter().filter(|(_, record)| record.key.resource == "pods") {
            let pod = &record.shown().tree;
            let uid = meta::uid(pod);
            let node = pod.text_at(&["spec", "nodeName"]);
            let ended = PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal();
            evicted_for_a_reason(pod);
            if let Some((before, _)) = self.placed.get(&uid) {
                assert_eq!(*before, node, "a pod has one node");
            }
            if record.after.is_none() || ended {
                self.placed.remove(&uid);
            } else if !node.is_empty() && !self.placed.contains_key(&uid) {
                self.placed.insert(uid, (node.clone(), asked(pod)));
                self.fits(&node);
            }
        }
    }

    fn fits(&self, node: &Text) {
        let held: i64 = self.placed.values().filter(|(on, _)| on == node).map(|(_, milli)| *milli).sum();
        assert!(held <= NODE_MILLI, "{node} is given {held}m of {NODE_MILLI}m");
    }
}

/// A preemption victim has a lower priority than some pod.
fn evicted_for_a_reason(pod: &Tree) {
    let target = condition::find(pod.items_at(&["status", "conditions"]), "DisruptionTarget");
    let making_room = target.is_some_and(|it| it.str_at(&["reason"]) == "PreemptionByScheduler");
    let top = PRIORITIES[PRIORITIES.len() - 1].1;
    assert!(
        !making_room || pod.int_at(&["spec", "priority"]) < Some(top),
        "{} is above all",
        meta::name(pod)
    );
}

fn asked(pod: &Tree) -> i64 {
    let cpu = pod.items_at(&["spec", "containers"])[0].text_at(&["resources", "requests", "cpu"]);
    muster_api::quantity::milli(&cpu).expect("a number of CPUs")
}
