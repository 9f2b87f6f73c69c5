//! What a loop counts: for metrics, and for tests that say how many calls a scenario may take.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::port::{Act, Call, Part, Refusal};
use muster_scheduler::GroupVerdict;
use muster_trainer::life::numbers::Numbers as TrainingNumbers;
use muster_tree::Text;

use crate::jobsets::JobSetNumbers;
use crate::queueing::Live as QueueNumbers;

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
    /// Writes that can never be accepted as they are, of each kind of call: see [`Counters::rejects`].
    pub rejected: BTreeMap<CallKind, u64>,
    /// Calls sent again because their reply was lost.
    pub repeats: u64,
    /// Writes by each writer.
    pub writes_by: BTreeMap<Text, u64>,
    /// Keys ready to be planned, now.
    pub queue_len: u64,
    /// Calls without a reply, now.
    pub in_flight: u64,
    /// What each controller did with its keys, by the name that numbers are kept under.
    pub work: BTreeMap<&'static str, Work>,
    /// What the scheduler among the controllers counts.
    pub scheduling: Scheduling,
    /// What the JobSet controller counts.
    pub jobsets: JobSetNumbers,
    /// What queueing counts.
    pub queueing: QueueNumbers,
    /// What the TrainJob controller counts.
    pub training: TrainingNumbers,
}

/// What became of the keys of one controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Keys that became ready.
    pub adds: u64,
    /// Keys that were looked at and need nothing more.
    pub done: u64,
    /// Keys that were looked at and are looked at again at a time of their own.
    pub again: u64,
    /// Keys whose plan was refused; each is tried again after a pause.
    pub refused: u64,
    /// Keys that wait to be looked at, now.
    pub ready: u64,
    /// Keys whose plan is under way, now.
    pub under_way: u64,
    /// How long those under way have been so, all together.
    pub unfinished: Duration,
    /// How long the oldest of them has been so.
    pub longest: Duration,
    /// How long keys waited to be looked at.
    pub waits: Waits,
    /// How long it took from then on until their plan was carried out or refused.
    pub times: Waits,
}

impl std::ops::AddAssign<&Work> for Work {
    fn add_assign(&mut self, other: &Work) {
        self.adds += other.adds;
        self.done += other.done;
        self.again += other.again;
        self.refused += other.refused;
        self.ready += other.ready;
        self.under_way += other.under_way;
        self.unfinished += other.unfinished;
        self.longest = self.longest.max(other.longest);
        self.waits += &other.waits;
        self.times += &other.times;
    }
}

/// What a scheduler counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Tries to place a pod, by the scheduler it names and what came of it.
    pub attempts: BTreeMap<(Text, &'static str), u64>,
    /// Pods without a node, now, by where they wait.
    pub pending: BTreeMap<&'static str, u64>,
    /// How long pods waited for their node.
    pub waits: Waits,
    /// What is counted of gangs.
    pub gangs: GroupNumbers,
}

/// What a scheduler counts of gangs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupNumbers {
    /// Tries to place a group, by what came of it.
    pub attempts: BTreeMap<&'static str, u64>,
    /// How long it took from finding places until all pods were bound to them.
    pub times: Waits,
    /// How long groups waited, from their first pod until enough pods had nodes.
    pub waits: Waits,
    /// Groups there are, now, by their policy and whether enough pods have nodes.
    pub groups: BTreeMap<(&'static str, bool), u64>,
}

impl GroupNumbers {
    /// Counts a try; a group that is not looked at was not tried.
    pub fn tried(&mut self, verdict: &GroupVerdict) {
        let result = match verdict {
            GroupVerdict::Held(_) => return,
            GroupVerdict::Placed => "scheduled",
            GroupVerdict::Unschedulable(_) | GroupVerdict::Late(_) => "unschedulable",
            GroupVerdict::Error(_) => "error",
        };
        *self.attempts.entry(result).or_default() += 1;
    }
}

