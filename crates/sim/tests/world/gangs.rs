//! Gang scheduling: pods of a group are bound atomically or stay pending.
//!
//! Invariant: at every observable revision none of the pods of a gang is bound, or at least `minCount`. Pods lost later do
//! not violate it, nor do bindings that were in flight when other pods were lost. The `Scheduled` condition of a group
//! never reverts, and its counts are correct in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::client::{ApiObject, DeletionPropagation, RequestVerb, Uid};
use muster_api::consts::managers;
use muster_api::gang::{
    EnabledMarkers, GangWorkloadFacts, GroupId, GroupMembership, GroupResolution, PodGroupApi, PodGroupFacts,
    resolve,
};
use muster_api::pod::{PodFacts, PodPhase};
use muster_api::time::Time;
use muster_api::{condition, kinds, meta};
use muster_sim::{FaultInjection, Faults, InjectedFault, STALL_SECS_MAX, SeededRng, World};
use muster_store::Record;
use muster_tree::{Text, Tree, tree};

use crate::crowd;
use crate::scenario::{Scenario, falls_quiet, find, minutes};

/// Rounds in which something happens.
const ROUNDS: usize = 8;
/// Nodes; four pods fit on each.
const NODES: usize = 3;
/// Pods of a gang with volumes.
const VOLUMES_MAX: usize = 2;
/// How long the scheduler may count a pod that terminated or vanished: three watch stalls in a row.
const UNSEEN: Duration = Duration::from_secs(3 * STALL_SECS_MAX);
/// How long pods run that are not to end.
const LONG: usize = 1_000_000;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("gangs crowd three nodes", NODES, |world, faults, seed| {
            crowd_gangs(world, faults, seed, false);
        }),
        Scenario::new("gangs crowd three nodes that vanish and come back", NODES, |world, faults, seed| {
            crowd_gangs(world, faults, seed, true);
        }),
    ]
}

/// A Workload with one template, of so many or none.
pub fn workload(name: &str, min: usize) -> Tree {
    let min = i64::try_from(min).unwrap();
    tree!({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"podGroupTemplates": [{"name": "t", "policy": {"gang": {"minCount": min}}}]}})
}

/// A group of that template.
pub fn group(name: &str, workload: &str) -> Tree {
    tree!({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"workloadRef": {"name": workload}, "podGroupTemplateRef": {"name": "t"}}})
}

/// A pod of that group, of which four fill a node.
pub fn member(name: &str, workload: &str, group: &str, secs: usize) -> Tree {
    tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default",
            "annotations": {"muster.dev/sim-run-seconds": secs.to_string()}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
            "workloadRef": {"name": workload, "podGroupName": group},
            "containers": [{"name": "c", "image": "i", "command": ["true"],
                "resources": {"requests": {"cpu": "8"}}}]}})
}

/// The same with a volume that is provisioned for its node (`WaitForFirstConsumer`).
fn member_with_volume(name: &str, workload: &str, group: &str, secs: usize) -> Tree {
    let volumes = tree!([{"name": "v", "persistentVolumeClaim": {"claimName": name}}]);
    member(name, workload, group, secs).with(&["spec", "volumes"], volumes)
}

