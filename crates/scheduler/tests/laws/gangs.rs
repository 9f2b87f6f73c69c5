//! Invariants of groups: all or nothing, counts equal a recount, a failed cycle leaves no trace, no group starves.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::time::Time;
use muster_scheduler::{
    DisruptionMode, GroupKey, GroupReadiness, GroupSpec, GroupStatus, Pod, PodKey, Scheduler,
    SchedulingDecision, SchedulingOutcome, SchedulingPolicy,
};
use muster_tree::{Text, Tree, tree};
use proptest::prelude::*;

use crate::build::{node, on, pod};
use crate::gangs::key;

/// Rounds after which a gang that fits counts as starved.
const ROUNDS_MAX: usize = 300;

/// A group in few numbers.
#[derive(Debug, Clone)]
struct Wish {
    size: u8,
    min: Option<u8>,
    cpu: u8,
    mixed: bool,
    priority: i64,
    all: bool,
    zone: bool,
}

fn wish() -> impl Strategy<Value = Wish> {
    let policy = prop_oneof![Just(None), (1..5u8).prop_map(Some), (1..5u8).prop_map(Some)];
    let shape = (1..4u8, any::<bool>(), 0..3i64, any::<bool>(), prop::bool::weighted(0.2));
    (1..5u8, policy, shape).prop_map(|(size, min, (cpu, mixed, priority, all, zone))| Wish {
        size,
        min: min.map(|min| min.min(size)),
        cpu,
        mixed,
        priority,
        all,
        zone,
    })
}

impl Wish {
    fn standing(&self) -> GroupReadiness {
        let policy =
            self.min.map_or(SchedulingPolicy::Basic, |min| SchedulingPolicy::Gang { min: min.into() });
        GroupReadiness::Ready(GroupSpec {
            disruption: if self.all { DisruptionMode::All } else { DisruptionMode::Single },
            topology: self.zone.then(|| "zone".into()),
            ..GroupSpec::of(policy)
        })
    }

    fn min(&self) -> usize {
        self.min.unwrap_or(1).into()
    }

    fn member(&self, group: usize, n: u8) -> Pod {
        let cpu = if self.mixed { self.cpu + n % 2 } else { self.cpu };
        let words = tree!({"asks": {"cpu": cpu.to_string()}, "priority": self.priority});
        let second = i64::try_from(group).unwrap_or(0) * 10 + i64::from(n);
        Pod { group: Some(group_key(group)), ..pod(&format!("g{group}-{n}"), &words, second) }
    }
}

fn group_key(group: usize) -> GroupKey {
    key(&format!("g{group}"))
}

fn zoned(n: u8) -> Tree {
    tree!({"labels": {"zone": if n.is_multiple_of(2) { "x" } else { "y" }}})
}

fn with_nodes(nodes: u8) -> Scheduler {
    let mut scheduler = Scheduler::default();
    (0..nodes).for_each(|n| scheduler.update_node(node(&format!("n{n}"), &zoned(n))));
    scheduler
}

/// Whether a group fits into the empty cluster.
fn fits_alone(wish: &Wish, nodes: u8) -> bool {
    let mut scheduler = with_nodes(nodes);
    scheduler.update_group(&group_key(0), wish.standing());
    (0..wish.size).for_each(|n| scheduler.update_pod(&wish.member(0, n)));
    let decisions = scheduler.schedule(100, Time(1));
    decisions
        .iter()
        .any(|it| matches!(&it.outcome, SchedulingOutcome::Group(it) if it.status == GroupStatus::Placed))
}

/// A cluster in which every decision is carried out.
struct World {
    scheduler: Scheduler,
    wishes: Vec<Wish>,
    pods: BTreeMap<PodKey, Pod>,
    now: Time,
    /// Groups that were placed, in this order.
    served: Vec<usize>,
    victims: Vec<PodKey>,
}

impl World {
    fn new(nodes: u8, wishes: Vec<Wish>) -> World {
        let scheduler = with_nodes(nodes);
        let now = Time(1_000_000_000);
        World { scheduler, wishes, pods: BTreeMap::new(), now, served: Vec::new(), victims: Vec::new() }
    }

    fn tell(&mut self, pod: Pod) {
        self.scheduler.update_pod(&pod);
        self.pods.insert(pod.key.clone(), pod);
    }

    fn arrive(&mut self, group: usize) {
        let wish = self.wishes[group].clone();
        self.scheduler.update_group(&group_key(group), wish.standing());
        (0..wish.size).for_each(|n| self.tell(wish.member(group, n)));
    }

    /// One decision at a time, each checked against what was before.
    fn decide(&mut self) {
        while self.scheduler.has_pending() {
            let before = self.scheduler.dump();
            let decisions = self.scheduler.schedule(1, self.now);
            let Some(decision) = decisions.first() else { break };
            assert_eq!(self.scheduler.overfull(), [], "never over capacity");
            self.heed(decision, &before);
        }
    }

