//! What was said lately: the same words about the same Workload are one event a minute.
//!
//! The memory is advisory: after a restart it is empty, and at worst an event is told once more.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::port::Uid;
use muster_api::time::Time;
use muster_tree::Text;

/// For how long equal words are not repeated.
pub const QUIET: Duration = Duration::from_secs(60);
/// The most Workloads that are remembered; with more, the memory starts anew.
pub const REMEMBERED_MAX: usize = 100_000;

/// What was said of each Workload last.
#[derive(Debug, Clone, Default)]
pub struct Told {
    last: BTreeMap<Uid, (Text, Text, Time)>,
}

impl Told {
    /// Whether it is worth saying; if so it is remembered as said.
    pub fn is_news(&mut self, about: &Uid, reason: &str, message: &str, now: Time) -> bool {
        let known = self.last.get(about).is_some_and(|(was, words, at)| {
            was.as_str() == reason && words.as_str() == message && now.since(*at) < QUIET
        });
        if known {
            return false;
        }
        if self.last.len() >= REMEMBERED_MAX {
            self.last.clear();
        }
        self.last.insert(about.clone(), (reason.into(), message.into(), now));
        true
    }

    /// A Workload is gone or was admitted: what was said of it before does not count any more.
    pub fn forget(&mut self, about: &Uid) {
        self.last.remove(about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_are_said_once_a_minute() {
        let mut told = Told::default();
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
            assert_eq!(told.is_news(&uid, reason, message, at(secs)), want, "at {secs}");
        }
        assert!(told.is_news(&"v".into(), "NoMatchingFlavor", "b", at(63)), "another one");
        told.forget(&uid);
        assert!(told.is_news(&uid, "NoMatchingFlavor", "b", at(63)), "forgotten");
    }
}
