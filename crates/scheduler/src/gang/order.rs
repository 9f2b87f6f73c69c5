//! In which order the members of a group are placed.
//!
//! Equal members follow each other, the oldest first: one ranking of the nodes serves them all. Where members differ,
//! the order decides whether all find a place; two more are tried before a group is refused: the greediest first,
//! and those that need others near last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::class::ClassId;
use crate::counts::SortId;
use crate::world::{PodId, World};

/// Members of one kind are interchangeable, claims aside. The sort is left out where other pods mean nothing to them.
pub type KindOfPod = (ClassId, Option<SortId>);

impl World {
    /// What makes members interchangeable right now: labels do where a rule of the class or of some pod looks at them.
    pub fn kind_of(&self, id: PodId) -> KindOfPod {
        let pod = self.pod(id);
        (pod.class, self.looks_at_pods(id).then_some(pod.sort))
    }

    /// Members in the order of their age, equal ones together.
    pub fn in_order(&self, pods: &[PodId]) -> Vec<PodId> {
        let mut pods = pods.to_vec();
        pods.sort_by(|a, b| {
            let (a, b) = (self.pod(*a), self.pod(*b));
            a.created.cmp(&b.created).then_with(|| a.key.cmp(&b.key))
        });
        let kinds = self.kinds(&pods);
        if kinds.len() > 1 {
            let places: BTreeMap<KindOfPod, usize> = kinds.into_iter().zip(0..).collect();
            pods.sort_by_cached_key(|id| places[&self.kind_of(*id)]);
        }
        pods
    }

    /// The kinds of members, in the order of their first.
    pub fn kinds(&self, pods: &[PodId]) -> Vec<KindOfPod> {
        let mut known: BTreeSet<KindOfPod> = BTreeSet::new();
        pods.iter().map(|pod| self.kind_of(*pod)).filter(|kind| known.insert(*kind)).collect()
    }

    /// Other orders worth a try when the usual one failed.
    pub fn other_orders(&self, usual: &[PodId]) -> Vec<Vec<PodId>> {
        if self.kinds(usual).len() < 2 {
            return Vec::new();
        }
        let mut greedy = usual.to_vec();
        greedy.sort_by_cached_key(|id| Reverse(self.greed(*id)));
        let mut dependents = greedy.clone();
        dependents.sort_by_cached_key(|id| self.depends(*id));
        let mut orders: Vec<Vec<PodId>> = Vec::new();
        for order in [greedy, dependents] {
            if order != usual && !orders.contains(&order) {
                orders.push(order);
            }
        }
        orders
    }

    /// The largest part of what all nodes have that a pod asks for, in millionths.
    fn greed(&self, id: PodId) -> i128 {
        let asks = &self.class(self.pod(id).class).asks.amounts;
        let part = |(resource, amount): &(usize, i64)| {
            i128::from(*amount) * 1_000_000 / self.table.total(*resource).max(1)
        };
        asks.iter().map(part).max().unwrap_or(0)
    }

    /// Whether a pod needs others near, and does not do itself.
    fn depends(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        let class = self.class(pod.class);
        class.near.iter().any(|counter| !self.counts.counts_sort(*counter, pod.sort))
    }
}
