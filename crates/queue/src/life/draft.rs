//! A status as it will be, and what is to be said and counted with it.

use muster_api::event::Severity;
use muster_api::queue::condition::{self, Condition, EVENT_MESSAGE_MAX, MESSAGE_MAX, cut};
use muster_api::queue::words::{conditions, messages, reasons};
use muster_api::queue::{AdmissionStatus, EvictionCount, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::Text;

use super::blockers::{Blocker, Why};
use super::checks;
use super::numbers::{Happened, Queues};
use super::settings::Wording;

/// A Workload as it was read.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// What is read of it.
    pub workload: &'a WorkloadFacts,
    /// What admission owns of its status, from the same reading.
    pub status: &'a AdmissionStatus,
}

/// When something is written, and in which words.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// The instant.
    pub now: Time,
    /// The words.
    pub wording: Wording,
}

/// An event about a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// How serious.
    pub severity: Severity,
    /// `reason`.
    pub reason: Text,
    /// `message`.
    pub message: String,
}

impl Note {
    /// As it should be.
    #[must_use]
    pub fn normal(reason: &str, message: &str) -> Note {
        Note::new(Severity::Normal, reason, message)
    }

    /// Worth a look.
    #[must_use]
    pub fn warning(reason: &str, message: &str) -> Note {
        Note::new(Severity::Warning, reason, message)
    }

    fn new(severity: Severity, reason: &str, message: &str) -> Note {
        Note { severity, reason: reason.into(), message: cut(message, EVENT_MESSAGE_MAX) }
    }
}

/// What follows from one step: a status to apply, and what is said and counted once it is written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Written {
    /// All that admission owns, if it changed.
    pub status: Option<Box<AdmissionStatus>>,
    /// Events about the Workload.
    pub notes: Vec<Note>,
    /// What is counted.
    pub happened: Vec<Happened>,
}

impl Written {
    /// Whether nothing follows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.status.is_none() && self.notes.is_empty() && self.happened.is_empty()
    }
}

/// Why a Workload has to leave.
pub(super) struct Eviction<'a> {
    /// Reason of the condition.
    pub reason: &'a str,
    /// What led to it; empty when the reason says all.
    pub cause: &'a str,
    /// The words.
    pub message: &'a str,
}

/// A status that is being written.
pub(super) struct Draft<'a> {
    known: Known<'a>,
    pub status: AdmissionStatus,
    pub notes: Vec<Note>,
    pub happened: Vec<Happened>,
    pub at: At,
}

