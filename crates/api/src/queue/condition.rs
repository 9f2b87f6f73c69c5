//! Conditions of the kinds of queueing: their messages have a limit, and they tell of which generation they speak.

use muster_tree::{Text, Tree, tree};

use crate::condition::word;
use crate::paths::condition as path;
use crate::time::Time;

/// Most bytes of a condition's message.
pub const MESSAGE_MAX: usize = 32_768;
/// Most bytes of an event's message.
pub const EVENT_MESSAGE_MAX: usize = 1024;
/// How a message ends that was cut.
const CUT: &str = " ...";

/// A condition as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `type`.
    pub kind: Text,
    /// `status`; what is neither true nor false counts as false.
    pub holds: bool,
    /// `reason`.
    pub reason: Text,
    /// `message`.
    pub message: Text,
    /// `lastTransitionTime`.
    pub since: Option<Time>,
    /// `observedGeneration`.
    pub generation: Option<i64>,
}

impl Condition {
    /// One that begins now.
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

    /// The same, of this generation of the object.
    #[must_use]
    pub fn of_generation(self, generation: i64) -> Condition {
        Condition { generation: (generation > 0).then_some(generation), ..self }
    }

    /// Reads one.
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

    /// This condition as it is written.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let since = self.since.unwrap_or_default().to_seconds_text();
        tree!({"type": &self.kind, "status": word(self.holds), "reason": &self.reason, "message": &self.message,
            "lastTransitionTime": since})
        .with_option(path::GENERATION, self.generation.map(Tree::from))
    }
}

/// The condition of a type.
#[must_use]
pub fn find<'a>(all: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    all.iter().find(|it| it.kind == kind)
}

/// Whether the condition of a type holds.
#[must_use]
pub fn holds(all: &[Condition], kind: &str) -> bool {
    find(all, kind).is_some_and(|it| it.holds)
}

/// Sets a condition; its time changes only with its status. Returns whether the status must be written.
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

/// Takes a condition away. Returns whether it was there.
pub fn remove(all: &mut Vec<Condition>, kind: &str) -> bool {
    let before = all.len();
    all.retain(|it| it.kind != kind);
    all.len() != before
}

/// A message of at most `max` bytes; one that was cut says so within them.
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
