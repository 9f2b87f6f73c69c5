//! Who is next: groups that wait for a decision, and those that wait for a change that may help.
//!
//! # Invariants
//!
//! - An entry is in exactly one place ([`Spot`]).
//! - Nobody is looked at because time went by, except after an error. A refused group waits for the change that may
//!   help it; when that came too soon after the refusal, others go first (back-off).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::time::Time;

use crate::class::ClassId;
use crate::gang::TeamId;
use crate::pod::GroupKey;
use crate::reason::Cures;
use crate::world::PodId;

/// The first back-off.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest.
const BACKOFF_MAX: Duration = Duration::from_secs(10);

/// A queue entry.
pub type EntryId = u32;

/// The most urgent first, then the oldest, then who came first.
type Order = (Reverse<i64>, Time, u64, EntryId);

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// In no list: being decided about, or held.
    Out,
    /// Waits for a decision.
    Active,
    /// Waits for a decision, but was refused a moment ago.
    Backoff,
    /// Something went wrong; waits for its time.
    Error,
    /// Refused; waits with others of its class.
    Parked(ClassId),
    /// Refused, and not like others of its class: a group of several, or a pod that wants volumes or devices.
    ParkedApart,
}

/// How many pods without a node are where in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lengths {
    /// They wait for a decision.
    pub active: usize,
    /// They wait for a decision, but were refused a moment ago, or wait for their time after an error.
    pub backoff: usize,
    /// They wait for a change that may help.
    pub parked: usize,
    /// They wait for the rest of their group, or for what it refers to.
    pub held: usize,
}

/// A group that wants nodes.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub key: GroupKey,
    /// Pods without a node.
    pub members: Vec<PodId>,
    /// The group, unless it is a pod alone.
    pub team: Option<TeamId>,
    /// What may help it, when it is parked apart.
    cures: Cures,
    /// How much room would help it, when that can be said.
    lack: Option<Lack>,
    priority: i64,
    created: Time,
    came: u64,
    attempts: u32,
    ready_at: Time,
    spot: Spot,
}

/// A group of equal pods that only lacks room: so many more have to fit before another look is worth it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    /// Pods of this class.
    pub class: ClassId,
    /// So many.
    pub pods: usize,
    /// What counts as room.
    pub counts: Counted,
}

/// What counts as room to a group that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What is free, and what those hold that are less important than this: they can be evicted.
    Above(i64),
    /// What is free where no room is being made: it waits for room of its own.
    Free,
}

/// Entries of one class that wait for the same changes.
#[derive(Debug, Default)]
pub struct Parked {
    /// What may help.
    pub cures: Cures,
    entries: BTreeSet<Order>,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    entries: Vec<Option<Entry>>,
    free: Vec<EntryId>,
    active: BTreeSet<Order>,
    backoff: BTreeSet<(Time, EntryId)>,
    errors: BTreeSet<(Time, EntryId)>,
    parked: BTreeMap<ClassId, Parked>,
    apart: BTreeSet<Order>,
    /// How many entries there ever were.
    came: u64,
    now: Time,
}

impl Queue {
    /// The time of the decisions that are being made.
    pub fn now(&self) -> Time {
        self.now
    }

    /// An entry that exists.
    pub fn entry(&self, id: EntryId) -> &Entry {
        self.entries[id as usize].as_ref().expect("a numbered entry exists")
    }

    /// An entry that exists.
    pub fn entry_mut(&mut self, id: EntryId) -> &mut Entry {
        self.entries[id as usize].as_mut().expect("a numbered entry exists")
    }

