//! The scheduling queue: active, backoff and unschedulable entries, as kube-scheduler's `PriorityQueue`.
//!
//! # Invariants
//!
//! - An entry is in exactly one sub-queue ([`QueuePosition`]).
//! - No entry is retried because time passes, except after an error. An unschedulable entry waits for a cluster event
//!   that its hints name; if the event arrives within the backoff, entries without backoff are scheduled first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::time::Time;

use crate::cache::PodId;
use crate::equivalence_class::ClassId;
use crate::gang::GroupId;
use crate::pod::GroupKey;
use crate::reason::QueueingHints;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);

pub type EntryId = u32;

/// Priority, then creation time, then arrival.
type QueueOrder = (Reverse<i64>, Time, u64, EntryId);

/// The sub-queue of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuePosition {
    /// In no sub-queue: its cycle is running, or its group is held.
    Detached,
    /// Ready for a scheduling cycle.
    Active,
    /// Ready, but scheduled after the active entries until its backoff expires.
    Backoff,
    /// A binding or eviction failed; retried after its backoff.
    Error,
    /// Unschedulable, together with the entries of its equivalence class.
    Unschedulable(ClassId),
    /// Unschedulable, with hints of its own: a group, or a pod with claims.
    UnschedulableApart,
}

/// The number of pending pods per sub-queue (metric `pending_pods`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueLengths {
    /// In the active queue.
    pub active: usize,
    /// In backoff after an unschedulable cycle or an error.
    pub backoff: usize,
    /// Unschedulable until a cluster event requeues them.
    pub unschedulable: usize,
    /// Rejected by `PreEnqueue` with their group.
    pub held: usize,
}

/// A pending pod group or single pod.
#[derive(Debug)]
pub struct QueuedEntry {
    pub key: GroupKey,
    pub members: Vec<PodId>,
    /// The group; `None` for a single pod.
    pub team: Option<GroupId>,
    /// Its queueing hints while it is unschedulable apart.
    hints: QueueingHints,
    /// How many pods must fit before it is requeued, if that is known.
    shortage: Option<Shortage>,
    priority: i64,
    created: Time,
    came: u64,
    attempts: u32,
    ready_at: Time,
    spot: QueuePosition,
}

/// Missing resources of a group of equal pods: it is requeued only when this many more pods fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// Pods of this class.
    pub class: ClassId,
    pub pods: usize,
    /// What counts as room.
    pub counts: CapacityKind,
}

/// Which resources count as available for a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityKind {
    /// Free resources and those of pods with a lower priority, which can be preempted.
    Above(i64),
    /// Free resources on nodes without nominated pods: the group has its own victims elsewhere.
    Free,
}

/// Unschedulable entries of one equivalence class.
#[derive(Debug, Default)]
pub struct UnschedulableClass {
    pub cures: QueueingHints,
    entries: BTreeSet<QueueOrder>,
}

#[derive(Debug, Default)]
pub struct SchedulingQueue {
    entries: Vec<Option<QueuedEntry>>,
    free: Vec<EntryId>,
    active: BTreeSet<QueueOrder>,
    backoff: BTreeSet<(Time, EntryId)>,
    errors: BTreeSet<(Time, EntryId)>,
    parked: BTreeMap<ClassId, UnschedulableClass>,
    apart: BTreeSet<QueueOrder>,
    /// Entries added so far.
    came: u64,
    now: Time,
}

impl SchedulingQueue {
    /// The time of the running scheduling cycle.
    pub fn now(&self) -> Time {
        self.now
    }

    pub fn entry(&self, id: EntryId) -> &QueuedEntry {
        self.entries[id as usize].as_ref().expect("a numbered entry exists")
    }

    pub fn entry_mut(&mut self, id: EntryId) -> &mut QueuedEntry {
        self.entries[id as usize].as_mut().expect("a numbered entry exists")
    }

