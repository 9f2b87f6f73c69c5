//! The order in which the members of a group are scheduled.
//!
//! Equal members follow each other, the oldest first, so that one node ranking serves them all. If members differ, the
//! order decides whether all of them fit: before a group fails, largest requests first and dependents last are tried.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::cache::{PodId, SchedulerCache};
use crate::counts::LabelProfileId;
use crate::equivalence_class::ClassId;

/// Members of one kind are interchangeable, claims aside. The label profile is `None` if no term concerns them.
pub type MemberKind = (ClassId, Option<LabelProfileId>);

impl SchedulerCache {
    /// The kind of a member. Labels count only if a term of its class or of a placed pod selects by them.
    pub fn kind_of(&self, id: PodId) -> MemberKind {
        let pod = self.pod(id);
        (pod.class, self.depends_on_pods(id).then_some(pod.profile))
    }

    /// Members by creation time, equal ones together.
    pub fn in_order(&self, pods: &[PodId]) -> Vec<PodId> {
        let mut pods = pods.to_vec();
        pods.sort_by(|a, b| {
            let (a, b) = (self.pod(*a), self.pod(*b));
            a.created.cmp(&b.created).then_with(|| a.key.cmp(&b.key))
        });
        let kinds = self.kinds(&pods);
        if kinds.len() > 1 {
            let places: BTreeMap<MemberKind, usize> = kinds.into_iter().zip(0..).collect();
            pods.sort_by_cached_key(|id| places[&self.kind_of(*id)]);
        }
        pods
    }

    /// The kinds of members in the order of their first member.
    pub fn kinds(&self, pods: &[PodId]) -> Vec<MemberKind> {
        let mut known: BTreeSet<MemberKind> = BTreeSet::new();
        pods.iter().map(|pod| self.kind_of(*pod)).filter(|kind| known.insert(*kind)).collect()
    }

    /// Orders to try after the default order failed.
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

    /// The dominant share of a pod in all nodes, in millionths.
    fn greed(&self, id: PodId) -> i128 {
        let asks = &self.class(self.pod(id).class).requests.amounts;
        let part = |(resource, amount): &(usize, i64)| {
            i128::from(*amount) * 1_000_000 / self.table.total(*resource).max(1)
        };
        asks.iter().map(part).max().unwrap_or(0)
    }

    /// Whether a pod requires affinity to pods other than itself.
    fn depends(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        let class = self.class(pod.class);
        class.affinity.iter().any(|counter| !self.counts.counts_profile(*counter, pod.profile))
    }
}