    /// A new entry, in no list.
    pub fn add(&mut self, key: GroupKey, team: Option<TeamId>, priority: i64, created: Time) -> EntryId {
        self.came += 1;
        let entry = Entry {
            key,
            members: Vec::new(),
            team,
            cures: Cures::default(),
            lack: None,
            priority,
            created,
            came: self.came,
            attempts: 0,
            ready_at: Time::default(),
            spot: Spot::Out,
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            EntryId::try_from(self.entries.len() - 1).expect("fewer entries than 2^32")
        });
        self.entries[id as usize] = Some(entry);
        id
    }

    /// Forgets an entry; the class it was woken from when it was not decided about.
    pub fn remove(&mut self, id: EntryId) {
        self.leave(id);
        self.entries[id as usize] = None;
        self.free.push(id);
    }

    /// One more belongs to an entry: the most urgent and the oldest count.
    pub fn join(&mut self, id: EntryId, priority: i64, created: Time) {
        let entry = self.entry(id);
        let (priority, created) = (entry.priority.max(priority), entry.created.min(created));
        self.set_order(id, priority, created);
    }

    /// How old an entry is.
    pub fn age(&self, id: EntryId) -> Time {
        self.entry(id).created
    }

    /// Changes what the order goes by.
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
            Spot::Out => {}
            Spot::Error => self.enter(id, Spot::Error),
            _ => self.enter(id, Spot::Active),
        }
    }

    /// Puts an entry up for decision.
    pub fn activate(&mut self, id: EntryId) {
        self.leave(id);
        self.enter(id, Spot::Active);
    }

    /// Where an entry is.
    pub fn spot(&self, id: EntryId) -> Spot {
        self.entry(id).spot
    }

    /// Takes an entry out of its list.
    pub fn leave(&mut self, id: EntryId) {
        let order = self.order(id);
        let entry = self.entries[id as usize].as_mut().expect("a numbered entry exists");
        let ready_at = entry.ready_at;
        match std::mem::replace(&mut entry.spot, Spot::Out) {
            Spot::Out => {}
            Spot::Active => {
                self.active.remove(&order);
            }
            Spot::Backoff => {
                self.backoff.remove(&(ready_at, id));
            }
            Spot::Error => {
                self.errors.remove(&(ready_at, id));
            }
            Spot::Parked(class) => {
                let parked = self.parked.get_mut(&class).expect("a parked entry has a list");
                parked.entries.remove(&order);
                if parked.entries.is_empty() {
                    self.parked.remove(&class);
                }
            }
            Spot::ParkedApart => {
                self.apart.remove(&order);
            }
        }
    }

    fn enter(&mut self, id: EntryId, spot: Spot) {
        let order = self.order(id);
        let entry = self.entries[id as usize].as_mut().expect("a numbered entry exists");
        debug_assert_eq!(entry.spot, Spot::Out, "an entry is in one list");
        entry.spot = spot;
        let ready_at = entry.ready_at;
        match spot {
            Spot::Out => {}
            Spot::Active => {
                self.active.insert(order);
            }
            Spot::Backoff => {
                self.backoff.insert((ready_at, id));
            }
            Spot::Error => {
                self.errors.insert((ready_at, id));
            }
            Spot::Parked(class) => {
                self.parked.entry(class).or_default().entries.insert(order);
            }
            Spot::ParkedApart => {
                self.apart.insert(order);
            }
        }
    }

    fn order(&self, id: EntryId) -> Order {
        let entry = self.entry(id);
        (Reverse(entry.priority), entry.created, entry.came, id)
    }

    /// The next entry to decide about. While others are fresher, those in back-off wait.
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
        let next = next.or_else(|| self.backoff.first().map(|(_, id)| *id))?;
        self.leave(next);
        Some(next)
    }

    /// A refused pod waits with others of its class for what may help.
    pub fn park(&mut self, id: EntryId, class: ClassId, cures: Cures) {
        self.set_back(id);
        self.enter(id, Spot::Parked(class));
        let parked = self.parked.get_mut(&class).expect("just parked");
        parked.cures = parked.cures.or(cures);
    }

    /// A refused entry waits by itself for what may help.
    pub fn park_apart(&mut self, id: EntryId, cures: Cures, lack: Option<Lack>) {
        self.set_back(id);
        let entry = self.entry_mut(id);
        entry.cures = cures;
        entry.lack = lack;
        self.enter(id, Spot::ParkedApart);
    }

    /// An entry that met an error, for the so many-th time, is looked at again after a while.
    pub fn delay(&mut self, id: EntryId, now: Time, failures: u32) {
        self.now = self.now.max(now);
        self.leave(id);
        let entry = self.entry_mut(id);
        entry.attempts = entry.attempts.max(failures.saturating_sub(1));
        self.set_back(id);
        self.enter(id, Spot::Error);
    }

    fn set_back(&mut self, id: EntryId) {
        let now = self.now;
        let entry = self.entry_mut(id);
        let wait = BACKOFF_FIRST.saturating_mul(1 << entry.attempts.min(8)).min(BACKOFF_MAX);
        entry.attempts += 1;
        entry.ready_at = now + wait;
    }

    /// The classes of parked entries, with what may help them.
    pub fn parked(&self) -> Vec<(ClassId, Cures)> {
        self.parked.iter().map(|(class, parked)| (*class, parked.cures)).collect()
    }

    /// Whether anything is parked.
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty() || !self.apart.is_empty()
    }

    /// Wakes up to `max` parked entries of a class, the most urgent first.
    pub fn wake(&mut self, class: ClassId, max: usize) {
        let Some(parked) = self.parked.get(&class) else { return };
        let ids: Vec<EntryId> = parked.entries.iter().take(max).map(|order| order.3).collect();
        ids.into_iter().for_each(|id| self.rouse(id));
    }

    /// Wakes whoever is parked apart and may be helped by one of these changes. `room` tells for how many more there is
    /// room where something changed.
    pub fn wake_apart(&mut self, changes: Cures, mut room: impl FnMut(&Lack) -> usize) {
        let ids: Vec<EntryId> = self.apart.iter().map(|order| order.3).collect();
        for id in ids {
            let entry = self.entries[id as usize].as_mut().expect("a parked entry exists");
            let helped = entry.cures.shares(changes)
                && entry.lack.as_mut().is_none_or(|lack| {
                    lack.pods = lack.pods.saturating_sub(room(lack));
                    lack.pods == 0
                });
            if helped {
                self.rouse(id);
            }
        }
    }

    /// Wakes an entry if it is parked.
    pub fn wake_parked(&mut self, id: EntryId) {
        if matches!(self.entry(id).spot, Spot::Parked(_) | Spot::ParkedApart) {
            self.rouse(id);
        }
    }

    fn rouse(&mut self, id: EntryId) {
        self.leave(id);
        let early = self.entry(id).ready_at > self.now;
        self.enter(id, if early { Spot::Backoff } else { Spot::Active });
    }

    /// Puts an entry that was decided about straight back, with the age it had.
    pub fn put_back(&mut self, id: EntryId) {
        self.entry_mut(id).attempts = 0;
        self.enter(id, Spot::Active);
    }

    /// Whether somebody waits for a decision now.
    pub fn has_waiting(&self) -> bool {
        !self.active.is_empty() || !self.backoff.is_empty()
    }

    /// How many pods wait where.
    pub fn lengths(&self) -> Lengths {
        let mut lengths = Lengths::default();
        for entry in self.entries.iter().flatten() {
            let place = match entry.spot {
                Spot::Out => &mut lengths.held,
                Spot::Active => &mut lengths.active,
                Spot::Backoff | Spot::Error => &mut lengths.backoff,
                Spot::Parked(_) | Spot::ParkedApart => &mut lengths.parked,
            };
            *place += entry.members.len();
        }
        lengths
    }

    /// When the first one that met an error is to be looked at.
    pub fn wake_at(&self) -> Option<Time> {
        self.errors.first().map(|(at, _)| *at)
    }
}