    /// Adds an entry in no sub-queue.
    pub fn add(&mut self, key: GroupKey, team: Option<GroupId>, priority: i64, created: Time) -> EntryId {
        self.came += 1;
        let entry = QueuedEntry {
            key,
            members: Vec::new(),
            team,
            hints: QueueingHints::default(),
            shortage: None,
            priority,
            created,
            came: self.came,
            attempts: 0,
            ready_at: Time::default(),
            spot: QueuePosition::Detached,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            EntryId::try_from(self.entries.len() - 1).expect("fewer entries than 2^32")
        });
        self.entries[id as usize] = Some(entry);
        id
    }

    pub fn remove(&mut self, id: EntryId) {
        self.leave(id);
        self.entries[id as usize] = None;
        self.free.push(id);
    }

    /// A member joined: the entry has the highest priority and the earliest creation time of its members.
    pub fn join(&mut self, id: EntryId, priority: i64, created: Time) {
        let entry = self.entry(id);
        let (priority, created) = (entry.priority.max(priority), entry.created.min(created));
        self.set_order(id, priority, created);
    }

    pub fn age(&self, id: EntryId) -> Time {
        self.entry(id).created
    }

    /// Changes priority and creation time; a pending entry becomes active.
    pub fn set_order(&mut self, id: EntryId, priority: i64, created: Time) {
        let spot = self.entry(id).spot;
        let (old, older) = (self.entry(id).priority, self.entry(id).created);
        if (old, older) == (priority, created) {
            return;
        }
        self.leave(id);
        let entry = self.entry_mut(id);
        entry.priority = priority;
        entry.created = created;
        match spot {
            QueuePosition::Detached => {}
            QueuePosition::Error => self.enter(id, QueuePosition::Error),
            _ => self.enter(id, QueuePosition::Active),
        }
    }

    /// Moves an entry to the active queue.
    pub fn activate(&mut self, id: EntryId) {
        self.leave(id);
        self.enter(id, QueuePosition::Active);
    }

    /// The sub-queue of an entry.
    pub fn position(&self, id: EntryId) -> QueuePosition {
        self.entry(id).spot
    }

    /// Removes an entry from its sub-queue.
    pub fn leave(&mut self, id: EntryId) {
        let order = self.order(id);
        let entry = self.entries[id as usize].as_mut().expect("a numbered entry exists");
        let ready_at = entry.ready_at;
        match std::mem::replace(&mut entry.spot, QueuePosition::Detached) {
            QueuePosition::Detached => {}
            QueuePosition::Active => {
                self.active.remove(&order);
            }
            QueuePosition::Backoff => {
                self.backoff.remove(&(ready_at, id));
            }
            QueuePosition::Error => {
                self.errors.remove(&(ready_at, id));
            }
            QueuePosition::Unschedulable(class) => {
                let parked = self.parked.get_mut(&class).expect("a parked entry has a list");
                parked.entries.remove(&order);
                if parked.entries.is_empty() {
                    self.parked.remove(&class);
                }
            }
            QueuePosition::UnschedulableApart => {
                self.apart.remove(&order);
            }
        }
    }

    fn enter(&mut self, id: EntryId, spot: QueuePosition) {
        let order = self.order(id);
        let entry = self.entries[id as usize].as_mut().expect("a numbered entry exists");
        debug_assert_eq!(entry.spot, QueuePosition::Detached, "an entry is in one list");
        entry.spot = spot;
        let ready_at = entry.ready_at;
        match spot {
            QueuePosition::Detached => {}
            QueuePosition::Active => {
                self.active.insert(order);
            }
            QueuePosition::Backoff => {
                self.backoff.insert((ready_at, id));
            }
            QueuePosition::Error => {
                self.errors.insert((ready_at, id));
            }
            QueuePosition::Unschedulable(class) => {
                self.parked.entry(class).or_default().entries.insert(order);
            }
            QueuePosition::UnschedulableApart => {
                self.apart.insert(order);
            }
        }
    }

    fn order(&self, id: EntryId) -> QueueOrder {
        let entry = self.entry(id);
        (Reverse(entry.priority), entry.created, entry.came, id)
    }

    /// The next entry to schedule. Entries in backoff follow when no other is active.
    pub fn pop(&mut self, now: Time) -> Option<EntryId> {
        self.now = now;
        while let Some((at, id)) = self.errors.first().copied().filter(|(at, _)| *at <= now) {
            debug_assert!(at <= now);
            self.activate(id);
        }
        while let Some((_, id)) = self.backoff.first().copied().filter(|(at, _)| *at <= now) {
            self.activate(id);
        }
        let next = self.active.first().map(|order| order.3);
        // An idle scheduler takes entries out of backoff early (kube-scheduler's SchedulerPopFromBackoffQ).
        let next = next.or_else(|| self.backoff.first().map(|(_, id)| *id))?;
        self.leave(next);
        Some(next)
    }

    /// Parks an unschedulable pod with the entries of its class.
    pub fn add_unschedulable(&mut self, id: EntryId, class: ClassId, cures: QueueingHints) {
        self.start_backoff(id);
        self.enter(id, QueuePosition::Unschedulable(class));
        let parked = self.parked.get_mut(&class).expect("just parked");
        parked.cures = parked.cures.or(cures);
    }

    /// Parks an unschedulable entry with hints of its own.
    pub fn add_unschedulable_apart(&mut self, id: EntryId, cures: QueueingHints, lack: Option<Shortage>) {
        self.start_backoff(id);
        let entry = self.entry_mut(id);
        entry.hints = cures;
        entry.shortage = lack;
        self.enter(id, QueuePosition::UnschedulableApart);
    }

    /// Retries an entry after the backoff for its n-th failure.
    pub fn retry_with_backoff(&mut self, id: EntryId, now: Time, failures: u32) {
        self.now = self.now.max(now);
        self.leave(id);
        let entry = self.entry_mut(id);
        entry.attempts = entry.attempts.max(failures.saturating_sub(1));
        self.start_backoff(id);
        self.enter(id, QueuePosition::Error);
    }

    fn start_backoff(&mut self, id: EntryId) {
        let now = self.now;
        let entry = self.entry_mut(id);
        // Doubles per attempt: 1, 2, 4, 8, 10 seconds, as kube-scheduler's podInitialBackoff and podMaxBackoff.
        let wait = BACKOFF_FIRST.saturating_mul(1 << entry.attempts.min(8)).min(BACKOFF_MAX);
        entry.attempts += 1;
        entry.ready_at = now + wait;
    }

    /// The unschedulable classes with their hints.
    pub fn parked(&self) -> Vec<(ClassId, QueueingHints)> {
        self.parked.iter().map(|(class, parked)| (*class, parked.cures)).collect()
    }

    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty() || !self.apart.is_empty()
    }

    /// Requeues up to `max` unschedulable entries of a class, in queue order.
    pub fn requeue_class(&mut self, class: ClassId, max: usize) {
        let Some(parked) = self.parked.get(&class) else { return };
        let ids: Vec<EntryId> = parked.entries.iter().take(max).map(|order| order.3).collect();
        ids.into_iter().for_each(|id| self.move_to_active_or_backoff(id));
    }

    /// Requeues entries with hints of their own that match an event. `room` returns how many more pods fit where
    /// something changed.
    pub fn requeue_apart(&mut self, changes: QueueingHints, mut room: impl FnMut(&Shortage) -> usize) {
        let ids: Vec<EntryId> = self.apart.iter().map(|order| order.3).collect();
        for id in ids {
            let entry = self.entries[id as usize].as_mut().expect("a parked entry exists");
            let helped = entry.hints.intersects(changes)
                && entry.shortage.as_mut().is_none_or(|lack| {
                    // Capacity freed by several events adds up until the group fits.
                    lack.pods = lack.pods.saturating_sub(room(lack));
                    lack.pods == 0
                });
            if helped {
                self.move_to_active_or_backoff(id);
            }
        }
    }

    /// Requeues an entry if it is unschedulable.
    pub fn requeue(&mut self, id: EntryId) {
        if matches!(self.entry(id).spot, QueuePosition::Unschedulable(_) | QueuePosition::UnschedulableApart)
        {
            self.move_to_active_or_backoff(id);
        }
    }

    fn move_to_active_or_backoff(&mut self, id: EntryId) {
        self.leave(id);
        // The event may help, but the entry failed less than its backoff ago.
        let early = self.entry(id).ready_at > self.now;
        self.enter(id, if early { QueuePosition::Backoff } else { QueuePosition::Active });
    }

    /// Returns an entry to the active queue after a successful cycle, without backoff and with its old order.
    pub fn put_back(&mut self, id: EntryId) {
        self.entry_mut(id).attempts = 0;
        self.enter(id, QueuePosition::Active);
    }

    pub fn has_waiting(&self) -> bool {
        !self.active.is_empty() || !self.backoff.is_empty()
    }

    pub fn lengths(&self) -> QueueLengths {
        let mut lengths = QueueLengths::default();
        for entry in self.entries.iter().flatten() {
            let place = match entry.spot {
                QueuePosition::Detached => &mut lengths.held,
                QueuePosition::Active => &mut lengths.active,
                QueuePosition::Backoff | QueuePosition::Error => &mut lengths.backoff,
                QueuePosition::Unschedulable(_) | QueuePosition::UnschedulableApart => {
                    &mut lengths.unschedulable
                }
            };
            *place += entry.members.len();
        }
        lengths
    }

    /// When the first entry with an error is retried.
    pub fn requeue_at(&self) -> Option<Time> {
        self.errors.first().map(|(at, _)| *at)
    }
}
