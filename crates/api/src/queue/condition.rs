//! Conditions of Kueue kinds: with a length limit on messages and with `observedGeneration`.

use muster_tree::{Text, Tree, tree};

use crate::condition::status_text;
use crate::paths::condition as path;
use crate::time::Time;

/// Longest message of a condition in bytes, from the CRD schema.
pub const MESSAGE_MAX: usize = 32_768;
/// Longest message of an Event in bytes.
pub const EVENT_MESSAGE_MAX: usize = 1024;
/// Suffix of a truncated message.
const CUT: &str = " ...";

/// A condition of a Kueue kind, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `type`: the name of the condition.
    pub kind: Text,
    /// `status` is `True`; `Unknown` is read as `False`.
    pub holds: bool,
    /// `reason`: a CamelCase word for programs.
    pub reason: Text,
    /// `message`, at most [`MESSAGE_MAX`] bytes.
    pub message: Text,
    /// `lastTransitionTime`, in whole seconds.
    pub since: Option<Time>,
    /// `observedGeneration`; `None` when it is not set.
    pub generation: Option<i64>,
}

impl Condition {
    /// A condition with transition time `now` and a truncated message.
    #[must_use]
    pub fn new(kind: &str, holds: bool, reason: &str, message: &str, now: Time) -> Condition {
        Condition {
            kind: kind.into(),
            holds,
            reason: reason.into(),
            message: cut(message, MESSAGE_MAX).into(),
            since: Some(now.whole_seconds()),
            generation: None,
        }
    }

    /// Sets `observedGeneration`; 0 leaves it out.
    #[must_use]
    pub fn of_generation(self, generation: i64) -> Condition {
        Condition { generation: (generation > 0).then_some(generation), ..self }
    }

    /// Reads a stored condition.
    #[must_use]
    pub fn of(tree: &Tree) -> Condition {
        Condition {
            kind: tree.text_at(path::TYPE),
            holds: tree.str_at(path::STATUS) == "True",
            reason: tree.text_at(path::REASON),
            message: tree.text_at(path::MESSAGE),
            since: Time::of(tree.at(path::SINCE)),
            generation: tree.int_at(path::GENERATION),
        }
    }

    /// The condition as an API value.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let since = self.since.unwrap_or_default().to_seconds_text();
        tree!({"type": &self.kind, "status": status_text(self.holds), "reason": &self.reason, "message": &self.message,
            "lastTransitionTime": since})
        .with_option(path::GENERATION, self.generation.map(Tree::from))
    }
}

/// Finds the condition of this type.
#[must_use]
pub fn find<'a>(all: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    all.iter().find(|it| it.kind == kind)
}

/// Returns whether the condition of this type exists and is `True`.
#[must_use]
pub fn holds(all: &[Condition], kind: &str) -> bool {
    find(all, kind).is_some_and(|it| it.holds)
}

/// Sets a condition; its transition time changes only with its status. Returns whether anything changed.
pub fn set(all: &mut Vec<Condition>, mut next: Condition) -> bool {
    let Some(old) = all.iter_mut().find(|it| it.kind == next.kind) else {
        all.push(next);
        return true;
    };
    if old.holds == next.holds {
        next.since = old.since.or(next.since);
    }
    let changed = *old != next;
    *old = next;
    changed
}

/// Removes the condition of this type; returns whether it existed.
pub fn remove(all: &mut Vec<Condition>, kind: &str) -> bool {
    let before = all.len();
    all.retain(|it| it.kind != kind);
    all.len() != before
}

/// Truncates a message to `max` bytes, the suffix included.
#[must_use]
pub fn cut(message: &str, max: usize) -> String {
    if message.len() <= max {
        return message.to_owned();
    }
    let mut end = max.saturating_sub(CUT.len());
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let at = |secs: i64| Time(secs * 1_000_000);
        let made = |holds, message: &str, secs| Condition::new("A", holds, "R", message, at(secs));
        let mut all = Vec::new();
        assert!(set(&mut all, made(true, "a", 1)));
        assert!(!set(&mut all, made(true, "a", 2)), "same");
        assert!(set(&mut all, made(true, "b", 3)), "other words");
        assert_eq!(all[0].since, Some(at(1)));
        assert!(set(&mut all, made(false, "b", 4)), "other status");
        assert_eq!(all[0].since, Some(at(4)));
        assert_eq!(Condition::of(&all[0].tree()), all[0]);
        assert!(remove(&mut all, "A") && !remove(&mut all, "A"));
    }

    #[test]
    fn long_messages_are_cut_between_letters() {
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("longer than that", 10), "longer ...");
        assert_eq!(cut("äöüäöü", 9), "äö ...");
    }
}