impl std::ops::AddAssign<&GroupNumbers> for GroupNumbers {
    fn add_assign(&mut self, other: &GroupNumbers) {
        for (result, count) in &other.attempts {
            *self.attempts.entry(result).or_default() += count;
        }
        for (kind, count) in &other.groups {
            *self.groups.entry(*kind).or_default() += count;
        }
        self.times += &other.times;
        self.waits += &other.waits;
    }
}

/// How many waits were how long: each bound is twice the one before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// How many were up to each bound and longer than the one before; the last has no bound.
    pub counts: [u64; Waits::BOUNDS + 1],
    /// All together.
    pub sum: Duration,
}

impl Waits {
    /// How many bounds there are.
    pub const BOUNDS: usize = 20;
    /// The first bound.
    pub const FIRST: Duration = Duration::from_millis(10);

    /// The bounds.
    pub fn bounds() -> impl Iterator<Item = Duration> {
        (0..Waits::BOUNDS).map(|n| Waits::FIRST * (1 << n))
    }

    /// Counts one more.
    pub fn add(&mut self, wait: Duration) {
        let at = Waits::bounds().position(|bound| wait <= bound).unwrap_or(Waits::BOUNDS);
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(wait);
    }
}

impl std::ops::AddAssign<&Scheduling> for Scheduling {
    fn add_assign(&mut self, other: &Scheduling) {
        for (key, count) in &other.attempts {
            *self.attempts.entry(key.clone()).or_default() += count;
        }
        for (place, count) in &other.pending {
            *self.pending.entry(place).or_default() += count;
        }
        self.waits += &other.waits;
        self.gangs += &other.gangs;
    }
}

impl std::ops::AddAssign<&Waits> for Waits {
    fn add_assign(&mut self, other: &Waits) {
        for (mine, others) in self.counts.iter_mut().zip(other.counts) {
            *mine += others;
        }
        self.sum = self.sum.saturating_add(other.sum);
    }
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

    /// Counts a write that the server rejects for what it says; whether it is one. Trying again does not help: a schema,
    /// a webhook or missing rights are in the way. What may be created where is a matter of quotas and of namespaces that
    /// go away, too, so a create counts only where the object is invalid.
    pub fn rejects(&mut self, call: &Call, why: &Refusal) -> bool {
        let rejected = match (why, &call.act) {
            (_, Act::Get) => false,
            (Refusal::Invalid(_), _) => true,
            (Refusal::Forbidden(_), act) => !matches!(act, Act::Create(_)),
            _ => false,
        };
        if rejected {
            *self.rejected.entry((verb(call), call.on.kind.plural.clone())).or_default() += 1;
        }
        rejected
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
        for (name, work) in &other.work {
            *self.work.entry(name).or_default() += work;
        }
        self.scheduling += &other.scheduling;
        self.jobsets += &other.jobsets;
        // Queues are run by one loop.
        if self.queueing == QueueNumbers::default() {
            self.queueing = other.queueing.clone();
        }
        // And so are TrainJobs.
        if self.training == TrainingNumbers::default() {
            self.training = other.training.clone();
        }
        for (kind, count) in &other.calls_by {
            *self.calls_by.entry(kind.clone()).or_default() += count;
        }
        for (kind, count) in &other.rejected {
            *self.rejected.entry(kind.clone()).or_default() += count;
        }
        for (by, count) in &other.writes_by {
            *self.writes_by.entry(by.clone()).or_default() += count;
        }
    }
}

/// The verb of a call, as metrics name it.
pub(crate) fn verb(call: &Call) -> &'static str {
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
    fn waits_are_counted_by_their_length() {
        let mut waits = Waits::default();
        for millis in [0, 10, 11, 20, 21, 10_000_000] {
            waits.add(Duration::from_millis(millis));
        }
        assert_eq!(waits.counts[..3], [2, 2, 1]);
        assert_eq!(waits.counts[Waits::BOUNDS], 1, "longer than all bounds");
        assert_eq!(waits.sum, Duration::from_millis(10_000_062));
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
