//! The work queue: one entry per key, back-off after refusals, times to look again.
//!
//! # Invariants
//!
//! - A key is ready at most once, and never while a plan of it is under way; a wake during that time is
//!   remembered.
//! - A wake that comes while a plan fails does not end the pause, which our own writes would else do, but shortens a
//!   long one.
//! - An entry exists only while there is something to remember about its key.
//! - Of a refusal so much is kept as somebody reads: it is there to be shown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use muster_api::port::Refusal;
use muster_api::time::Time;

use crate::counters::Work;
use crate::plan::Key;

/// The first pause after a refusal that the next reading of the caches is likely to mend.
pub const RACE_BACKOFF_FIRST: Duration = Duration::from_millis(20);
/// The first pause after any other refusal.
pub const BACKOFF_FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
pub const BACKOFF_MAX: Duration = Duration::from_secs(60);
/// Letters kept of a refusal.
const WHY_LETTERS_MAX: usize = 300;
/// The longest pause of a key that was woken while its plan was carried out: what the plan saw is not all there is.
pub const WOKEN_BACKOFF_MAX: Duration = Duration::from_secs(2);

/// A key of one controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The controller's place in the loop.
    pub controller: usize,
    /// The key.
    pub key: Key,
}

#[derive(Debug, Default)]
struct Entry {
    ready: bool,
    under_way: bool,
    woken_meanwhile: bool,
    due: Option<Time>,
    failures: u32,
    /// Since when it is ready or under way.
    since: Time,
    /// The refusal that it waits for, in words.
    why: Option<Box<str>>,
}

/// A key as somebody from outside sees it.
#[derive(Debug)]
pub struct Look<'a> {
    /// Which.
    pub slot: &'a Slot,
    /// Whether it waits to be looked at.
    pub ready: bool,
    /// Whether its plan is under way.
    pub under_way: bool,
    /// Since when it is either.
    pub since: Time,
    /// When it becomes ready by itself.
    pub due: Option<Time>,
    /// Refusals in a row.
    pub failures: u32,
    /// The last of them.
    pub why: Option<&'a str>,
}

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    entries: BTreeMap<Slot, Entry>,
    ready: VecDeque<Slot>,
    due: BTreeSet<(Time, Slot)>,
    /// By the place of the controller.
    work: Vec<Work>,
    now: Time,
}

impl Queue {
    /// What happens from here on happens at this time.
    pub fn now_is(&mut self, now: Time) {
        self.now = now;
    }

    /// All keys that there is something to remember about.
    pub fn looks(&self) -> impl Iterator<Item = Look<'_>> {
        self.entries.iter().map(|(slot, entry)| Look {
            slot,
            ready: entry.ready,
            under_way: entry.under_way,
            since: entry.since,
            due: entry.due,
            failures: entry.failures,
            why: entry.why.as_deref(),
        })
    }

    /// Since when a key is ready or under way.
    pub fn since(&self, slot: &Slot) -> Option<Time> {
        self.entries.get(slot).map(|entry| entry.since)
    }

    /// What became of the keys of the controller at this place; what takes how long right now is not in it.
    pub fn work(&self, controller: usize) -> Work {
        self.work.get(controller).cloned().unwrap_or_default()
    }

    /// Wants `slot` looked at, at `at` or at once.
    pub fn wake(&mut self, slot: Slot, at: Option<Time>) {
        let entry = self.entries.entry(slot.clone()).or_default();
        match at {
            None if entry.under_way => entry.woken_meanwhile = true,
            None if entry.ready => {}
            None => {
                (entry.ready, entry.since) = (true, self.now);
                let work = of(&mut self.work, slot.controller);
                work.adds += 1;
                work.ready += 1;
                self.ready.push_back(slot);
            }
            Some(_) if entry.ready => {}
            Some(at) => self.due_by(slot, at),
        }
    }

    fn due_by(&mut self, slot: Slot, at: Time) {
        let entry = self.entries.entry(slot.clone()).or_default();
        match entry.due {
            Some(old) if old <= at => return,
            Some(old) => {
                self.due.remove(&(old, slot.clone()));
            }
            None => {}
        }
        entry.due = Some(at);
        self.due.insert((at, slot));
    }

    /// Makes everything ready whose time has come.
    pub fn tick(&mut self, now: Time) {
        self.now = now;
        while let Some((at, slot)) = self.due.pop_first() {
            if at > now {
                self.due.insert((at, slot));
                return;
            }
            if let Some(entry) = self.entries.get_mut(&slot) {
                entry.due = None;
            }
            self.wake(slot, None);
        }
    }

    /// The next ready key, which is under way from now on.
    pub fn pop(&mut self) -> Option<Slot> {
        let slot = self.ready.pop_front()?;
        let entry = self.entries.entry(slot.clone()).or_default();
        let work = of(&mut self.work, slot.controller);
        work.ready -= 1;
        work.waits.add(self.now.since(entry.since));
        entry.since = self.now;
        entry.ready = false;
        entry.under_way = true;
        entry.woken_meanwhile = false;
        if let Some(at) = entry.due.take() {
            self.due.remove(&(at, slot.clone()));
        }
        Some(slot)
    }

    /// The plan of `slot` was carried out.
    pub fn done(&mut self, slot: &Slot, again_at: Option<Time>) {
        let work = of(&mut self.work, slot.controller);
        *if again_at.is_some() { &mut work.again } else { &mut work.done } += 1;
        self.settle(slot, again_at, 0, None);
    }

    /// The plan of `slot` was refused: looks again after a pause that doubles each time.
    pub fn failed(&mut self, slot: &Slot, why: &Refusal, now: Time) {
        let entry = self.entries.get(slot);
        let failures = entry.map_or(0, |entry| entry.failures) + 1;
        let mut pause = pause(why, failures);
        if entry.is_some_and(|entry| entry.woken_meanwhile) {
            pause = pause.min(WOKEN_BACKOFF_MAX);
        }
        of(&mut self.work, slot.controller).refused += 1;
        let words: String = why.to_string().chars().take(WHY_LETTERS_MAX).collect();
        self.settle(slot, Some(now + pause), failures, Some(words.into()));
    }

    /// Whether the last plan of `slot` was refused.
    #[must_use]
    pub fn has_failed(&self, slot: &Slot) -> bool {
        self.entries.get(slot).is_some_and(|entry| entry.failures > 0)
    }

    fn settle(&mut self, slot: &Slot, again_at: Option<Time>, failures: u32, why: Option<Box<str>>) {
        let entry = self.entries.entry(slot.clone()).or_default();
        of(&mut self.work, slot.controller).times.add(self.now.since(entry.since));
        entry.why = why;
        entry.under_way = false;
        entry.failures = failures;
        if std::mem::take(&mut entry.woken_meanwhile) && failures == 0 {
            self.wake(slot.clone(), None);
        }
        if let Some(at) = again_at {
            self.due_by(slot.clone(), at);
        }
        let idle = |entry: &Entry| !entry.ready && entry.due.is_none() && entry.failures == 0;
        if self.entries.get(slot).is_some_and(idle) {
            self.entries.remove(slot);
        }
    }

    /// How many keys are ready.
    #[must_use]
    pub fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// When the next key becomes ready by itself.
    #[must_use]
    pub fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }
}

