//! Builds a status update with the events and metrics that go with it.

use muster_api::event::EventType;
use muster_api::queue::condition::{self, Condition, EVENT_MESSAGE_MAX, MESSAGE_MAX, cut};
use muster_api::queue::consts::{conditions, messages, reasons};
use muster_api::queue::{AdmissionStatus, EvictionCount, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::Text;

use super::checks;
use super::metrics::{MetricEvent, WorkloadQueues};
use super::pending_reason::{PendingCondition, PendingReason};
use super::settings::ReasonFormat;

/// A Workload and the status that an update is based on, from the same read.
#[derive(Debug, Clone, Copy)]
pub struct StatusBase<'a> {
    pub workload: &'a WorkloadFacts,
    /// The status fields owned by admission.
    pub status: &'a AdmissionStatus,
}

/// Timestamp and reason format of an update.
#[derive(Debug, Clone, Copy)]
pub struct UpdateContext {
    pub now: Time,
    pub format: ReasonFormat,
}

/// An event about a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadEvent {
    pub severity: EventType,
    pub reason: Text,
    pub message: String,
}

impl WorkloadEvent {
    /// As it should be.
    #[must_use]
    pub fn normal(reason: &str, message: &str) -> WorkloadEvent {
        WorkloadEvent::new(EventType::Normal, reason, message)
    }

    #[must_use]
    pub fn warning(reason: &str, message: &str) -> WorkloadEvent {
        WorkloadEvent::new(EventType::Warning, reason, message)
    }

    fn new(severity: EventType, reason: &str, message: &str) -> WorkloadEvent {
        WorkloadEvent { severity, reason: reason.into(), message: cut(message, EVENT_MESSAGE_MAX) }
    }
}

/// A status update, with events and metrics to emit once it is written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StatusUpdate {
    /// All status fields owned by admission, if any changed.
    pub status: Option<Box<AdmissionStatus>>,
    /// Events about the Workload.
    pub notes: Vec<WorkloadEvent>,
    pub metric_events: Vec<MetricEvent>,
}

impl StatusUpdate {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.status.is_none() && self.notes.is_empty() && self.metric_events.is_empty()
    }
}

pub(super) struct Eviction<'a> {
    /// Reason of the condition.
    pub reason: &'a str,
    /// `underlyingCause`; may be empty.
    pub cause: &'a str,
    pub message: &'a str,
}

/// Builder of a [`StatusUpdate`].
pub(super) struct StatusBuilder<'a> {
    known: StatusBase<'a>,
    pub status: AdmissionStatus,
    pub notes: Vec<WorkloadEvent>,
    pub happened: Vec<MetricEvent>,
    pub at: UpdateContext,
}

impl<'a> StatusBuilder<'a> {
    /// The status as it was.
    pub fn new(known: StatusBase<'a>, at: UpdateContext) -> StatusBuilder<'a> {
        StatusBuilder { known, status: known.status.clone(), notes: Vec::new(), happened: Vec::new(), at }
    }

    pub fn build(self) -> StatusUpdate {
        let status = (self.status != *self.known.status).then(|| Box::new(self.status));
        StatusUpdate { status, notes: self.notes, metric_events: self.happened }
    }

    /// Sets a condition. An unchanged condition keeps its `lastTransitionTime` and `observedGeneration`, so that
    /// nothing is written.
    pub fn set_condition(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let message = cut(message, MESSAGE_MAX);
        let says_so = |it: &Condition| it.holds == holds && it.reason == reason && it.message == message;
        // A new transition time alone would be a write, and a watch event for every client.
        if self.condition(kind).is_some_and(says_so) {
            return;
        }
        let next = Condition::new(kind, holds, reason, &message, self.at.now);
        self.status.set(next.of_generation(self.known.workload.generation));
    }

    /// The condition of a type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        condition::find(&self.status.conditions, kind)
    }

    pub fn has_quota(&self) -> bool {
        self.status.holds(conditions::QUOTA_RESERVED)
    }

    pub fn queues(&self) -> WorkloadQueues {
        queues_of(self.known)
    }

    /// Says something with the status.
    pub fn say(&mut self, note: WorkloadEvent) {
        self.notes.push(note);
    }

    /// Sets `Evicted` and resets admission checks. Quota stays reserved until the job has stopped. Without a
    /// reservation no later release would set `Requeued=False`, so it is set here.
    pub fn evict(&mut self, eviction: &Eviction<'_>) {
        let Eviction { reason, cause, message } = *eviction;
        self.set_condition(conditions::EVICTED, true, reason, message);
        checks::reset(&mut self.status.checks, self.at.now);
        self.status.nominated_clusters.clear();
        self.status.cluster = Text::new();
        if !self.has_quota() {
            self.set_condition(conditions::REQUEUED, false, reason, message);
            return;
        }
        // Metrics and counters use `Deactivated` with the cause as a label of its own.
        let word = if deactivation_cause(reason).is_some() { reasons::DEACTIVATED } else { reason };
        count_eviction(&mut self.status.evictions, word, cause);
        self.say(WorkloadEvent::normal(&format!("{}{reason}", reasons::EVICTED_DUE_TO), message));
        let queues = self.queues();
        self.happened.push(MetricEvent::Evicted { queues, reason: word.into(), cause: cause.into() });
    }

