//! The reconciler of TrainJobs: a pure function from a snapshot to steps.

use muster_api::client::{DeletionPropagation, Uid};
use muster_api::event::EventType;
use muster_api::meta;
use muster_api::time::Time;
use muster_api::train::consts::{messages, reasons};
use muster_api::train::paths::train_job as path;
use muster_api::train::{ManagedBy, TrainJobFacts};
use muster_tree::{Text, Tree};

use super::deadline::{DeadlineClock, deadline, ttl_expiry};
use super::objects::{ApplyContext, ChildLister, DesiredObjects};
use super::status_builder::StatusBuilder;
use crate::build::BuildError;

/// All that one reconciliation reads, at a single instant.
pub struct TrainJobSnapshot<'a> {
    pub job: &'a Tree,
    /// The JobSet with the name of the TrainJob, whatever its owner is.
    pub jobset: Option<&'a Tree>,
    /// The desired objects; set only if [`wants_objects`].
    pub made: Option<&'a Result<DesiredObjects, BuildError>>,
    /// Reads the existing objects.
    pub around: &'a dyn ChildLister,
    /// What `activeDeadlineSeconds` counts from.
    pub clock: DeadlineClock,
}

/// An event to emit about a TrainJob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainJobEvent {
    pub event_type: EventType,
    pub reason: Text,
    pub message: Text,
}

/// One step. It starts when the one before it succeeded; if a step is rejected, those after it are dropped.
#[derive(Debug, Clone, PartialEq)]
pub enum TrainJobStep {
    Event(TrainJobEvent),
    /// Merge patch of the status, with the observed resource version as a precondition.
    UpdateStatus(Tree),
    /// Deletes the JobSet with this UID; its dependents are deleted in the background.
    DeleteJobSet(Uid),
    /// Deletes the TrainJob with the observed UID.
    DeleteTrainJob {
        /// When its TTL expired.
        due: Time,
        /// Whether its dependents are deleted before or after it.
        cascade: DeletionPropagation,
    },
    /// Server-side applies an object with force, as our field manager.
    Apply(Tree),
    /// Requeues the TrainJob at this time.
    RequeueAt(Time),
    /// Requeues the TrainJob with backoff.
    Retry,
}

/// Whether a TrainJob has objects: this controller manages it, it is neither finished nor being deleted, and the kind
/// of its runtime is supported.
#[must_use]
pub fn wants_objects(job: &TrainJobFacts) -> bool {
    job.managed_by == ManagedBy::Trainer
        && !job.deleting
        && !job.status.is_finished()
        && job.runtime.runtime_kind().is_some()
}

/// Returns the next steps of a TrainJob; none if another controller manages it.
#[must_use]
pub fn reconcile(seen: &TrainJobSnapshot<'_>, now: Time) -> Vec<TrainJobStep> {
    let job = TrainJobFacts::of(seen.job);
    if job.managed_by == ManagedBy::External {
        return Vec::new();
    }
    Reconciliation { seen, set: own(seen.jobset, &job), job: &job, now, steps: Vec::new() }.run()
}

/// The JobSet, if this TrainJob controls it. The JobSet of another owner is neither read nor deleted.
fn own<'a>(set: Option<&'a Tree>, job: &TrainJobFacts) -> Option<&'a Tree> {
    set.filter(|set| meta::controller_of(set).is_some_and(|owner| owner.uid == job.uid))
}

struct Reconciliation<'a> {
    seen: &'a TrainJobSnapshot<'a>,
    job: &'a TrainJobFacts,
    set: Option<&'a Tree>,
    now: Time,
    steps: Vec<TrainJobStep>,
}

