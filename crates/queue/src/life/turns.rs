//! How often Workloads that wait are told why.
//!
//! What is missing changes with everyone who comes or goes, for all who wait. Few who wait are told at once; many take turns,
//! so that the API server has time for those who start. Whoever starts before its turn is never told that it waited. Those
//! who were told nothing yet do not stand behind those who were.
//!
//! The memory is advisory: after a restart it is empty, and at worst somebody is told sooner.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::port::Uid;
use muster_api::time::Time;

/// One in each line is told in this time. A status and its event cost an API server some 10 ms of a processor.
pub const EVERY: Duration = Duration::from_millis(100);
/// So many more are told at once after a quiet time.
pub const AT_ONCE: u32 = 20;

/// In which line a Workload stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// It was told nothing yet.
    First,
    /// What it was told is no longer so.
    Again,
}

/// Whose turn comes when.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    /// When everybody in each line will have been told, one after another.
    done: [Time; 2],
    turns: BTreeMap<Uid, Time>,
}

impl Turns {
    /// When a Workload is told; not later than now if that is its turn, which is then over.
    pub fn turn(&mut self, about: &Uid, line: Line, now: Time) -> Time {
        if let Some(at) = self.turns.get(about).copied() {
            if at <= now {
                self.turns.remove(about);
            }
            return at;
        }
        let done = &mut self.done[line as usize];
        let lead = done.since(now).saturating_sub(EVERY * AT_ONCE);
        *done = (*done).max(now) + EVERY;
        let at = now + lead;
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

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    /// Turns of which those that are had at once are over.
    fn busy(line: Line) -> Turns {
        let mut all = Turns::default();
        for n in 0..=AT_ONCE {
            assert_eq!(all.turn(&format!("{n}").as_str().into(), line, at(1000)), at(1000), "{n} at once");
        }
        assert!(all.turns.is_empty());
        all
    }

    #[test]
    fn few_are_told_at_once_and_many_take_turns() {
        let mut all = busy(Line::Again);
        for (now, who, want) in [
            (1000, "a", 1100),
            (1000, "b", 1200),
            (1010, "c", 1300),
            (1050, "a", 1100),
            (1110, "a", 1100),
            // Its turn is over, and others have theirs.
            (1110, "a", 1400),
            (1200, "b", 1200),
            (5000, "b", 5000),
            (5000, "a", 1400),
            (5000, "c", 1300),
        ] {
            assert_eq!(all.turn(&who.into(), Line::Again, at(now)), at(want), "{who} at {now}");
        }
        assert!(all.turns.is_empty());
    }

    #[test]
    fn who_was_told_nothing_does_not_wait_for_those_who_were() {
        let mut all = busy(Line::Again);
        assert_eq!(all.turn(&"old".into(), Line::Again, at(1000)), at(1100));
        assert_eq!(all.turn(&"new".into(), Line::First, at(1000)), at(1000));
        all.forget(&"old".into());
        assert!(all.turns.is_empty(), "nobody is remembered for ever");
    }
}
