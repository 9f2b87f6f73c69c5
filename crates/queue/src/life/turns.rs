//! How often Workloads that wait are told why.
//!
//! What is missing changes with everyone who comes or goes, for all who wait. Few who wait are told at once; many stand in
//! line, so that the API server has time for those who start. Whoever starts before it is called is never told that it waited.
//! Those who were told nothing yet do not stand behind those who were.
//!
//! # Invariants
//!
//! - In line or called stands only who waits: whoever is admitted, ends or goes is forgotten, and those behind it move up.
//! - The memory is advisory: after a restart it is empty, and at worst somebody is told sooner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_api::time::Time;

use crate::engine::workload::Key;

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

/// Who is told next.
#[derive(Debug, Clone, Default)]
pub struct Turns {
    lines: [InLine; 2],
    /// Where each stands.
    places: BTreeMap<Key, (Line, u64)>,
    /// Those whose turn it is.
    called: BTreeSet<Key>,
    next_place: u64,
}

#[derive(Debug, Clone, Default)]
struct InLine {
    waiting: BTreeMap<u64, Key>,
    /// When those who were called would have been done, one after another.
    done: Time,
}

impl InLine {
    fn take(&mut self, now: Time) -> bool {
        let free = self.free_at() <= now;
        if free {
            self.done = self.done.max(now) + EVERY;
        }
        free
    }

    fn free_at(&self) -> Time {
        let ahead = i64::try_from((EVERY * AT_ONCE).as_micros()).unwrap_or(i64::MAX);
        Time(self.done.0.saturating_sub(ahead))
    }
}

impl Turns {
    /// Whether a Workload is told now; if not it stands in line.
    pub fn may_tell(&mut self, about: &Key, line: Line, now: Time) -> bool {
        if self.called.remove(about) {
            return true;
        }
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

    /// Whether it stands in line, or is called.
    #[must_use]
    pub fn stands(&self, about: &Key) -> bool {
        self.places.contains_key(about) || self.called.contains(about)
    }

    /// Calls those whose turn has come.
    pub fn call(&mut self, now: Time) -> Vec<Key> {
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

    /// When the next one is called, if anybody stands in line.
    #[must_use]
    pub fn next_call(&self) -> Option<Time> {
        self.lines.iter().filter(|it| !it.waiting.is_empty()).map(InLine::free_at).min()
    }

    /// It has nothing to be told, or is gone.
    pub fn forget(&mut self, about: &Key) {
        self.called.remove(about);
        if let Some((line, place)) = self.places.remove(about) {
            self.lines[line as usize].waiting.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key { namespace: "ns".into(), name: name.into() }
    }

    fn at(millis: i64) -> Time {
        Time(millis * 1000)
    }

    /// Turns of which those that are had at once are over.
    fn busy(line: Line) -> Turns {
        let mut all = Turns::default();
        for n in 0..=AT_ONCE {
            assert!(all.may_tell(&key(&n.to_string()), line, at(1000)), "{n} at once");
        }
        all
    }

    fn called(all: &mut Turns, millis: i64) -> Vec<String> {
        all.call(at(millis)).iter().map(|it| it.name.to_string()).collect()
    }

    #[test]
    fn few_are_told_at_once_and_many_stand_in_line() {
        let mut all = busy(Line::Again);
        for name in ["a", "b", "c", "a"] {
            assert!(!all.may_tell(&key(name), Line::Again, at(1000)), "{name}");
        }
        assert_eq!(all.next_call(), Some(at(1100)));
        assert_eq!(called(&mut all, 1099), [""; 0]);
        assert_eq!(called(&mut all, 1150), ["a"]);
        assert!(all.stands(&key("a")) && all.may_tell(&key("a"), Line::Again, at(1150)), "it is called");
        assert!(!all.may_tell(&key("a"), Line::Again, at(1150)), "once");
        assert_eq!(called(&mut all, 5000), ["b", "c", "a"]);
        assert_eq!(all.next_call(), None);
    }

    #[test]
    fn whoever_leaves_the_line_makes_room() {
        let mut all = busy(Line::First);
        let names: Vec<String> = (0..1000).map(|n| format!("w{n:04}")).collect();
        names.iter().for_each(|name| assert!(!all.may_tell(&key(name), Line::First, at(1000))));
        names[..999].iter().for_each(|name| all.forget(&key(name)));
        assert_eq!(called(&mut all, 1100), ["w0999"]);
        all.forget(&key("w0999"));
        assert!(!all.stands(&key("w0999")));
        assert!(all.may_tell(&key("later"), Line::First, at(5000)), "nobody is before it");
        assert!(all.places.is_empty() && all.called.is_empty(), "nobody is remembered for ever");
    }

    #[test]
    fn who_was_told_nothing_does_not_wait_for_those_who_were() {
        let mut all = busy(Line::Again);
        assert!(!all.may_tell(&key("old"), Line::Again, at(1000)));
        assert!(all.may_tell(&key("new"), Line::First, at(1000)));
    }
}
