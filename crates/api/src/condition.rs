//! Conditions: one helper sets them, keeps the transition time when only the wording changed, and tells
//! whether anything is worth writing.

use muster_tree::{Tree, tree};

use crate::paths::condition as path;
use crate::time::Time;

/// A condition as a controller wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// `type`.
    pub kind: &'a str,
    /// `status`.
    pub holds: bool,
    /// `reason`.
    pub reason: &'a str,
    /// `message`.
    pub message: &'a str,
}

impl Wanted<'_> {
    /// The condition as a tree, with what some kinds call the probe time left to the caller.
    #[must_use]
    pub fn tree(&self, since: Time) -> Tree {
        tree!({"type": self.kind, "status": word(self.holds), "reason": self.reason,
            "message": self.message, "lastTransitionTime": since.to_seconds_text()})
    }
}

/// `True` or `False`.
#[must_use]
pub fn word(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

/// The condition of a type.
#[must_use]
pub fn find<'a>(all: &'a [Tree], kind: &str) -> Option<&'a Tree> {
    all.iter().find(|c| c.str_at(path::TYPE) == kind)
}

/// Whether the condition of a type is `True`.
#[must_use]
pub fn holds(all: &[Tree], kind: &str) -> bool {
    find(all, kind).is_some_and(|c| c.str_at(path::STATUS) == "True")
}

/// Sets `wanted`; returns whether the status must be written.
pub fn set(all: &mut Vec<Tree>, wanted: &Wanted<'_>, now: Time) -> bool {
    let Some(old) = all.iter_mut().find(|c| c.str_at(path::TYPE) == wanted.kind) else {
        all.push(wanted.tree(now));
        return true;
    };
    let same_status = old.str_at(path::STATUS) == word(wanted.holds);
    let since = if same_status { Time::of(old.at(path::SINCE)).unwrap_or(now) } else { now };
    let next = old.merge(&wanted.tree(since));
    let changed = *old != next;
    *old = next;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_changes_its_time_only_with_its_status() {
        let mut all = Vec::new();
        let mut wanted = Wanted { kind: "Ready", holds: true, reason: "A", message: "a" };
        let at = |secs: i64| Time(secs * 1_000_000);
        assert!(set(&mut all, &wanted, at(1)), "new");
        assert!(!set(&mut all, &wanted, at(2)), "same");
        wanted.message = "b";
        assert!(set(&mut all, &wanted, at(3)), "other words");
        assert_eq!(Time::of(all[0].at(path::SINCE)), Some(at(1)));
        wanted.holds = false;
        assert!(set(&mut all, &wanted, at(4)), "other status");
        assert_eq!(Time::of(all[0].at(path::SINCE)), Some(at(4)));
        assert!(!holds(&all, "Ready"));
    }
}