    /// Clears the quota reservation and admission.
    pub fn unset_quota_reservation(&mut self, blocker: &PendingCondition) {
        // Before `Admitted` becomes False: it reads the time of admission.
        self.accumulate_execution_time();
        self.set_pending(blocker);
        self.status.admission = None;
        // Conditions that were never set are not created here.
        if self.condition(conditions::ADMITTED).is_some() {
            let (reason, message) = self.no_reservation_reason();
            self.set_condition(conditions::ADMITTED, false, reason, message);
        }
        if self.condition(conditions::PODS_READY).is_some() {
            self.set_condition(
                conditions::PODS_READY,
                false,
                reasons::WAIT_FOR_START,
                messages::PODS_NOT_READY,
            );
        }
    }

    /// Sets `QuotaReserved=False` with this reason.
    pub fn set_pending(&mut self, blocker: &PendingCondition) {
        let reason = blocker.reason.condition_reason(self.at.format);
        self.set_condition(conditions::QUOTA_RESERVED, false, reason, &blocker.message);
    }

    fn no_reservation_reason(&self) -> (&'static str, &'static str) {
        let unready = self.status.checks.iter().any(|it| it.state != muster_api::queue::CheckState::Ready);
        match self.at.format {
            ReasonFormat::Legacy if unready => {
                (reasons::OLD_NO_RESERVATION, "The workload has no reservation and not all checks ready")
            }
            ReasonFormat::Legacy | ReasonFormat::Detailed => {
                (reasons::NO_RESERVATION, messages::NO_RESERVATION)
            }
        }
    }

    /// Adds the time since admission to `accumulatedPastExecutionTimeSeconds`. A Workload evicted for exceeding its
    /// maximum execution time restarts at zero: otherwise it could never be reactivated.
    fn accumulate_execution_time(&mut self) {
        let evicted = self.condition(conditions::EVICTED).filter(|it| it.holds).map(|it| it.reason.clone());
        if evicted.as_deref().and_then(deactivation_cause) == Some(reasons::MAX_EXEC_EXCEEDED) {
            return;
        }
        let admitted = self.condition(conditions::ADMITTED).filter(|it| it.holds).and_then(|it| it.since);
        let Some(since) = admitted else { return };
        let ran = u32::try_from(self.at.now.since(since).as_secs()).unwrap_or(u32::MAX);
        let total = self.status.accumulated_secs.unwrap_or(0).saturating_add(ran);
        self.status.accumulated_secs = (total > 0).then_some(total);
    }
}

/// Its LocalQueue and the ClusterQueue of its admission.
pub(super) fn queues_of(known: StatusBase<'_>) -> WorkloadQueues {
    let cluster = known.status.admission.as_ref().map(|it| it.cluster_queue.clone()).unwrap_or_default();
    WorkloadQueues { cluster, local: (known.workload.namespace.clone(), known.workload.queue.clone()) }
}

/// Creation time, or the last time `Requeued` became True.
pub(super) fn queued_at(known: StatusBase<'_>) -> Option<Time> {
    let requeued = known.workload.condition(conditions::REQUEUED).filter(|it| it.holds);
    requeued.and_then(|it| it.since).or(known.workload.created)
}

/// The cause, if an eviction reason is `DeactivatedDueTo<cause>`.
pub(super) fn deactivation_cause(reason: &str) -> Option<&str> {
    reason.strip_prefix(reasons::DEACTIVATED_DUE_TO)
}

/// Whether an eviction reason is a deactivation, by user or system.
pub(super) fn is_deactivation(reason: &str) -> bool {
    reason == reasons::DEACTIVATED || deactivation_cause(reason).is_some()
}

/// The pending condition of a Workload after its eviction is complete.
pub(super) fn pending_after_eviction(reason: &str, message: &str) -> PendingCondition {
    let why =
        if is_deactivation(reason) { PendingReason::Deactivated } else { PendingReason::PendingEvaluation };
    PendingCondition { reason: why, message: message.to_owned() }
}

fn count_eviction(all: &mut Vec<EvictionCount>, reason: &str, cause: &str) {
    match all.iter_mut().find(|it| it.reason == reason && it.cause == cause) {
        Some(it) => it.count = it.count.saturating_add(1),
        None => all.push(EvictionCount { reason: reason.into(), cause: cause.into(), count: 1 }),
    }
}