impl<'a> Draft<'a> {
    /// The status as it was.
    pub fn new(known: Known<'a>, at: At) -> Draft<'a> {
        Draft { known, status: known.status.clone(), notes: Vec::new(), happened: Vec::new(), at }
    }

    /// The status, if it changed, and what is said with it.
    pub fn written(self) -> Written {
        let status = (self.status != *self.known.status).then(|| Box::new(self.status));
        Written { status, notes: self.notes, happened: self.happened }
    }

    /// Sets a condition. One that says the same already keeps its time and its generation.
    pub fn set(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let message = cut(message, MESSAGE_MAX);
        let says_so = |it: &Condition| it.holds == holds && it.reason == reason && it.message == message;
        if self.find(kind).is_some_and(says_so) {
            return;
        }
        let next = Condition::new(kind, holds, reason, &message, self.at.now);
        self.status.set(next.of_generation(self.known.workload.generation));
    }

    /// The condition of a type.
    pub fn find(&self, kind: &str) -> Option<&Condition> {
        condition::find(&self.status.conditions, kind)
    }

    /// Whether a share is set aside.
    pub fn has_quota(&self) -> bool {
        self.status.holds(conditions::QUOTA_RESERVED)
    }

    /// Its queues, as far as they are known.
    pub fn queues(&self) -> Queues {
        queues_of(self.known)
    }

    /// Says something with the status.
    pub fn say(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// It has to leave: quota stays reserved until its job has stopped. Without quota nobody will release it, so that
    /// it is told at once that it may not come back by itself.
    pub fn evict(&mut self, eviction: &Eviction<'_>) {
        let Eviction { reason, cause, message } = *eviction;
        self.set(conditions::EVICTED, true, reason, message);
        checks::reset(&mut self.status.checks, self.at.now);
        self.status.nominated_clusters.clear();
        self.status.cluster = Text::new();
        if !self.has_quota() {
            self.set(conditions::REQUEUED, false, reason, message);
            return;
        }
        let word = if cause_of_deactivation(reason).is_some() { reasons::DEACTIVATED } else { reason };
        count(&mut self.status.evictions, word, cause);
        self.say(Note::normal(&format!("{}{reason}", reasons::EVICTED_DUE_TO), message));
        let queues = self.queues();
        self.happened.push(Happened::Evicted { queues, reason: word.into(), cause: cause.into() });
    }

    /// Gives the share back: what is told instead is why it has none.
    pub fn unreserve(&mut self, blocker: &Blocker) {
        self.ran_until_now();
        self.block(blocker);
        self.status.admission = None;
        if self.find(conditions::ADMITTED).is_some() {
            let (reason, message) = self.no_reservation();
            self.set(conditions::ADMITTED, false, reason, message);
        }
        if self.find(conditions::PODS_READY).is_some() {
            self.set(conditions::PODS_READY, false, reasons::WAIT_FOR_START, messages::PODS_NOT_READY);
        }
    }

    /// Tells why it has no share.
    pub fn block(&mut self, blocker: &Blocker) {
        let reason = blocker.why.reason(self.at.wording);
        self.set(conditions::QUOTA_RESERVED, false, reason, &blocker.message);
    }

    fn no_reservation(&self) -> (&'static str, &'static str) {
        let unready = self.status.checks.iter().any(|it| it.state != muster_api::queue::State::Ready);
        match self.at.wording {
            Wording::Old if unready => {
                (reasons::OLD_NO_RESERVATION, "The workload has no reservation and not all checks ready")
            }
            Wording::Old | Wording::Telling => (reasons::NO_RESERVATION, messages::NO_RESERVATION),
        }
    }

    /// Adds the time since admission to what it ran before. Whoever had to leave because of that time starts anew:
    /// else it could never be activated again.
    fn ran_until_now(&mut self) {
        let evicted = self.find(conditions::EVICTED).filter(|it| it.holds).map(|it| it.reason.clone());
        if evicted.as_deref().and_then(cause_of_deactivation) == Some(reasons::MAX_EXEC_EXCEEDED) {
            return;
        }
        let admitted = self.find(conditions::ADMITTED).filter(|it| it.holds).and_then(|it| it.since);
        let Some(since) = admitted else { return };
        let ran = u32::try_from(self.at.now.since(since).as_secs()).unwrap_or(u32::MAX);
        let total = self.status.accumulated_secs.unwrap_or(0).saturating_add(ran);
        self.status.accumulated_secs = (total > 0).then_some(total);
    }
}

/// The queues of a Workload, as far as they are known.
pub(super) fn queues_of(known: Known<'_>) -> Queues {
    let cluster = known.status.admission.as_ref().map(|it| it.cluster_queue.clone()).unwrap_or_default();
    Queues { cluster, local: (known.workload.namespace.clone(), known.workload.queue.clone()) }
}

/// Since when a Workload is queued: it was made, or it came back.
pub(super) fn queued_at(known: Known<'_>) -> Option<Time> {
    let requeued = known.workload.condition(conditions::REQUEUED).filter(|it| it.holds);
    requeued.and_then(|it| it.since).or(known.workload.created)
}

/// Why the system deactivated a Workload, if that is what a reason of eviction says.
pub(super) fn cause_of_deactivation(reason: &str) -> Option<&str> {
    reason.strip_prefix(reasons::DEACTIVATED_DUE_TO)
}

/// Whether a reason of eviction says that a Workload was deactivated, by whomever.
pub(super) fn says_deactivated(reason: &str) -> bool {
    reason == reasons::DEACTIVATED || cause_of_deactivation(reason).is_some()
}

/// What a released Workload waits for, by the words of its eviction.
pub(super) fn after_eviction(reason: &str, message: &str) -> Blocker {
    let why = if says_deactivated(reason) { Why::Deactivated } else { Why::PendingEvaluation };
    Blocker { why, message: message.to_owned() }
}

fn count(all: &mut Vec<EvictionCount>, reason: &str, cause: &str) {
    match all.iter_mut().find(|it| it.reason == reason && it.cause == cause) {
        Some(it) => it.count = it.count.saturating_add(1),
        None => all.push(EvictionCount { reason: reason.into(), cause: cause.into(), count: 1 }),
    }
}