/// What is counted for the controller at this place.
fn of(work: &mut Vec<Work>, controller: usize) -> &mut Work {
    if work.len() <= controller {
        work.resize_with(controller + 1, Work::default);
    }
    &mut work[controller]
}

fn pause(why: &Refusal, failures: u32) -> Duration {
    let first = match why {
        Refusal::Busy { retry_after } => return (*retry_after).clamp(RACE_BACKOFF_FIRST, BACKOFF_MAX),
        Refusal::Conflict(_) | Refusal::NotFound(_) | Refusal::AlreadyExists(_) => RACE_BACKOFF_FIRST,
        Refusal::Invalid(_) | Refusal::Forbidden(_) | Refusal::Unknown(_) => BACKOFF_FIRST,
    };
    first.saturating_mul(1 << (failures - 1).min(16)).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests {
    use muster_api::kinds;

    use super::*;

    fn slot(name: &str) -> Slot {
        Slot { controller: 0, key: Key::new(&kinds::PODS, &"ns".into(), &name.into()) }
    }

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    #[test]
    fn a_key_is_ready_once_and_a_wake_under_way_is_remembered() {
        let mut queue = Queue::default();
        queue.wake(slot("a"), None);
        queue.wake(slot("a"), None);
        assert_eq!(queue.ready_len(), 1);
        let first = queue.pop().unwrap();
        queue.wake(slot("a"), None);
        assert_eq!(queue.pop(), None, "not while under way");
        queue.done(&first, None);
        assert_eq!(queue.pop(), Some(slot("a")));
        queue.done(&slot("a"), None);
        assert!(queue.entries.is_empty(), "nothing to remember");
    }

    #[test]
    fn refusals_pause_longer_each_time_up_to_a_bound() {
        let conflict = Refusal::Conflict(String::new());
        let forbidden = Refusal::Forbidden(String::new());
        for (why, failures, want) in [
            (&conflict, 1, 20),
            (&conflict, 2, 40),
            (&forbidden, 1, 1000),
            (&forbidden, 3, 4000),
            (&forbidden, 40, 60_000),
            (&Refusal::Busy { retry_after: Duration::from_secs(3) }, 9, 3000),
        ] {
            assert_eq!(pause(why, failures), Duration::from_millis(want), "{why} {failures}");
        }
    }

    #[test]
    fn a_refused_key_waits_unless_it_is_woken_afterwards() {
        let mut queue = Queue::default();
        queue.wake(slot("a"), None);
        let a = queue.pop().unwrap();
        queue.wake(slot("a"), None);
        queue.failed(&a, &Refusal::Conflict(String::new()), at(0));
        assert_eq!(queue.ready_len(), 0, "our own writes must not cut the pause short");
        assert_eq!(queue.next_due(), Some(at(20)));
        queue.wake(slot("a"), None);
        assert_eq!(queue.pop(), Some(slot("a")), "a change does");
        assert_eq!(queue.next_due(), None);
    }

    #[test]
    fn a_wake_while_a_plan_fails_shortens_a_long_pause() {
        let forbidden = Refusal::Forbidden(String::new());
        let mut queue = Queue::default();
        for (says, woken, want) in [
            ("the first", false, 1000),
            ("woken, but the pause is short", true, 2000),
            ("longer", false, 4000),
            ("woken", true, 2000),
            ("the next is as long as it would have been", false, 16_000),
        ] {
            queue.wake(slot("a"), None);
            let a = queue.pop().unwrap();
            if woken {
                queue.wake(slot("a"), None);
            }
            queue.failed(&a, &forbidden, at(0));
            assert_eq!(queue.next_due(), Some(at(want)), "{says}");
            assert!(queue.has_failed(&a));
        }
    }

    #[test]
    fn the_earlier_of_two_times_counts() {
        let mut queue = Queue::default();
        queue.wake(slot("a"), Some(at(50)));
        queue.wake(slot("a"), Some(at(30)));
        queue.wake(slot("a"), Some(at(70)));
        queue.tick(at(29));
        assert_eq!(queue.ready_len(), 0);
        queue.tick(at(30));
        assert_eq!(queue.pop(), Some(slot("a")));
        assert_eq!(queue.next_due(), None);
    }
}
