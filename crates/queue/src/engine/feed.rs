//! Feeding the engine: specs, namespaces, workloads, and how writes went.
//!
//! # Invariants
//!
//! - Feeding what is known already changes nothing and wakes nobody.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_api::time::Time;
use muster_tree::Text;

use super::line::{Aside, Shape};
use super::spec::{CohortSpec, FlavorSpec, LocalQueueSpec, QueueSpec};
use super::workload::{Info, Key, Stand};
use super::{Engine, Entry, Tour};

/// How the writes of a decision went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// They are done, and what they changed was fed.
    Written,
    /// At least one was not done.
    Failed,
}

impl Engine {
    /// A ClusterQueue is there, or changed.
    pub fn cluster_queue(&mut self, spec: QueueSpec) {
        if self.queues.get(&spec.name).is_some_and(|old| **old == spec) {
            return;
        }
        let name = spec.name.clone();
        self.queues.insert(name.clone(), Arc::new(spec));
        self.stale_in(&name);
        self.lines.entry(name.clone()).or_default();
        self.place_members_of(&name);
    }

    /// A ClusterQueue is gone.
    pub fn cluster_queue_gone(&mut self, name: &str) {
        if self.queues.remove(name).is_some() {
            self.stale_in(&name.into());
            self.place_members_of(name);
            self.lines.remove(name);
            self.untold.remove(name);
        }
    }

    /// A Cohort is there, or changed.
    pub fn cohort(&mut self, spec: CohortSpec) {
        let name = spec.name.clone();
        if self.cohorts.get(&name) != Some(&spec) {
            self.cohorts.insert(name, spec);
            self.stale_everywhere();
        }
    }

    /// A Cohort is gone.
    pub fn cohort_gone(&mut self, name: &str) {
        if self.cohorts.remove(name).is_some() {
            self.stale_everywhere();
        }
    }

    /// A ResourceFlavor is there, or changed.
    pub fn flavor(&mut self, spec: FlavorSpec) {
        let name = spec.name.clone();
        if self.flavors.get(&name) != Some(&spec) {
            self.flavors.insert(name, spec);
            self.stale_everywhere();
        }
    }

    /// A ResourceFlavor is gone.
    pub fn flavor_gone(&mut self, name: &str) {
        if self.flavors.remove(name).is_some() {
            self.stale_everywhere();
        }
    }

    /// Something that queues depend on and that is not fed changed, an admission check for one: all get another look.
    pub fn flush(&mut self) {
        self.refresh();
        let all: BTreeSet<Text> = self.lines.keys().cloned().collect();
        self.flush_these(&all);
        for tree in &mut self.ledger.trees {
            tree.generation += 1;
            tree.dirty = true;
        }
    }

    /// A LocalQueue is there, or changed.
    pub fn local_queue(&mut self, spec: LocalQueueSpec) {
        let key = Key { namespace: spec.namespace.clone(), name: spec.name.clone() };
        if self.locals.get(&key) == Some(&spec) {
            return;
        }
        self.locals.insert(key.clone(), spec);
        self.place_members(&key);
    }

    /// A LocalQueue is gone.
    pub fn local_queue_gone(&mut self, namespace: &str, name: &str) {
        let key = Key::new(namespace, name);
        if self.locals.remove(&key).is_some() {
            self.place_members(&key);
        }
    }

    /// A namespace is there, or its labels changed; they are sorted by key.
    pub fn namespace(&mut self, name: &str, labels: Vec<(Text, Text)>) {
        if self.namespaces.get(name) == Some(&labels) {
            return;
        }
        self.namespaces.insert(name.into(), labels);
        let queues: Vec<Text> = self.lines.keys().cloned().collect();
        for queue in queues {
            self.recall(&queue, |key, why| *why == Aside::NamespaceMismatch && key.namespace == *name);
        }
    }