impl Reconciliation<'_> {
    fn run(mut self) -> Vec<TrainJobStep> {
        let mut draft = StatusBuilder::new(self.job, self.now);
        if self.job.runtime.runtime_kind().is_none() && !draft.status.is_finished() {
            draft.runtime_not_supported(self.job);
        }
        draft.suspend(self.job);
        if let Some(set) = self.set {
            // Before the deadline: a JobSet that finished in time does not fail by a deadline that passed since.
            draft.copy_jobset_status(set);
        }
        let deadline = deadline(self.job, &draft.status, self.seen.clock);
        if deadline.is_some_and(|at| at <= self.now) {
            draft.deadline_exceeded();
        }
        let applied = self.objects();
        let pending = deadline.filter(|at| *at > self.now);
        let expiry = ttl_expiry(self.job, &draft.status);
        self.update_status(&draft);
        self.delete_overdue_jobset(&draft);
        self.delete_after_ttl(expiry);
        // A deadline ends when the TrainJob is finished, and the TTL starts then: never both.
        let waking = pending.or(expiry.filter(|at| *at > self.now));
        self.steps.extend(waking.map(TrainJobStep::RequeueAt));
        // Last, because a rejected step drops those after it: deadline and TTL apply also if an object is rejected.
        if !draft.status.is_finished() {
            self.steps.extend(applied.into_iter().map(TrainJobStep::Apply));
        }
        self.steps
    }

    /// The objects to apply. A build error emits an event and requeues with backoff; all other steps are carried out.
    fn objects(&mut self) -> Vec<Tree> {
        if !wants_objects(self.job) {
            return Vec::new();
        }
        let setting = ApplyContext { job: self.job, set: self.seen.jobset, around: self.seen.around };
        let applied = match self.seen.made {
            Some(Ok(made)) => setting.applied(made),
            Some(Err(why)) => Err(why.clone()),
            None => return Vec::new(),
        };
        applied.unwrap_or_else(|why| {
            let message = messages::creation_failed(&why.0);
            let severity = EventType::Warning;
            let note = TrainJobEvent {
                event_type: severity,
                reason: reasons::CREATION_FAILED.into(),
                message: message.into(),
            };
            self.steps.extend([TrainJobStep::Event(note), TrainJobStep::Retry]);
            Vec::new()
        })
    }

    /// The status update, if the status changed, and its events.
    fn update_status(&mut self, draft: &StatusBuilder) {
        let old = self.seen.job.at(path::STATUS).unwrap_or(&Tree::Null);
        if let Some(patch) = draft.status.patch(old) {
            // Events follow the update: if it is rejected they are dropped, and the next reconciliation emits them.
            self.steps.push(TrainJobStep::UpdateStatus(patch));
            self.steps.extend(draft.notes.iter().cloned().map(TrainJobStep::Event));
        }
    }

    /// Deletes the JobSet of a TrainJob that exceeded its deadline, until the deletion is observed.
    fn delete_overdue_jobset(&mut self, draft: &StatusBuilder) {
        let left =
            self.set.filter(|set| draft.status.is_overdue() && meta::deletion_timestamp(set).is_none());
        self.steps.extend(left.map(|set| TrainJobStep::DeleteJobSet(meta::uid(set))));
    }

    /// Deletes the TrainJob if its TTL has expired.
    fn delete_after_ttl(&mut self, at: Option<Time>) {
        let (Some(at), Some(ttl)) = (at.filter(|at| *at <= self.now), self.job.ttl_secs) else { return };
        let message = messages::ttl_expired(ttl).into();
        let note =
            TrainJobEvent { event_type: EventType::Normal, reason: reasons::TTL_EXPIRED.into(), message };
        self.steps.extend([
            TrainJobStep::Event(note),
            TrainJobStep::DeleteTrainJob { due: at, cascade: self.cascade() },
        ]);
    }

    /// Foreground: the TrainJob is removed after its JobSet, and so after every pod. Without a JobSet nothing blocks
    /// it: Background removes it at once, and the garbage collector deletes its ConfigMaps and Secrets.
    fn cascade(&self) -> DeletionPropagation {
        if self.set.is_none() { DeletionPropagation::Background } else { DeletionPropagation::Foreground }
    }
}
