//! Event deduplication: an event with the same reason and message about the same Workload is emitted at most once a
//! minute.
//!
//! The state is advisory. After a restart it is empty, and at worst an event is emitted once more.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::Uid;
use muster_api::time::Time;
use muster_tree::Text;

/// Window in which an identical event is suppressed.
pub const DEDUP_WINDOW: Duration = Duration::from_secs(60);
/// Bound on remembered Workloads; beyond it the state is cleared.
pub const ENTRIES_MAX: usize = 100_000;

/// The last event of each Workload.
#[derive(Debug, Clone, Default)]
pub struct EventDeduplicator {
    last: BTreeMap<Uid, (Text, Text, Time)>,
}

impl EventDeduplicator {
    /// Whether the event should be emitted; if so it is recorded as emitted.
    pub fn should_emit(&mut self, about: &Uid, reason: &str, message: &str, now: Time) -> bool {
        let known = self.last.get(about).is_some_and(|(was, words, at)| {
            was.as_str() == reason && words.as_str() == message && now.since(*at) < DEDUP_WINDOW
        });
        if known {
            return false;
        }
        if self.last.len() >= ENTRIES_MAX {
            // Clearing everything is cheaper than tracking ages; the cost is one repeated event per Workload.
            self.last.clear();
        }
        self.last.insert(about.clone(), (reason.into(), message.into(), now));
        true
    }

    /// Drops the state of a Workload that was deleted or admitted.
    pub fn forget(&mut self, about: &Uid) {
        self.last.remove(about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_events_are_emitted_once_a_minute() {
        let mut dedup = EventDeduplicator::default();
        let uid: Uid = "u".into();
        let at = |secs: i64| Time(secs * 1_000_000);
        for (secs, reason, message, want) in [
            (0, "WaitingForQuota", "a", true),
            (59, "WaitingForQuota", "a", false),
            (60, "WaitingForQuota", "a", true),
            (61, "WaitingForQuota", "b", true),
            (62, "NoMatchingFlavor", "b", true),
            (63, "NoMatchingFlavor", "b", false),
        ] {
            assert_eq!(dedup.should_emit(&uid, reason, message, at(secs)), want, "at {secs}");
        }
        assert!(dedup.should_emit(&"v".into(), "NoMatchingFlavor", "b", at(63)), "another one");
        dedup.forget(&uid);
        assert!(dedup.should_emit(&uid, "NoMatchingFlavor", "b", at(63)), "forgotten");
    }
}
