//! Unschedulable pods, and preemption for pods of a higher priority.

use muster_api::{kinds, meta};
use muster_sim::{Faults, World};
use muster_tree::{Text, Tree, tree};

use crate::crowd::add_priorities;
use crate::scenario::{falls_quiet, minutes};

fn pod(name: &str, class: &str, share: &str) -> Tree {
    let requests = tree!({"muster.dev/slots": share});
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "annotations": {"muster.dev/sim-run-seconds": "600"}},
        "spec": {"restartPolicy": "Never", "priorityClassName": class, "terminationGracePeriodSeconds": 5, "containers": [
            {"name": "c", "image": "i", "command": ["true"], "resources": {"requests": requests.clone(), "limits": requests}}]}})
}

/// One node with two slots, and the PriorityClasses.
fn small_world(seed: u64) -> World {
    let mut world = World::new(seed, 1);
    add_priorities(&mut world);
    world.run(Faults::none(), minutes(1));
    let node = world.list(&kinds::NODES).remove(0);
    let slots =
        tree!({"status": {"capacity": {"muster.dev/slots": "2"}, "allocatable": {"muster.dev/slots": "2"}}});
    let act = muster_api::client::RequestVerb::MergePatch(slots);
    world.send_subresource(&kinds::NODES, &node.tree, muster_api::client::Subresource::Status, act).unwrap();
    world
}

fn find(world: &World, name: &str) -> Option<Tree> {
    world.list(&kinds::PODS).into_iter().map(|it| it.tree).find(|it| meta::name(it) == name)
}

fn notes(world: &World, name: &str) -> Vec<Text> {
    let about = |it: &Tree| it.str_at(&["involvedObject", "name"]) == name;
    let events = world.list(&kinds::EVENTS).into_iter().map(|it| it.tree);
    events.filter(about).map(|it| it.text_at(&["reason"])).collect()
}

#[test]
fn a_pod_preempts_pods_of_lower_priority() {
    for (seed, faults) in [(0, Faults::none()), (1, Faults::all()), (2, Faults::all()), (3, Faults::all())] {
        let mut world = small_world(seed);
        for name in ["a", "b"] {
            world.create(&kinds::PODS, &pod(name, "low", "1")).unwrap();
        }
        world.run(Faults::none(), minutes(1));
        world.create(&kinds::PODS, &pod("urgent", "high", "2")).unwrap();
        world.run(faults, minutes(2));
        world.run(Faults::none(), minutes(2));
        let urgent = find(&world, "urgent").unwrap();
        assert_eq!(
            urgent.str_at(&["spec", "nodeName"]),
            "sim-0",
            "seed {seed}: {:#?}",
            world.recent_errors()
        );
        assert_eq!((find(&world, "a"), find(&world, "b")), (None, None), "seed {seed}: both made room");
        if faults == Faults::none() {
            assert!(notes(&world, "urgent").iter().any(|it| it == "FailedScheduling"), "it was told to wait");
            assert!(notes(&world, "a").iter().any(|it| it == "Preempted"), "it was told why it went");
        }
    }
}

#[test]
fn an_unschedulable_pod_gets_one_condition_update() {
    let mut world = small_world(7);
    world.create(&kinds::PODS, &pod("huge", "low", "3")).unwrap();
    world.run(Faults::none(), minutes(1));
    let said = find(&world, "huge").unwrap();
    let words = said.items_at(&["status", "conditions"])[0].text_at(&["message"]);
    let wanted = "0/1 nodes are available: 1 Insufficient muster.dev/slots. preemption: 0/1 nodes are available: \
        1 Preemption is not helpful for scheduling.";
    assert_eq!(words, wanted);
    falls_quiet(&mut world);
}
