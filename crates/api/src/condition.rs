//! Status conditions of built-in kinds.
//!
//! # Guarantees
//!
//! - `lastTransitionTime` changes only with `status`, and [`set`] reports whether the status must be written: a steady
//!   object is never written.

use muster_tree::{Tree, tree};

use crate::paths::condition as path;
use crate::time::Time;

/// A condition as a controller wants it, without its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DesiredCondition<'a> {
    /// `type`, for example `Ready`.
    pub condition_type: &'a str,
    /// `status`: `True` or `False`.
    pub status: bool,
    /// `reason`: a CamelCase word for programs.
    pub reason: &'a str,
    /// `message`: a sentence for people; may be empty.
    pub message: &'a str,
}

impl DesiredCondition<'_> {
    /// The condition with this transition time; `lastProbeTime` is left to the caller.
    #[must_use]
    pub fn tree(&self, since: Time) -> Tree {
        tree!({"type": self.condition_type, "status": status_text(self.status), "reason": self.reason,
            "message": self.message, "lastTransitionTime": since.to_seconds_text()})
    }
}

/// The `status` of a condition: `True` or `False`.
#[must_use]
pub fn status_text(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}

/// Finds the condition of this type.
#[must_use]
pub fn find<'a>(all: &'a [Tree], kind: &str) -> Option<&'a Tree> {
    all.iter().find(|c| c.str_at(path::TYPE) == kind)
}

/// Returns whether the condition of this type exists and is `True`.
#[must_use]
pub fn is_true(all: &[Tree], kind: &str) -> bool {
    find(all, kind).is_some_and(|c| c.str_at(path::STATUS) == "True")
}

/// Sets a condition and returns whether anything changed, so that the status must be written.
pub fn set(all: &mut Vec<Tree>, wanted: &DesiredCondition<'_>, now: Time) -> bool {
    let Some(old) = all.iter_mut().find(|c| c.str_at(path::TYPE) == wanted.condition_type) else {
        all.push(wanted.tree(now));
        return true;
    };
    let same_status = old.str_at(path::STATUS) == status_text(wanted.status);
    // metav1.Condition: the transition time belongs to the status, not to reason or message.
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
        let mut wanted =
            DesiredCondition { condition_type: "Ready", status: true, reason: "A", message: "a" };
        let at = |secs: i64| Time(secs * 1_000_000);
        assert!(set(&mut all, &wanted, at(1)), "new");
        assert!(!set(&mut all, &wanted, at(2)), "same");
        wanted.message = "b";
        assert!(set(&mut all, &wanted, at(3)), "other words");
        assert_eq!(Time::of(all[0].at(path::SINCE)), Some(at(1)));
        wanted.status = false;
        assert!(set(&mut all, &wanted, at(4)), "other status");
        assert_eq!(Time::of(all[0].at(path::SINCE)), Some(at(4)));
        assert!(!is_true(&all, "Ready"));
    }
}