    fn heed(&mut self, decision: &SchedulingDecision, before: &[String]) {
        let SchedulingOutcome::Group(outcome) = &decision.outcome else { panic!("{decision:?}") };
        let group: usize = decision.group.1[1..].parse().expect("a group by number");
        let counts = self.scheduler.group_counts(&decision.group);
        if outcome.status == GroupStatus::Placed {
            let scheduled = counts.assigned + counts.assumed;
            assert!(scheduled >= self.wishes[group].min(), "whole or not at all: {decision:?}");
            assert!(!outcome.scheduled.is_empty());
            self.served.retain(|other| *other != group);
            self.served.push(group);
            for (pod, node) in &outcome.scheduled {
                assert!(self.scheduler.confirm_bound(pod, node));
                let bound = on(self.pods[pod].clone(), node);
                self.tell(bound);
            }
        } else {
            assert_eq!(self.scheduler.dump(), before, "a refusal leaves nothing: {decision:?}");
        }
        self.victims.extend(outcome.victims.iter().cloned());
        self.check_zone(group);
    }

    fn check_zone(&self, group: usize) {
        if self.wishes[group].zone {
            let nodes = self.pods.values().filter(|pod| pod.group == Some(group_key(group)));
            let zones: BTreeSet<u8> = nodes
                .filter_map(|pod| pod.node.strip_prefix('n')?.parse::<u8>().ok())
                .map(|n| n % 2)
                .collect();
            assert!(zones.len() < 2, "one zone for all: {zones:?}");
        }
    }

    /// Victims are deleted, and their controllers create them again.
    fn evict(&mut self) {
        for victim in std::mem::take(&mut self.victims) {
            let Some(pod) = self.pods.remove(&victim) else { continue };
            self.scheduler.update_pod(&Pod {
                deleting: true,
                evicted: true,
                schedulable: false,
                ..pod.clone()
            });
            self.scheduler.delete_pod(&victim);
            self.tell(Pod { node: Text::new(), ..pod });
        }
    }

    /// The group that was placed first ends, if all its pods run.
    fn finish_one(&mut self) {
        let runs = |group: &usize| {
            let mut pods = self.pods.values().filter(|pod| pod.group == Some(group_key(*group)));
            pods.all(|pod| !pod.node.is_empty())
        };
        let Some(at) = self.served.iter().position(runs).or((!self.served.is_empty()).then_some(0)) else {
            return;
        };
        let group = self.served.remove(at);
        let pods: Vec<PodKey> = self
            .pods
            .values()
            .filter(|pod| pod.group == Some(group_key(group)))
            .map(|it| it.key.clone())
            .collect();
        for pod in pods {
            self.pods.remove(&pod);
            self.scheduler.delete_pod(&pod);
        }
        self.scheduler.delete_group(&group_key(group));
    }

    fn lose_node(&mut self, n: u8) {
        let name = Text::from(format!("n{n}"));
        self.scheduler.delete_node(&name);
        let lost: Vec<Pod> = self.pods.values().filter(|pod| pod.node == name).cloned().collect();
        for pod in lost {
            self.scheduler.delete_pod(&pod.key);
            self.tell(Pod { node: Text::new(), ..pod });
        }
    }

    /// What is kept equals what is found afresh.
    fn check_afresh(&self, nodes: &BTreeSet<u8>) {
        let mut fresh = Scheduler::default();
        nodes.iter().for_each(|n| fresh.update_node(node(&format!("n{n}"), &zoned(*n))));
        for (group, wish) in self.wishes.iter().enumerate() {
            fresh.update_group(&group_key(group), wish.standing());
        }
        self.pods.values().for_each(|pod| fresh.update_pod(pod));
        for group in 0..self.wishes.len() {
            let key = group_key(group);
            assert_eq!(self.scheduler.group_counts(&key), fresh.group_counts(&key), "{key:?}");
        }
        assert_eq!(self.scheduler.dump(), fresh.dump());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Shows: 5832-38.
    #[test]
    fn every_gang_that_fits_is_placed_once_arrivals_stop(
        nodes in 1..5u8,
        wishes in prop::collection::vec(wish(), 1..8),
        lost in prop::option::of(0..5u8),
    ) {
        let mut world = World::new(nodes, wishes);
        let mut there: BTreeSet<u8> = (0..nodes).collect();
        for group in 0..world.wishes.len() {
            world.arrive(group);
            world.decide();
            world.evict();
        }
        if let Some(n) = lost.filter(|n| *n < nodes) {
            world.lose_node(n);
            there.remove(&n);
            world.decide();
            world.check_afresh(&there);
            there.insert(n);
            world.scheduler.update_node(node(&format!("n{n}"), &zoned(n)));
        }
        let fitting: BTreeSet<usize> =
            (0..world.wishes.len()).filter(|group| fits_alone(&world.wishes[*group], nodes)).collect();
        let mut done: BTreeSet<usize> = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            world.decide();
            world.evict();
            world.decide();
            world.check_afresh(&there);
            done.extend(&world.served);
            world.finish_one();
            world.now = world.now + std::time::Duration::from_secs(20);
            if world.served.is_empty() && !world.scheduler.has_pending() {
                break;
            }
        }
        prop_assert!(fitting.is_subset(&done), "{:?} were placed, {:?} would fit", done, fitting);
    }
}