/// The claim of that volume.
fn claim(name: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {"storageClassName": "local-path", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Creates a gang of `count` pods with `minCount` `min`, in random order; some use volumes.
fn make_gang(world: &mut World, faults: Faults, dice: &SeededRng, name: &str, (count, min): (usize, usize)) {
    let secs = 5 + dice.below(40);
    let volumes = dice.below(VOLUMES_MAX + 1).min(count);
    let mut all: Vec<_> =
        [(&kinds::WORKLOADS, workload(name, min)), (&kinds::POD_GROUPS, group(name, name))].into();
    for n in 0..count {
        let pod = format!("{name}-{n}");
        if n < volumes {
            all.push((&kinds::PERSISTENT_VOLUME_CLAIMS, claim(&pod)));
            all.push((&kinds::PODS, member_with_volume(&pod, name, name, secs)));
        } else {
            all.push((&kinds::PODS, member(&pod, name, name, secs)));
        }
    }
    while !all.is_empty() {
        let (kind, object) = all.remove(dice.below(all.len()));
        world.create(kind, &object).unwrap();
        if dice.one_in(3) {
            world.run(faults, Duration::from_millis(dice.next() % 800));
        }
    }
}

fn crowd_gangs(world: &mut World, faults: Faults, seed: u64, nodes_vanish: bool) {
    let dice = SeededRng::new(seed ^ 0x006a_0609);
    world.run(Faults::none(), minutes(1));
    for round in 0..ROUNDS {
        let count = 2 + dice.below(5);
        let min = 1 + dice.below(count);
        make_gang(world, faults, &dice, &format!("g{round}"), (count, min));
        world.run(faults, Duration::from_millis(dice.next() % 8_000));
        if dice.one_in(4) {
            crowd::delete_one(world, &kinds::PODS, &dice);
        }
        if dice.one_in(6) {
            crowd::delete_one(world, &kinds::POD_GROUPS, &dice);
        }
        // The largest gang needs two nodes.
        if nodes_vanish && dice.one_in(3) && world.list(&kinds::NODES).len() > 2 {
            crowd::delete_one(world, &kinds::NODES, &dice);
        }
    }
    world.run(faults, minutes(2));
    world.run(Faults::none(), minutes(60));
    let check = Check::of(world);
    check.nobody_waits_in_vain(world);
    check.counts_are_right(world);
    everything_goes(world, faults);
    Check::of(world);
    falls_quiet(world);
}

/// Groups are deleted after their pods.
fn everything_goes(world: &mut World, faults: Faults) {
    let act =
        || RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    for group in world.list(&kinds::POD_GROUPS) {
        world.send(&kinds::POD_GROUPS, &group.tree, act()).unwrap();
    }
    for kind in [&kinds::PODS, &kinds::PERSISTENT_VOLUME_CLAIMS] {
        for object in world.list(kind) {
            world.send(kind, &object.tree, act()).unwrap();
        }
    }
    world.run(faults, minutes(1));
    world.run(Faults::none(), minutes(5));
    assert_eq!(world.list(&kinds::PODS).len(), 0);
    assert_eq!(world.list(&kinds::POD_GROUPS).len(), 0, "nothing keeps groups without pods");
}

/// What the history of a world says of its gangs.
#[derive(Default)]
struct Check {
    workloads: BTreeMap<Text, GangWorkloadFacts>,
    groups: BTreeMap<Text, Tree>,
    pods: BTreeMap<Text, Tree>,
    /// Gangs that are whole, or were and still have a pod on a node.
    whole: BTreeSet<Text>,
    /// Groups that have said that they are whole, by their UID.
    said: BTreeSet<Uid>,
    /// The node of each pod.
    nodes: BTreeMap<Uid, Text>,
    /// When pods of a group left their nodes, each for itself: they ended, or went with the node.
    left: BTreeMap<Text, Vec<Time>>,
}

impl Check {
    /// Replays the history and checks at every observable revision.
    fn of(world: &mut World) -> Check {
        let looks: BTreeSet<u64> = world.commits().iter().copied().collect();
        let mut check = Check::default();
        for (now, record) in world.records() {
            check.take(*now, record);
            if looks.contains(&record.revision) {
                check.look(*now);
            }
        }
        check
    }

    fn take(&mut self, now: Time, record: &Record) {
        let (name, after) = (record.key.name.clone(), record.after.as_ref().map(|it| &it.tree));
        match record.key.resource.as_str() {
            "workloads.scheduling.k8s.io" => put(&mut self.workloads, name, after.map(GangWorkloadFacts::of)),
            "podgroups.scheduling.k8s.io" => {
                after.iter().for_each(|group| self.stays_said(group));
                put(&mut self.groups, name, after.cloned());
            }
            "pods" => {
                if let Some(pod) = after {
                    self.has_one_node(pod);
                }
                let was_there = self.pods.get(&name).filter(|pod| is_on_node(pod));
                let group = was_there.and_then(group_of).filter(|_| !after.is_some_and(is_on_node));
                if let Some(group) = group {
                    self.left.entry(group).or_default().push(now);
                }
                put(&mut self.pods, name, after.cloned());
            }
            _ => {}
        }
    }

    fn has_one_node(&mut self, pod: &Tree) {
        let node = pod.text_at(&["spec", "nodeName"]);
        if node.is_empty() {
            return;
        }
        let before = self.nodes.insert(meta::uid(pod), node.clone());
        assert!(before.is_none_or(|it| it == node), "a pod has one node");
    }

    fn stays_said(&mut self, group: &Tree) {
        let says = condition::is_true(group.items_at(&["status", "conditions"]), "PodGroupScheduled");
        if says {
            self.said.insert(meta::uid(group));
        }
        let said = self.said.contains(&meta::uid(group));
        assert!(!said || says, "{} took it back: {group}", meta::name(group));
    }

    fn members(&self, group: &Text) -> impl Iterator<Item = &Tree> {
        self.pods.values().filter(move |pod| group_of(pod).as_ref() == Some(group))
    }

    /// How many pods a group needs, if that is known.
    fn needs(&self, group: &Text) -> Option<usize> {
        let facts = PodGroupFacts::of(PodGroupApi::Proposal, self.groups.get(group)?);
        let workload = facts.reference.as_ref().and_then(|it| self.workloads.get(&it.workload));
        match resolve(&facts, workload) {
            GroupResolution::Resolved(it) => Some(it.policy.min_count()),
            GroupResolution::Pending { .. } => None,
        }
    }

    /// No revision shows a partly bound gang. A binding that was in flight when other members terminated or vanished is
    /// accepted: it was decided while they existed, and a binding has no precondition on other pods.
    fn look(&mut self, now: Time) {
        let named: BTreeSet<Text> = self.pods.values().filter_map(group_of).collect();
        for group in named {
            let bound = self.members(&group).filter(|pod| is_on_node(pod)).count();
            if bound == 0 {
                self.whole.remove(&group);
                continue;
            }
            if self.whole.contains(&group) {
                continue;
            }
            // A group that went a moment ago cannot say what it needed.
            let needs = self.needs(&group).unwrap_or(0);
            let lately = self.left.get(&group).into_iter().flatten().filter(|at| **at + UNSEEN > now).count();
            assert!(
                bound + lately >= needs,
                "{bound} of {needs} pods of {group} are on nodes, and {lately} just were"
            );
            self.whole.insert(group);
        }
    }

    /// Only gangs without enough pods, or with a deleted group, are pending.
    fn nobody_waits_in_vain(&self, world: &World) {
        for pod in world.list(&kinds::PODS) {
            let facts = PodFacts::of(&pod.tree);
            let group = group_of(&pod.tree).expect("all pods here belong to a group");
            if facts.phase.is_terminal() || !facts.node.is_empty() {
                assert!(facts.phase.is_terminal(), "{} does not end", facts.name);
                continue;
            }
            let there = self.members(&group).filter(|pod| !ended(pod)).count();
            let needs = self.needs(&group);
            assert!(
                needs.is_none_or(|needs| there < needs),
                "{} waits in vain: {needs:?} {}",
                facts.name,
                pod.tree
            );
        }
    }

    fn counts_are_right(&self, world: &World) {
        for group in world.list(&kinds::POD_GROUPS) {
            let name = meta::name(&group.tree);
            let placed = self.members(&name).filter(|pod| {
                let failed = PodPhase::of(pod.str_at(&["status", "phase"])) == PodPhase::Failed;
                !pod.str_at(&["spec", "nodeName"]).is_empty() && !failed
            });
            let told = group.tree.int_at(&["status", "scheduledPods"]).unwrap_or(0);
            assert_eq!(told, i64::try_from(placed.count()).unwrap(), "{}", group.tree);
        }
    }
}

fn put<V>(all: &mut BTreeMap<Text, V>, name: Text, value: Option<V>) {
    match value {
        Some(value) => all.insert(name, value),
        None => all.remove(&name),
    };
}

fn is_on_node(pod: &Tree) -> bool {
    !pod.str_at(&["spec", "nodeName"]).is_empty() && !ended(pod)
}

fn ended(pod: &Tree) -> bool {
    PodPhase::of(pod.str_at(&["status", "phase"])).is_terminal()
}

fn group_of(pod: &Tree) -> Option<Text> {
    match GroupMembership::of(pod, EnabledMarkers::default())?.group {
        GroupId::Native(name) => Some(name),
        _ => None,
    }
}

/// What the condition of a group says: its status and its reason.
fn said(world: &World, name: &str) -> Option<(String, String)> {
    let group = find(world, &kinds::POD_GROUPS, name)?;
    let conditions = group.tree.items_at(&["status", "conditions"]);
    let it = condition::find(conditions, "PodGroupScheduled")?;
    Some((it.str_at(&["status"]).to_owned(), it.str_at(&["reason"]).to_owned()))
}

fn on_nodes(world: &World) -> usize {
    let bound = |pod: &&ApiObject| !pod.tree.str_at(&["spec", "nodeName"]).is_empty();
    world.list(&kinds::PODS).iter().filter(bound).count()
}

/// The message of the condition of a pod.
fn told(world: &World, pod: &str) -> String {
    let pod = find(world, &kinds::PODS, pod).expect("the pod is there");
    let it = condition::find(pod.tree.items_at(&["status", "conditions"]), "PodScheduled");
    it.map(|it| it.str_at(&["message"]).to_owned()).unwrap_or_default()
}

fn events(world: &World, reason: &str) -> usize {
    let events = world.list(&kinds::EVENTS);
    events.iter().filter(|it| it.tree.str_at(&["reason"]) == reason).count()
}

/// A world with registered nodes.
fn calm_world(seed: u64) -> World {
    let mut world = World::new(seed, NODES);
    world.run(Faults::none(), minutes(1));
    world
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn wants(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

/// Shows: 5832-18, 5832-22, 5832-30, 5832-31, 5832-32, 5832-33, 5832-36, 5832-37.
#[test]
fn in_whatever_order_its_parts_come_a_gang_is_placed_at_once() {
    let parts = || -> Vec<(&str, Vec<(&'static muster_api::client::Kind, Tree)>)> {
        let pods = (0..3).map(|n| (&kinds::PODS, member(&format!("p{n}"), "w", "g", LONG))).collect();
        vec![
            ("workload", vec![(&kinds::WORKLOADS, workload("w", 3))]),
            ("group", vec![(&kinds::POD_GROUPS, group("g", "w"))]),
            ("pods", pods),
        ]
    };
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut world = calm_world(1);
        for (at, part) in order.into_iter().enumerate() {
            for (kind, object) in &parts()[part].1 {
                assert_eq!(on_nodes(&world), 0, "{order:?}: the last part is missing");
                world.create(kind, object).unwrap();
                world.run(Faults::none(), secs(5));
            }
            if at == 1 && order[2] != 2 {
                let missing = if order[2] == 0 { "workload \"w\"" } else { "pod group \"g\"" };
                assert!(told(&world, "p0").contains(missing), "{order:?}: {}", told(&world, "p0"));
            }
        }
        assert_eq!(on_nodes(&world), 3, "{order:?}: {:?}", world.recent_errors());
        assert_eq!(said(&world, "g"), wants("True", "MinCountSatisfied"), "{order:?}");
        assert_eq!(events(&world, "FailedScheduling"), 0, "{order:?}: nothing was tried in vain");
        Check::of(&mut world);
        falls_quiet(&mut world);
    }
}

/// Shows: 5832-23, 5832-25, 5832-38.
#[test]
fn an_unschedulable_gang_reports_it_and_holds_no_resources() {
    let mut world = calm_world(2);
    world.create(&kinds::WORKLOADS, &workload("w", 13)).unwrap();
    world.create(&kinds::POD_GROUPS, &group("g", "w")).unwrap();
    for n in 0..12 {
        world.create(&kinds::PODS, &member(&format!("p{n}"), "w", "g", LONG)).unwrap();
    }
    world.run(Faults::none(), secs(5));
    assert_eq!(said(&world, "g"), wants("Unknown", "WaitingForPods"));
    assert_eq!(events(&world, "FailedScheduling"), 0, "nothing was tried");
    world.create(&kinds::PODS, &member("p12", "w", "g", LONG)).unwrap();
    world.run(Faults::none(), secs(5));
    assert_eq!(said(&world, "g"), wants("False", "Unschedulable"));
    assert_eq!(on_nodes(&world), 0);
    let alone = member("alone", "v", "h", LONG).without(&["spec", "workloadRef"]);
    world.create(&kinds::PODS, &alone).unwrap();
    world.run(Faults::none(), secs(5));
    assert_eq!(on_nodes(&world), 1, "it holds nothing that others want");
    let w = find(&world, &kinds::WORKLOADS, "w").unwrap();
    let templates = tree!([{"name": "t", "policy": {"gang": {"minCount": 11}}}]);
    let lower = tree!({"spec": {"podGroupTemplates": templates}});
    world.send(&kinds::WORKLOADS, &w.tree, RequestVerb::MergePatch(lower)).unwrap();
    world.run(Faults::none(), minutes(1));
    assert_eq!(on_nodes(&world), 12, "eleven are enough, and more than that have no room");
    assert_eq!(said(&world, "g"), wants("True", "MinCountSatisfied"));
    Check::of(&mut world);
    falls_quiet(&mut world);
}

/// Shows: 5832-26, 5832-42, 5832-48, 5832-49.
#[test]
fn a_group_in_use_stays_and_its_count_follows() {
    let mut world = calm_world(3);
    world.create(&kinds::WORKLOADS, &workload("w", 2)).unwrap();
    let made = world.create(&kinds::POD_GROUPS, &group("g", "w")).unwrap();
    for n in 0..3 {
        world.create(&kinds::PODS, &member(&format!("p{n}"), "w", "g", LONG)).unwrap();
    }
    world.run(Faults::none(), secs(5));
    let count = |world: &World| {
        find(world, &kinds::POD_GROUPS, "g").and_then(|it| it.tree.int_at(&["status", "scheduledPods"]))
    };
    assert_eq!(count(&world), Some(3));
    let act =
        || RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    for (left, name) in [(2, "p0"), (1, "p1")] {
        let pod = find(&world, &kinds::PODS, name).unwrap();
        world.send(&kinds::PODS, &pod.tree, act()).unwrap();
        world.run(Faults::none(), secs(5));
        assert_eq!(count(&world), Some(left));
        assert_eq!(said(&world, "g"), wants("True", "MinCountSatisfied"), "for ever");
    }
    world.send(&kinds::POD_GROUPS, &made.tree, act()).unwrap();
    world.run(Faults::none(), secs(5));
    let kept = find(&world, &kinds::POD_GROUPS, "g").expect("a pod still names it");
    assert!(meta::deletion_timestamp(&kept.tree).is_some());
    let pod = find(&world, &kinds::PODS, "p2").unwrap();
    world.send(&kinds::PODS, &pod.tree, act()).unwrap();
    world.run(Faults::none(), secs(5));
    assert!(find(&world, &kinds::POD_GROUPS, "g").is_none(), "nobody names it any more");
    let again = world.create(&kinds::POD_GROUPS, &group("g", "w")).unwrap();
    assert_ne!(meta::uid(&again.tree), meta::uid(&made.tree));
    for n in 3..5 {
        world.create(&kinds::PODS, &member(&format!("p{n}"), "w", "g", LONG)).unwrap();
    }
    world.run(Faults::none(), secs(5));
    assert_eq!((on_nodes(&world), count(&world)), (2, Some(2)), "under the same Workload");
    falls_quiet(&mut world);
}

/// The number of bound pods at every observable revision where it changed.
fn numbers_bound(world: &mut World) -> Vec<usize> {
    let looks: BTreeSet<u64> = world.commits().iter().copied().collect();
    let (mut bound, mut numbers) = (BTreeSet::new(), Vec::new());
    for (_, record) in world.records() {
        let tree = record.after.as_ref().map(|it| &it.tree).filter(|_| record.key.resource == "pods");
        if tree.is_some_and(|pod| !pod.str_at(&["spec", "nodeName"]).is_empty()) {
            bound.insert(record.key.name.clone());
        }
        if looks.contains(&record.revision) && numbers.last() != Some(&bound.len()) {
            numbers.push(bound.len());
        }
    }
    numbers
}

#[test]
fn pods_without_volumes_only_hold_back_their_own_gang() {
    for (min, want) in [(2, vec![0, 2, 3]), (3, vec![0, 3])] {
        let mut world = calm_world(8);
        world.create(&kinds::WORKLOADS, &workload("w", min)).unwrap();
        world.create(&kinds::POD_GROUPS, &group("g", "w")).unwrap();
        world.create(&kinds::PERSISTENT_VOLUME_CLAIMS, &claim("p0")).unwrap();
        world.create(&kinds::PODS, &member_with_volume("p0", "w", "g", LONG)).unwrap();
        for n in 1..3 {
            world.create(&kinds::PODS, &member(&format!("p{n}"), "w", "g", LONG)).unwrap();
        }
        world.run(Faults::none(), minutes(1));
        assert_eq!(numbers_bound(&mut world), want, "{min} are needed: {:?}", world.recent_errors());
        Check::of(&mut world);
        falls_quiet(&mut world);
    }
}

/// Shows: 5832-40.
#[test]
fn a_pod_of_another_workload_holds_its_gang() {
    let mut world = calm_world(4);
    for name in ["v", "w"] {
        world.create(&kinds::WORKLOADS, &workload(name, 2)).unwrap();
    }
    world.create(&kinds::POD_GROUPS, &group("g", "w")).unwrap();
    for (name, of) in [("p0", "w"), ("p1", "v")] {
        world.create(&kinds::PODS, &member(name, of, "g", LONG)).unwrap();
    }
    world.run(Faults::none(), secs(5));
    assert_eq!(on_nodes(&world), 0);
    let words = told(&world, "p1");
    assert!(words.contains("\"v\"") && words.contains("\"w\""), "{words}");
    falls_quiet(&mut world);
}

/// Shows: 5832-35, 5832-43, 5832-60.
#[test]
fn gangs_that_are_entries_of_their_workload_are_placed_too() {
    let mut world = calm_world(5);
    let copy = |name: &str, replica: &str| {
        let reference = tree!({"name": "w", "podGroup": "e", "podGroupReplicaKey": replica});
        member(name, "w", "g", LONG).with(&["spec", "workloadRef"], reference)
    };
    for (name, replica) in [("a0", "0"), ("b0", "1"), ("a1", "0")] {
        world.create(&kinds::PODS, &copy(name, replica)).unwrap();
    }
    world.run(Faults::none(), secs(5));
    assert!(told(&world, "a0").contains("workload \"w\""), "{}", told(&world, "a0"));
    let legacy = tree!({"apiVersion": "scheduling.k8s.io/v1alpha1", "kind": "Workload",
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {"podGroups": [{"name": "e", "policy": {"gang": {"minCount": 2}}}]}});
    world.create(&kinds::WORKLOADS, &legacy).unwrap();
    world.run(Faults::none(), secs(5));
    assert_eq!(on_nodes(&world), 2, "one copy is whole, the other is not");
    world.create(&kinds::PODS, &copy("b1", "1")).unwrap();
    world.run(Faults::none(), secs(5));
    assert_eq!(on_nodes(&world), 4);
    falls_quiet(&mut world);
}

/// What is decided when a pod is first seen stays.
#[test]
fn a_pod_does_not_change_its_group() {
    let mut world = calm_world(6);
    for name in ["g", "h"] {
        world.create(&kinds::WORKLOADS, &workload(name, 1)).unwrap();
        world.create(&kinds::POD_GROUPS, &group(name, name)).unwrap();
    }
    let marked =
        |group: &str| tree!({"metadata": {"annotations": {"scheduling.muster.dev/pod-group": group}}});
    let plain = member("p", "g", "g", LONG).without(&["spec", "workloadRef"]);
    let pod = world.create(&kinds::PODS, &plain.merge(&marked("g"))).unwrap();
    world.run(Faults::none(), secs(5));
    assert_eq!((on_nodes(&world), said(&world, "g")), (1, wants("True", "MinCountSatisfied")));
    world.send(&kinds::PODS, &pod.tree, RequestVerb::MergePatch(marked("h"))).unwrap();
    world.run(Faults::none(), secs(5));
    assert_eq!(events(&world, "PodGroupChangeIgnored"), 1);
    assert_eq!(said(&world, "h"), None, "it got no pod");
    falls_quiet(&mut world);
}

/// A story with every kind of write of the scheduler for gangs: pod conditions, bindings, group status.
fn story(world: &mut World) {
    world.run(Faults::none(), secs(30));
    world.create(&kinds::PODS, &member("p0", "w", "g", 40)).unwrap();
    world.run(Faults::none(), secs(3));
    world.create(&kinds::POD_GROUPS, &group("g", "w")).unwrap();
    world.run(Faults::none(), secs(3));
    world.create(&kinds::PERSISTENT_VOLUME_CLAIMS, &claim("p1")).unwrap();
    world.create(&kinds::PODS, &member_with_volume("p1", "w", "g", 40)).unwrap();
    for n in 2..4 {
        world.create(&kinds::PODS, &member(&format!("p{n}"), "w", "g", 40)).unwrap();
    }
    world.create(&kinds::WORKLOADS, &workload("w", 4)).unwrap();
    world.run(Faults::none(), minutes(1));
    let node = world.list(&kinds::NODES).remove(0);
    let act = RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
    world.send(&kinds::NODES, &node.tree, act).unwrap();
    world.run(Faults::none(), minutes(30));
}

/// Shows: 5832-37, 5832-69.
#[test]
fn each_write_of_a_gang_may_meet_with_each_misfortune() {
    let mut world = World::new(7, NODES);
    story(&mut world);
    let writes = world.writes_by(&managers::SCHEDULER);
    assert!(writes > 6, "words, bindings and status: {writes}");
    for write in 1..=writes {
        for blow in InjectedFault::ALL {
            let mut world = World::new(7, NODES);
            world.inject(FaultInjection { by: managers::SCHEDULER.clone(), write, blow });
            story(&mut world);
            let check = Check::of(&mut world);
            check.nobody_waits_in_vain(&world);
            check.counts_are_right(&world);
            assert_eq!(said(&world, "g"), wants("True", "MinCountSatisfied"), "{blow:?} at write {write}");
            falls_quiet(&mut world);
        }
    }
}