    /// A namespace is gone.
    pub fn namespace_gone(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// A workload is there, or changed.
    pub fn workload(&mut self, mut info: Info) {
        let key = info.key.clone();
        let old = self.workloads.get(&key);
        let mut assumed = old.is_some_and(|old| old.assumed);
        if let Some(old) = old {
            match info.stand {
                // Not yet aware of what was decided: the decision stands.
                Stand::Waiting if assumed && old.info.uid == info.uid => info.stand = old.info.stand.clone(),
                Stand::Waiting | Stand::Barred | Stand::Reserved(_) | Stand::Finished => assumed = false,
            }
            if old.info == info {
                if let Some(old) = self.workloads.get_mut(&key) {
                    old.assumed = assumed;
                }
                return;
            }
            if old.line.is_some() && stays_put(&old.info, &info) {
                if let Some(old) = self.workloads.get_mut(&key) {
                    old.info = info;
                }
                return;
            }
        }
        if info.evicted.is_some() || info.reservation().is_none() {
            self.named.remove(&key);
        }
        if self.holds_the_same(&info) {
            self.update_holder(info, assumed);
            return;
        }
        let tour = Tour::default();
        self.take_out(&key);
        let since = info.queued_since(self.settings.requeue_from);
        let local = Key { namespace: key.namespace.clone(), name: info.local_queue.clone() };
        self.by_local.entry(local).or_default().insert(key.clone());
        let shape = Arc::new(Shape::of(&info));
        let entry =
            Entry { since, shape, line: None, assumed, told: None, tour, verdict: None, holder: None, info };
        self.workloads.insert(key.clone(), entry);
        self.put_in(&key);
    }

    /// A workload is gone.
    pub fn workload_gone(&mut self, key: &Key) {
        self.take_out(key);
        self.named.remove(key);
        self.named.retain(|_, by| by != key);
    }

    /// Tells how the writes of the last decision about a workload went. Until then quota that was decided stays taken
    /// whatever is fed.
    pub fn settle(&mut self, key: &Key, outcome: Outcome) {
        let Some(entry) = self.workloads.get_mut(key) else { return };
        let assumed = std::mem::take(&mut entry.assumed);
        match outcome {
            Outcome::Written => {}
            Outcome::Failed if assumed => {
                entry.info.stand = Stand::Waiting;
                entry.told = None;
                // It holds nothing that could be taken from it.
                self.named.remove(key);
                self.release(key);
                self.put_in(key);
            }
            Outcome::Failed => {
                entry.told = None;
                let queue = entry.line.clone();
                // Its victims may not have been told: they are named again.
                self.named.retain(|_, by| by != key);
                if let Some(queue) = queue {
                    self.look_at(&queue);
                }
            }
        }
    }

    /// Counts a workload where it belongs.
    fn put_in(&mut self, key: &Key) {
        let Some(entry) = self.workloads.get(key) else { return };
        match entry.info.stand {
            Stand::Reserved(_) => self.hold(key),
            Stand::Waiting => self.enqueue(key),
            Stand::Barred | Stand::Finished => {}
        }
    }

    /// Forgets a workload and all that it caused.
    fn take_out(&mut self, key: &Key) {
        self.release(key);
        self.dequeue(key);
        if let Some(old) = self.workloads.remove(key) {
            let local = Key { namespace: key.namespace.clone(), name: old.info.local_queue };
            if let Some(members) = self.by_local.get_mut(&local) {
                members.remove(key);
                if members.is_empty() {
                    self.by_local.remove(&local);
                }
            }
        }
    }

    /// Wakes everyone in these queues who is not held by a clock, a namespace or someone's word.
    pub(super) fn flush_these(&mut self, queues: &BTreeSet<Text>) {
        for queue in queues {
            self.untold.remove(queue);
            let Some(line) = self.lines.get_mut(queue) else { continue };
            line.wake_all();
            self.recall(queue, |_, why| match why {
                // The queue may take other namespaces now: looked at once more.
                Aside::Refused | Aside::NamespaceMismatch => true,
                Aside::Until(_) | Aside::OnHold => false,
            });
        }
    }

    /// Lets those back into the line whose backoff is over.
    pub(super) fn recall_due(&mut self, now: Time) {
        if self.next_wake().is_none_or(|at| at > now) {
            return;
        }
        let queues: Vec<Text> = self.lines.keys().cloned().collect();
        for queue in queues {
            self.recall(&queue, |_, why| matches!(why, Aside::Until(at) if *at <= now));
        }
    }

    fn recall(&mut self, queue: &Text, which: impl Fn(&Key, &Aside) -> bool) {
        let Some(line) = self.lines.get_mut(queue) else { return };
        for key in line.take_aside(which) {
            self.join(queue, &key);
        }
    }

    /// Puts a waiting workload into the line of its queue, if there is one.
    fn enqueue(&mut self, key: &Key) {
        let Some(entry) = self.workloads.get(key) else { return };
        let local = Key { namespace: key.namespace.clone(), name: entry.info.local_queue.clone() };
        let Some(local) = self.locals.get(&local).filter(|local| !local.stopped) else { return };
        let queue = local.queue.clone();
        if !self.queues.contains_key(&queue) {
            return;
        }
        let aside = match (entry.info.on_hold, entry.info.requeue_at) {
            (true, _) => Some(Aside::OnHold),
            (false, Some(at)) => Some(Aside::Until(at)),
            (false, None) => None,
        };
        let place = entry.place();
        match aside {
            Some(why) => self.lines.entry(queue.clone()).or_default().put_aside(place, why),
            None => self.join(&queue, key),
        }
        if let Some(entry) = self.workloads.get_mut(key) {
            entry.line = Some(queue);
        }
    }

    /// Puts a workload into its class; its queue is looked at if it has a new head.
    fn join(&mut self, queue: &Text, key: &Key) {
        let Some(entry) = self.workloads.get(key) else { return };
        let (place, shape) = (entry.place(), Arc::clone(&entry.shape));
        let line = self.lines.entry(queue.clone()).or_default();
        if line.join(place, &shape) {
            self.untold.insert(queue.clone());
        } else if line.head() == Some(key) {
            self.new_head(queue);
        }
    }

    /// Takes a workload out of its line; whoever is head now is looked at.
    pub(super) fn dequeue(&mut self, key: &Key) {
        let Some(entry) = self.workloads.get_mut(key) else { return };
        let Some(queue) = entry.line.take() else { return };
        let (place, shape) = (entry.place(), Arc::clone(&entry.shape));
        // Whoever comes back under this name may be another.
        if let Some(node) = self.ledger.tree.queue(&queue) {
            self.ledger.memo[node].take_if(|memo| memo.key == *key);
        }
        if let Some(line) = self.lines.get_mut(&queue) {
            let was_head = line.head() == Some(key);
            line.leave(&place, &shape);
            if was_head {
                self.new_head(&queue);
            }
        }
    }

    fn place_members_of(&mut self, queue: &str) {
        let locals = self.locals.iter().filter(|(_, local)| local.queue == *queue);
        let locals: Vec<Key> = locals.map(|(key, _)| key.clone()).collect();
        for local in &locals {
            self.place_members(local);
        }
    }

    /// Puts the waiting workloads of a local queue where they belong now.
    fn place_members(&mut self, local: &Key) {
        let members: Vec<Key> = self.by_local.get(local).into_iter().flatten().cloned().collect();
        for key in &members {
            if self.workloads.get(key).is_some_and(|entry| entry.info.stand == Stand::Waiting) {
                self.dequeue(key);
                self.enqueue(key);
            }
        }
    }
}

/// Whether a change of a waiting workload leaves its chances as they were.
fn stays_put(old: &Info, new: &Info) -> bool {
    let mut same = new.clone();
    same.job_uid.clone_from(&old.job_uid);
    same.pods_ready = old.pods_ready;
    same == *old
}
