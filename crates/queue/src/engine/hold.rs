//! Who holds quota, ordered as preemption wants it, and the scene on which one decision is made.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::spec::{FlavorSpec, QueueSpec, Settings};
use super::tree::{NodeId, PairId, QuotaTree, Usage};
use super::workload::Key;

/// A workload that holds quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its name.
    pub key: Key,
    /// Its UID.
    pub uid: Text,
    /// Its priority.
    pub priority: i64,
    /// Since when it waited before it got its quota.
    pub queued_since: Time,
    /// Since when it holds it.
    pub since: Time,
    /// It was told to go already.
    pub evicted: bool,
    /// In which queue.
    pub node: NodeId,
    /// What it holds; every amount is above zero.
    pub uses: Vec<(PairId, i64)>,
}

/// The place of a holder among those of its queue: who goes first when room is needed.
pub type Rank = (i64, Reverse<Time>, Text);
/// The holders of one queue.
pub type Holders = BTreeMap<Rank, Arc<Holder>>;

impl Holder {
    /// Its place among the holders of its queue.
    #[must_use]
    pub fn rank(&self) -> Rank {
        (self.priority, Reverse(self.since), self.uid.clone())
    }

    /// Whether it holds something of these pairs.
    #[must_use]
    pub fn uses_any(&self, pairs: &[PairId]) -> bool {
        self.uses.iter().any(|(pair, _)| pairs.contains(pair))
    }
}

/// What a decision may look at besides the usage, which it may change for a moment.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Quota.
    pub tree: &'a QuotaTree,
    /// Queues by node.
    pub specs: &'a [Arc<QueueSpec>],
    /// Flavors by name.
    pub flavors: &'a BTreeMap<Text, FlavorSpec>,
    /// Holders by node.
    pub holders: &'a [Holders],
    /// Behaviour.
    pub settings: &'a Settings,
}

impl Scene<'_> {
    /// Takes a holder out of the picture.
    pub fn remove(&self, usage: &mut Usage, holder: &Holder) {
        for &(pair, amount) in &holder.uses {
            self.tree.give_back(usage, holder.node, pair, amount);
        }
    }

    /// Puts a holder back.
    pub fn restore(&self, usage: &mut Usage, holder: &Holder) {
        for &(pair, amount) in &holder.uses {
            self.tree.take(usage, holder.node, pair, amount);
        }
    }

    /// Counts a request as usage.
    pub fn add(&self, usage: &mut Usage, node: NodeId, uses: &[(PairId, i64)]) {
        for &(pair, amount) in uses {
            self.tree.take(usage, node, pair, amount);
        }
    }

    /// Takes a request out again.
    pub fn subtract(&self, usage: &mut Usage, node: NodeId, uses: &[(PairId, i64)]) {
        for &(pair, amount) in uses {
            self.tree.give_back(usage, node, pair, amount);
        }
    }

    /// Whether a request fits as things stand.
    #[must_use]
    pub fn fits(&self, usage: &Usage, node: NodeId, uses: &[(PairId, i64)]) -> bool {
        uses.iter().all(|&(pair, amount)| amount <= self.tree.available(usage, node, pair))
    }
}
