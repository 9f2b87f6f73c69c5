//! Limits the deletions of expired TrainJobs in flight: an additive-increase, multiplicative-decrease window.
//!
//! The window starts small, grows by one with every deletion that succeeds, up to the configured maximum, and is halved when the
//! server is overloaded or does not answer.
//!
//! # Guarantees
//!
//! - A TrainJob is deleted in two reconciliations: the first queues it, the second sends the deletion when it has a slot. All
//!   keys that were ready at the first one are reconciled before that.
//! - A free slot goes to the TrainJob that has waited longest; no waiting TrainJob is polled.
//! - A slot that is not used is given to the next one.

use std::collections::{BTreeMap, BTreeSet};

use crate::controller::ObjectKey;

/// The initial size of the window.
const FIRST: usize = 5;

/// Deletions in flight, and TrainJobs that wait for a slot.
#[derive(Debug)]
pub struct DeletionWindow {
    max: usize,
    /// The current size of the window, from one to `max`.
    window: usize,
    in_flight: BTreeSet<ObjectKey>,
    /// TrainJobs with a slot that are about to be reconciled.
    called: BTreeSet<ObjectKey>,
    /// In order of arrival.
    waiting: BTreeMap<u64, ObjectKey>,
    places: BTreeMap<ObjectKey, u64>,
    next: u64,
}

impl DeletionWindow {
    /// A window of at most `max`, and at least one.
    pub fn new(max: usize) -> DeletionWindow {
        let max = max.max(1);
        DeletionWindow {
            max,
            window: FIRST.min(max),
            in_flight: BTreeSet::new(),
            called: BTreeSet::new(),
            waiting: BTreeMap::new(),
            places: BTreeMap::new(),
            next: 0,
        }
    }

    /// Whether this TrainJob may be deleted now; otherwise it is queued.
    pub fn enter(&mut self, key: &ObjectKey) -> bool {
        if self.called.remove(key) {
            self.in_flight.insert(key.clone());
            return true;
        }
        if !self.places.contains_key(key) {
            self.next += 1;
            self.waiting.insert(self.next, key.clone());
            self.places.insert(key.clone(), self.next);
        }
        false
    }

    /// This TrainJob is reconciled, so none of its requests is in flight: a deletion in flight has succeeded.
    pub fn taken(&mut self, key: &ObjectKey) {
        self.leave_line(key);
        if self.in_flight.remove(key) {
            self.window = (self.window + 1).min(self.max);
        }
    }

    /// The deletion of this TrainJob failed.
    pub fn refused(&mut self, key: &ObjectKey) {
        self.leave_line(key);
        self.in_flight.remove(key);
    }

    /// The server is overloaded or does not answer.
    pub fn slow_down(&mut self) {
        self.window = (self.window / 2).max(1);
    }

    /// The TrainJobs that get a slot after the reconciliation of this one, which frees its own slot if unused.
    pub fn next_after(&mut self, key: &ObjectKey) -> Vec<ObjectKey> {
        self.called.remove(key);
        let mut all = Vec::new();
        while self.in_flight.len() + self.called.len() < self.window {
            let Some((_, next)) = self.waiting.pop_first() else { break };
            self.places.remove(&next);
            self.called.insert(next.clone());
            all.push(next);
        }
        all
    }

    /// Removes it from the queue; it enters again if it still needs the deletion.
    fn leave_line(&mut self, key: &ObjectKey) {
        if let Some(place) = self.places.remove(key) {
            self.waiting.remove(&place);
        }
    }

    /// How many have a slot, and how many wait.
    #[cfg(test)]
    pub fn count(&self) -> (usize, usize) {
        (self.in_flight.len() + self.called.len(), self.waiting.len())
    }
}

#[cfg(test)]
mod tests {
    use muster_api::train::kinds::TRAIN_JOBS;

    use super::*;

    fn key(n: usize) -> ObjectKey {
        ObjectKey::new(&TRAIN_JOBS, &"ns".into(), &format!("j{n}").into())
    }

    /// Looks at these keys, each of which wants to be deleted; which are deleted, and which are called.
    fn looked_at(it: &mut DeletionWindow, keys: &[ObjectKey]) -> (Vec<ObjectKey>, Vec<ObjectKey>) {
        let (mut sent, mut called) = (Vec::new(), Vec::new());
        for key in keys {
            it.taken(key);
            if it.enter(key) {
                sent.push(key.clone());
            }
            called.extend(it.next_after(key));
        }
        (sent, called)
    }

    /// These deletions were taken: their TrainJobs are looked at once more and want nothing.
    fn taken(it: &mut DeletionWindow, keys: &[ObjectKey]) -> Vec<ObjectKey> {
        let mut called = Vec::new();
        for key in keys {
            it.taken(key);
            called.extend(it.next_after(key));
        }
        called
    }

    #[test]
    fn a_server_that_keeps_up_is_given_more_up_to_the_bound() {
        let mut it = DeletionWindow::new(16);
        let all: Vec<ObjectKey> = (0..200).map(key).collect();
        let (sent, mut called) = looked_at(&mut it, &all);
        assert_eq!((sent.len(), called.as_slice()), (0, &all[..5]), "nothing is sent at the first look");
        let (mut rounds, mut done) = (Vec::new(), 0);
        while !called.is_empty() {
            let (sent, more) = looked_at(&mut it, &called);
            assert_eq!((&sent, more.len()), (&called, 0), "a place is taken by the one that has it");
            assert_eq!(sent, all[done..done + sent.len()], "in the order in which they came");
            rounds.push(sent.len());
            done += sent.len();
            called = taken(&mut it, &sent);
        }
        assert_eq!(rounds[..4], [5, 10, 16, 16], "{rounds:?}");
        assert_eq!((done, it.count()), (200, (0, 0)));
    }

    #[test]
    fn a_busy_server_is_given_half() {
        let mut it = DeletionWindow::new(16);
        let all: Vec<ObjectKey> = (0..100).map(key).collect();
        let (_, called) = looked_at(&mut it, &all);
        let (sent, _) = looked_at(&mut it, &called);
        let called = taken(&mut it, &sent);
        let (sent, _) = looked_at(&mut it, &called);
        assert_eq!(sent.len(), 10);
        it.refused(&sent[0]);
        it.slow_down();
        assert_eq!(it.next_after(&sent[0]), [], "nine are still in flight, and five are enough");
        let called = taken(&mut it, &sent[1..4]);
        assert_eq!(called.len(), 2, "six in flight, and five and three more are allowed");
        (0..10).for_each(|_| it.slow_down());
        assert_eq!(it.window, 1, "one always is");
    }

    #[test]
    fn a_place_that_is_not_taken_is_given_again() {
        let mut it = DeletionWindow::new(1);
        let (_, called) = looked_at(&mut it, &[key(0), key(1), key(2)]);
        assert_eq!(called, [key(0)]);
        // A user deleted it meanwhile.
        assert_eq!(taken(&mut it, &[key(0)]), [key(1)]);
        let (sent, _) = looked_at(&mut it, &[key(1)]);
        assert_eq!(sent, [key(1)]);
        it.refused(&key(1));
        assert_eq!(it.next_after(&key(1)), [key(2)]);
        assert_eq!(it.count(), (1, 0));
    }
}
