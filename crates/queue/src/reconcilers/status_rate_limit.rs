//! Rate limit of pending-status updates.
//!
//! Every admission and deletion changes the pending message of all Workloads that still wait. A few are written at
//! once; with many the updates are rate-limited, so that the API server has capacity for admissions. A Workload
//! admitted before its update is due never gets one. First reports and changed reports have separate queues, so a
//! new Workload does not wait behind updates of old ones.
//!
//! # Guarantees
//!
//! - Only pending Workloads are queued: a Workload that is admitted, finished or deleted is forgotten, and those
//!   behind it move up.
//! - The state is advisory. After a restart it is empty, and at worst a status is written sooner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::time::Time;

use crate::engine::workload::NamespacedName;

/// Interval between two updates of one class. A status update with its event costs the API server about 10 ms of
/// CPU.
pub const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// Updates allowed in a burst after an idle time.
pub const BURST: u32 = 20;

/// Which queue a pending-status update belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusUpdateClass {
    /// No pending status was written yet.
    FirstReport,
    /// The written pending status is outdated.
    ChangedReport,
}

/// Rate limiter of pending-status updates, FIFO per class.
#[derive(Debug, Clone, Default)]
pub struct StatusRateLimiter {
    lines: [RateLimitedQueue; 2],
    places: BTreeMap<NamespacedName, (StatusUpdateClass, u64)>,
    /// Workloads with an update due now.
    called: BTreeSet<NamespacedName>,
    next_place: u64,
}

#[derive(Debug, Clone, Default)]
struct RateLimitedQueue {
    waiting: BTreeMap<u64, NamespacedName>,
    /// The virtual time up to which the rate is used (leaky bucket).
    done: Time,
}

impl RateLimitedQueue {
    fn take(&mut self, now: Time) -> bool {
        let free = self.free_at() <= now;
        if free {
            self.done = self.done.max(now) + UPDATE_INTERVAL;
        }
        free
    }

    fn free_at(&self) -> Time {
        // Up to `BURST` intervals may be used ahead of time.
        let ahead = i64::try_from((UPDATE_INTERVAL * BURST).as_micros()).unwrap_or(i64::MAX);
        Time(self.done.0.saturating_sub(ahead))
    }
}

impl StatusRateLimiter {
    /// Whether the status of a Workload may be written now; otherwise it is queued.
    pub fn try_accept(&mut self, about: &NamespacedName, line: StatusUpdateClass, now: Time) -> bool {
        if self.called.remove(about) {
            return true;
        }
        // Already queued: it keeps its place, and the status is computed when it is written.
        if self.places.contains_key(about) {
            return false;
        }
        let others = &mut self.lines[line as usize];
        if others.waiting.is_empty() && others.take(now) {
            return true;
        }
        others.waiting.insert(self.next_place, about.clone());
        self.places.insert(about.clone(), (line, self.next_place));
        self.next_place += 1;
        false
    }

    /// Whether it is queued or ready.
    #[must_use]
    pub fn is_queued(&self, about: &NamespacedName) -> bool {
        self.places.contains_key(about) || self.called.contains(about)
    }

    /// Takes the Workloads with an update due.
    pub fn take_ready(&mut self, now: Time) -> Vec<NamespacedName> {
        let mut called = Vec::new();
        for line in &mut self.lines {
            while let Some(first) = line.waiting.first_entry().map(|it| *it.key())
                && line.take(now)
            {
                called.extend(line.waiting.remove(&first));
            }
        }
        for key in &called {
            self.places.remove(key);
            self.called.insert(key.clone());
        }
        called
    }

    /// When the next update is due.
    #[must_use]
    pub fn next_ready_at(&self) -> Option<Time> {
        self.lines.iter().filter(|it| !it.waiting.is_empty()).map(RateLimitedQueue::free_at).min()
    }

    /// Removes a Workload that needs no update any more.
    pub fn forget(&mut self, about: &NamespacedName) {
        self.called.remove(about);
        if let Some((line, place)) = self.places.remove(about) {
            self.lines[line as usize].waiting.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> NamespacedName {
        NamespacedName { namespace: "ns".into(), name: name.into() }
    }

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    /// A rate limiter with an exhausted burst.
    fn busy(line: StatusUpdateClass) -> StatusRateLimiter {
        let mut all = StatusRateLimiter::default();
        for n in 0..=BURST {
            assert!(all.try_accept(&key(&n.to_string()), line, at(1000)), "{n} at once");
        }
        all
    }

    fn called(all: &mut StatusRateLimiter, millis: i64) -> Vec<String> {
        all.take_ready(at(millis)).iter().map(|it| it.name.to_string()).collect()
    }

    #[test]
    fn few_updates_are_immediate_and_many_are_queued() {
        let mut all = busy(StatusUpdateClass::ChangedReport);
        for name in ["a", "b", "c", "a"] {
            assert!(!all.try_accept(&key(name), StatusUpdateClass::ChangedReport, at(1000)), "{name}");
        }
        assert_eq!(all.next_ready_at(), Some(at(1100)));
        assert_eq!(called(&mut all, 1099), [""; 0]);
        assert_eq!(called(&mut all, 1150), ["a"]);
        assert!(
            all.is_queued(&key("a")) && all.try_accept(&key("a"), StatusUpdateClass::ChangedReport, at(1150)),
            "it is called"
        );
        assert!(!all.try_accept(&key("a"), StatusUpdateClass::ChangedReport, at(1150)), "once");
        assert_eq!(called(&mut all, 5000), ["b", "c", "a"]);
        assert_eq!(all.next_ready_at(), None);
    }

    #[test]
    fn forgotten_workloads_free_their_place() {
        let mut all = busy(StatusUpdateClass::FirstReport);
        let names: Vec<String> = (0..1000).map(|n| format!("w{n:04}")).collect();
        names
            .iter()
            .for_each(|name| assert!(!all.try_accept(&key(name), StatusUpdateClass::FirstReport, at(1000))));
        names[..999].iter().for_each(|name| all.forget(&key(name)));
        assert_eq!(called(&mut all, 1100), ["w0999"]);
        all.forget(&key("w0999"));
        assert!(!all.is_queued(&key("w0999")));
        assert!(
            all.try_accept(&key("later"), StatusUpdateClass::FirstReport, at(5000)),
            "nobody is before it"
        );
        assert!(all.places.is_empty() && all.called.is_empty(), "nobody is remembered for ever");
    }

    #[test]
    fn first_reports_do_not_wait_for_changed_reports() {
        let mut all = busy(StatusUpdateClass::ChangedReport);
        assert!(!all.try_accept(&key("old"), StatusUpdateClass::ChangedReport, at(1000)));
        assert!(all.try_accept(&key("new"), StatusUpdateClass::FirstReport, at(1000)));
    }
}
