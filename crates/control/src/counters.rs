//! What a loop counts: for metrics, and for tests that say how many calls a scenario may take.

use std::collections::BTreeMap;

use muster_api::port::{Act, Call, Part};
use muster_tree::Text;

/// What kind of call it was: its verb and the plural of its kind.
pub type CallKind = (&'static str, Text);

/// Counts since the loop began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Keys planned.
    pub plans: u64,
    /// Calls sent.
    pub calls: u64,
    /// Calls sent, of each kind.
    pub calls_by: BTreeMap<CallKind, u64>,
    /// Calls that write, Events included.
    pub writes: u64,
    /// Calls that write an Event.
    pub events: u64,
    /// Events not written because their object had too many.
    pub events_dropped: u64,
    /// Refusals received.
    pub refusals: u64,
    /// Calls sent again because their reply was lost.
    pub repeats: u64,
    /// Writes by each writer.
    pub writes_by: BTreeMap<Text, u64>,
    /// Keys ready to be planned, now.
    pub queue_len: u64,
    /// Calls without a reply, now.
    pub in_flight: u64,
}

impl Counters {
    /// Counts a call that is sent.
    pub fn sent(&mut self, call: &Call) {
        self.calls += 1;
        *self.calls_by.entry((verb(call), call.on.kind.plural.clone())).or_default() += 1;
        if matches!(call.act, Act::Get) {
            return;
        }
        self.writes += 1;
        *self.writes_by.entry(call.by.clone()).or_default() += 1;
        if call.on.kind.plural == "events" {
            self.events += 1;
        }
    }
}

impl std::ops::AddAssign<&Counters> for Counters {
    fn add_assign(&mut self, other: &Counters) {
        self.plans += other.plans;
        self.calls += other.calls;
        self.writes += other.writes;
        self.events += other.events;
        self.events_dropped += other.events_dropped;
        self.refusals += other.refusals;
        self.repeats += other.repeats;
        self.queue_len += other.queue_len;
        self.in_flight += other.in_flight;
        for (kind, count) in &other.calls_by {
            *self.calls_by.entry(kind.clone()).or_default() += count;
        }
        for (by, count) in &other.writes_by {
            *self.writes_by.entry(by.clone()).or_default() += count;
        }
    }
}

/// The verb of a call, as metrics name it.
fn verb(call: &Call) -> &'static str {
    match (&call.act, call.on.part) {
        (Act::Get, _) => "get",
        (Act::Create(_), Part::Binding) => "bind",
        (Act::Create(_), Part::Eviction) => "evict",
        (Act::Create(_), _) => "create",
        (Act::Delete { .. }, _) => "delete",
        (_, Part::Status) => "status",
        (_, Part::Finalize) => "finalize",
        (Act::Apply { .. }, _) => "apply",
        (Act::Merge(_) | Act::Strategic(_), _) => "patch",
    }
}

#[cfg(test)]
mod tests {
    use muster_api::kinds;
    use muster_api::port::{Cascade, Guard, Kind, Target};
    use muster_tree::{literal, tree};

    use super::*;

    fn call(kind: &Kind, part: Part, act: Act) -> Call {
        let on = Target { kind: kind.clone(), namespace: "n".into(), name: "a".into(), part };
        Call { by: literal!("me"), on, guard: Guard::default(), act }
    }

    #[test]
    fn calls_are_counted_by_verb_and_kind() {
        let create = || Act::Create(tree!({}));
        let merge = || Act::Merge(tree!({}));
        let mut counters = Counters::default();
        for call in [
            call(&kinds::PODS, Part::Main, create()),
            call(&kinds::PODS, Part::Main, create()),
            call(&kinds::PODS, Part::Binding, create()),
            call(&kinds::JOBS, Part::Status, merge()),
            call(&kinds::JOBS, Part::Main, merge()),
            call(&kinds::EVENTS, Part::Main, create()),
            call(&kinds::JOBS, Part::Main, Act::Get),
            call(&kinds::JOBS, Part::Main, Act::Delete { cascade: Cascade::Background, grace_secs: None }),
        ] {
            counters.sent(&call);
        }
        let by: Vec<(&str, &str, u64)> =
            counters.calls_by.iter().map(|((verb, plural), n)| (*verb, plural.as_str(), *n)).collect();
        let want = [
            ("bind", "pods", 1),
            ("create", "events", 1),
            ("create", "pods", 2),
            ("delete", "jobs", 1),
            ("get", "jobs", 1),
            ("patch", "jobs", 1),
            ("status", "jobs", 1),
        ];
        assert_eq!(by, want);
        assert_eq!((counters.calls, counters.writes, counters.events), (8, 7, 1));
    }
}
