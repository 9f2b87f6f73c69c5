//! Holders come, change and go: usage moves with them, and whoever waited for it wakes.
//!
//! # Invariants
//!
//! - Usage moves with the holder that causes it, never by itself.
//! - A change that moves no quota wakes nobody, unless it makes a holder a victim that it was not.

use std::sync::Arc;

use super::hold::Holder;
use super::spec::UNLIMITED;
use super::tree::{NodeId, PairId};
use super::workload::{Info, Key};
use super::{Engine, Ledger};

impl Engine {
    /// Whether a holder goes on holding just what it holds.
    pub(super) fn holds_the_same(&self, info: &Info) -> bool {
        let Some(old) = self.workloads.get(&info.key).filter(|old| old.holder.is_some()) else {
            return false;
        };
        let (Some(before), Some(now)) = (old.info.reservation(), info.reservation()) else { return false };
        let same =
            old.info.uid == info.uid && old.info.local_queue == info.local_queue && before.queue == now.queue;
        same && old.info.held() == info.held()
    }

    /// A holder changed in itself: no quota moves, but others may look at it with other eyes.
    pub(super) fn update_holder(&mut self, info: Info, assumed: bool) {
        let key = info.key.clone();
        let since = info.queued_since(self.settings.requeue_from);
        self.note_readiness(&key, info.pods_ready);
        let Some(entry) = self.workloads.get_mut(&key) else { return };
        let admitted = |info: &Info| info.reservation().is_some_and(|it| it.admitted);
        let change = i64::from(admitted(&info)) - i64::from(admitted(&entry.info));
        let (Some(old), Some(reservation)) = (entry.holder.clone(), info.reservation()) else { return };
        let new = Arc::new(Holder {
            priority: info.priority,
            queued_since: since,
            since: reservation.since,
            evicted: info.evicted.is_some(),
            ..(*old).clone()
        });
        entry.holder = Some(Arc::clone(&new));
        (entry.info, entry.since, entry.assumed) = (info, since, assumed);
        if self.stale.is_some() {
            self.moves(old.node);
            return;
        }
        let ledger = &mut self.ledger;
        for &(pair, amount) in &new.uses {
            let cell = &mut ledger.admitted[new.node * ledger.tree.pairs.len() + pair];
            *cell = cell.saturating_add(change.saturating_mul(amount));
        }
        ledger.holders[new.node].remove(&old.rank());
        ledger.holders[new.node].insert(new.rank(), Arc::clone(&new));
        if *old != *new {
            self.touch(new.node);
        }
        if old.priority != new.priority {
            let pairs: Vec<PairId> = new.uses.iter().map(|(pair, _)| *pair).collect();
            self.wake(new.node, &pairs);
        }
    }

    /// Keeps the list of holders that are not ready; when it empties, those who waited for that are looked at.
    fn note_readiness(&mut self, key: &Key, ready: bool) {
        if !ready {
            self.unready.insert(key.clone());
        } else if self.unready.remove(key)
            && self.unready.is_empty()
            && std::mem::take(&mut self.ready_awaited)
        {
            self.ledger.trees.iter_mut().for_each(|tree| tree.dirty = true);
        }
    }

    /// Counts the quota of a holder.
    pub(super) fn hold(&mut self, key: &Key) {
        let Some(entry) = self.workloads.get(key) else { return };
        if entry.info.reservation().is_none() {
            return;
        }
        let ready = entry.info.pods_ready;
        self.note_readiness(key, ready);
        let Some(entry) = self.workloads.get(key) else { return };
        let Some(reservation) = entry.info.reservation() else { return };
        if self.stale.is_some() {
            let queue = reservation.queue.clone();
            self.stale_in(&queue);
            return;
        }
        let Some(node) = self.ledger.tree.queue(&reservation.queue) else { return };
        let Some(uses) = self.pairs_of(&entry.info) else {
            self.stale_everywhere();
            return;
        };
        let holder = Arc::new(Holder {
            key: key.clone(),
            uid: entry.info.uid.clone(),
            priority: entry.info.priority,
            queued_since: entry.since,
            since: reservation.since,
            evicted: entry.info.evicted.is_some(),
            node,
            uses,
        });
        let admitted = reservation.admitted;
        self.count(&holder, admitted);
        if let Some(entry) = self.workloads.get_mut(key) {
            entry.holder = Some(holder);
        }
    }

    fn count(&mut self, holder: &Arc<Holder>, admitted: bool) {
        let ledger = &mut self.ledger;
        for &(pair, amount) in &holder.uses {
            ledger.tree.take(&mut ledger.usage, holder.node, pair, amount);
            if admitted {
                let cell = &mut ledger.admitted[holder.node * ledger.tree.pairs.len() + pair];
                *cell = cell.saturating_add(amount);
            }
        }
        ledger.holders[holder.node].insert(holder.rank(), Arc::clone(holder));
        self.touch(holder.node);
    }

    /// What a holder uses, by pair; `None` if the tree has no such pair yet.
    fn pairs_of(&self, info: &Info) -> Option<Vec<(PairId, i64)>> {
        let held = info.held().into_iter().filter(|(_, amount)| *amount > 0);
        held.map(|((flavor, resource), amount)| Some((self.ledger.tree.pair(&flavor, &resource)?, amount)))
            .collect()
    }

    /// Gives back what a workload holds, and wakes who waited for it.
    pub(super) fn release(&mut self, key: &Key) {
        self.note_readiness(key, true);
        let Some(entry) = self.workloads.get_mut(key) else { return };
        let Some(holder) = entry.holder.take() else { return };
        let admitted = entry.info.reservation().is_some_and(|it| it.admitted);
        // A sum that stopped at the largest number cannot be undone by subtraction: all is counted anew.
        if self.stale.is_some() || self.ledger.is_saturated(&holder) {
            self.moves(holder.node);
            return;
        }
        let ledger = &mut self.ledger;
        for &(pair, amount) in &holder.uses {
            ledger.tree.give_back(&mut ledger.usage, holder.node, pair, amount);
            if admitted {
                let cell = &mut ledger.admitted[holder.node * ledger.tree.pairs.len() + pair];
                *cell = cell.saturating_sub(amount);
            }
        }
        ledger.holders[holder.node].remove(&holder.rank());
        self.touch(holder.node);
        let pairs: Vec<PairId> = holder.uses.iter().map(|(pair, _)| *pair).collect();
        self.wake(holder.node, &pairs);
    }

    /// Something of a queue moved that is counted when all is counted anew.
    fn moves(&mut self, node: NodeId) {
        let queue = self.ledger.tree.nodes[node].name.clone();
        self.stale_in(&queue);
    }

    /// Wakes the parked workloads of a tree that these pairs stopped. Under fair sharing every usage moves shares.
    fn wake(&mut self, node: NodeId, pairs: &[PairId]) {
        let root = self.ledger.tree.nodes[node].root;
        for queue in self.ledger.tree.queues_below(root) {
            let name = &self.ledger.tree.nodes[queue].name;
            if let Some(line) = self.lines.get_mut(name) {
                if self.settings.fair_sharing.is_some() {
                    line.wake_all();
                } else {
                    line.wake_by(pairs);
                }
            }
        }
    }
}

impl Ledger {
    /// Whether some sum that this holder is part of reached the largest number.
    fn is_saturated(&self, holder: &Holder) -> bool {
        let tree = &self.tree;
        let full =
            |node| holder.uses.iter().any(|&(pair, _)| tree.used(&self.usage, node, pair) == UNLIMITED);
        full(holder.node) || tree.path(holder.node).any(full)
    }
}
