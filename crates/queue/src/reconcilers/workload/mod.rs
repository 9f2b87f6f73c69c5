//! The Workload reconciler: everything apart from quota decisions.
//!
//! # Guarantees
//!
//! - One reconciliation writes one thing: the status, one field of the spec, or the finalizer. The next step is
//!   decided on the result of that write.
//! - An evicted Workload keeps its quota until the integration that runs its job has stopped it and released the
//!   reservation; also without an owner reference, since the job may belong to an external integration.
//! - A finished Workload is not modified again, except by retention.

mod pending;
mod pods_ready;
mod quota_reserved;
mod requeue;
mod retention;

use muster_api::queue::consts::conditions;
use muster_api::queue::{
    AdmissionStatus, ClusterQueueFacts, LocalQueueFacts, PriorityClassFacts, WorkloadFacts,
};
use muster_api::time::Time;
use muster_tree::Text;

use super::metrics::MetricEvent;
use super::priority;
use super::settings::ReconcilerSettings;
use super::status_builder::{StatusBase, StatusBuilder, StatusUpdate, UpdateContext, WorkloadEvent};

pub use pending::EVALUATION_GRACE;

/// A ClusterQueue and its `Active` condition.
#[derive(Debug, Clone, Copy)]
pub struct ClusterQueueView<'a> {
    pub facts: &'a ClusterQueueFacts,
    /// Condition `Active`, from the reconciler of queues.
    pub active: bool,
}

/// Everything a reconciliation reads, taken at one instant.
#[derive(Debug, Clone, Copy)]
pub struct WorkloadSnapshot<'a> {
    pub workload: &'a WorkloadFacts,
    /// The status fields owned by admission, from the same read.
    pub status: &'a AdmissionStatus,
    /// The LocalQueue named by `spec.queueName`.
    pub local_queue: Option<&'a LocalQueueFacts>,
    /// The ClusterQueue of [`cluster_queue_of`].
    pub cluster_queue: Option<ClusterQueueView<'a>>,
    /// The WorkloadPriorityClass it references.
    pub priority_class: Option<&'a PriorityClassFacts>,
    pub settings: &'a ReconcilerSettings,
    /// The time of the snapshot.
    pub now: Time,
}

impl<'a> WorkloadSnapshot<'a> {
    fn known(&self) -> StatusBase<'a> {
        StatusBase { workload: self.workload, status: self.status }
    }

    fn at(&self) -> UpdateContext {
        UpdateContext { now: self.now, format: self.settings.wording }
    }
}

/// The ClusterQueue of its admission, else of its LocalQueue.
#[must_use]
pub fn cluster_queue_of(workload: &WorkloadFacts, local_queue: Option<&LocalQueueFacts>) -> Option<Text> {
    let reserved = workload.admission.as_ref().map(|it| it.cluster_queue.clone());
    reserved.or_else(|| local_queue.map(|it| it.cluster_queue.clone()))
}

#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Applies the status fields owned by admission, with the resourceVersion that was read.
    Write(Box<AdmissionStatus>),
    /// Sets `spec.active` to false, with the resourceVersion that was read.
    Deactivate,
    /// Sets `spec.priority`, with the resourceVersion that was read.
    SetPriority(i64),
    RemoveFinalizer,
    /// Deletes the Workload with background propagation.
    Delete,
    Note(WorkloadEvent),
    RecordMetric(MetricEvent),
    RequeueAt(Time),
}

/// Returns the actions that move a Workload towards its desired state. Empty means converged.
#[must_use]
pub fn reconcile(seen: &WorkloadSnapshot<'_>) -> Vec<Action> {
    if let Some(end) = retention::plan(seen) {
        return end;
    }
    // The second write of a deactivation: the condition is stored, so a crash before this point loses no reason.
    if seen.workload.active && seen.status.holds(conditions::DEACTIVATION_TARGET) {
        return vec![Action::Deactivate];
    }
    if let Some(priority) = priority::priority_to_set(seen.workload, seen.priority_class) {
        return vec![Action::SetPriority(priority)];
    }
    let mut pass = WorkloadReconciliation {
        seen,
        builder: StatusBuilder::new(seen.known(), seen.at()),
        requeue_at: None,
    };
    pass.run();
    pass.actions()
}

/// The earliest requeue time among the actions.
#[must_use]
pub fn wake_at(steps: &[Action]) -> Option<Time> {
    let time = |it: &Action| if let Action::RequeueAt(at) = it { Some(*at) } else { None };
    steps.iter().filter_map(time).min()
}

/// One reconciliation of a Workload that is neither finished nor deleted.
struct WorkloadReconciliation<'a> {
    seen: &'a WorkloadSnapshot<'a>,
    builder: StatusBuilder<'a>,
    requeue_at: Option<Time>,
}

impl WorkloadReconciliation<'_> {
    fn run(&mut self) {
        if !self.seen.workload.active {
            self.reconcile_inactive();
            return;
        }
        self.requeue_if_unblocked();
        self.sync_checks();
        let has_quota = self.builder.has_quota();
        // The job or pod reconciler stops the job and releases the quota.
        if has_quota && self.builder.status.holds(conditions::EVICTED) {
            return;
        }
        if has_quota {
            self.reconcile_reserved();
        } else if !self.apply_check_states() {
            self.report_pending_reason();
        }
    }

    /// Whether a deadline has passed; otherwise the Workload is requeued at it.
    fn is_due(&mut self, at: Time) -> bool {
        if at <= self.seen.now {
            return true;
        }
        // The earliest of all deadlines.
        self.requeue_at = Some(self.requeue_at.map_or(at, |wake| wake.min(at)));
        false
    }

    fn actions(self) -> Vec<Action> {
        let mut steps = status_update_actions(self.builder.build());
        steps.extend(self.requeue_at.map(Action::RequeueAt));
        steps
    }
}

/// The status update first, then its events and metrics: these are dropped if the update fails.
#[must_use]
pub fn status_update_actions(written: StatusUpdate) -> Vec<Action> {
    let mut steps: Vec<Action> = written.status.map(Action::Write).into_iter().collect();
    steps.extend(written.notes.into_iter().map(Action::Note));
    steps.extend(written.metric_events.into_iter().map(Action::RecordMetric));
    steps
}
