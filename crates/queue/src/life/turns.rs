//! How often Workloads that wait are told why.
//!
//! What is missing changes with everyone who comes or goes, for all who wait. Few who wait are told at once; many take turns,
//! so that the API server has time for those who start. Whoever starts before its turn is never told that it waited.
//!
//! The memory is advisory: after a restart it is empty, and at worst somebody is told sooner.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::port::Uid;
use muster_api::time::Time;

/// One of all who wait is told in this time. A status and its event cost an API server some 10 ms of a processor.
pub const EVERY: Duration = Duration::from_millis(50);

/// Whose turn comes when.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    free: Time,
    turns: BTreeMap<Uid, Time>,
}

impl Turns {
    /// When a Workload is told that is told nothing, or what is no longer so; not later than now if that is its turn, which is
    /// then over.
    pub fn turn(&mut self, about: &Uid, now: Time) -> Time {
        if let Some(at) = self.turns.get(about).copied() {
            if at <= now {
                self.turns.remove(about);
            }
            return at;
        }
        let at = self.free.max(now);
        self.free = at + EVERY;
        if at > now {
            self.turns.insert(about.clone(), at);
        }
        at
    }

    /// A Workload is gone.
    pub fn forget(&mut self, about: &Uid) {
        self.turns.remove(about);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_alone_is_told_at_once_and_many_take_turns() {
        let mut all = Turns::default();
        let at = |millis: i64| Time(millis * 1000);
        for (now, who, want) in [
            (1000, "a", 1000),
            (1000, "b", 1050),
            (1010, "c", 1100),
            (1020, "b", 1050),
            (1060, "b", 1050),
            // Its turn is over, and others have theirs.
            (1060, "b", 1150),
            (1100, "c", 1100),
            (5000, "c", 5000),
            (5000, "b", 1150),
        ] {
            assert_eq!(all.turn(&who.into(), at(now)), at(want), "{who} at {now}");
        }
        assert!(all.turns.is_empty());
        all.turn(&"a".into(), at(5000));
        all.forget(&"a".into());
        assert!(all.turns.is_empty(), "nobody is remembered for ever");
    }
}
