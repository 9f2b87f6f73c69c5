//! Reconciles a `batch/v1` Job: decides which pods to create, delete and count, and which status to write.
//!
//! # Guarantees
//!
//! - [`reconcile`] is pure: the same snapshot gives the same steps in the same order.
//! - Every step is idempotent; the process may crash between any two of them.
//! - A pod is counted exactly once: it enters `status.uncountedTerminatedPods`, loses its finalizer, and only then moves into
//!   the counters, as upstream's job controller does with tracking finalizers.
//! - A finished Job is never modified again, except to delete it when its TTL expires.
//! - A failed Job deletes its remaining pods and counts them as failed; a succeeded Job deletes them uncounted.
//!
//! # Deliberately absent
//!
//! Events about single pods: the controller that performs the steps records them. Gang placement: a Job creates the PodGroup
//! that its pods join; the scheduler places it.

mod backoff;
mod conditions;
mod finalizer_tracking;
mod finished;
mod gang;
pub mod index_set;
mod pods;
mod policies;
mod sync_context;

use muster_api::client::{ApiObject, Kind, Uid};
use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::{conditions as kinds, reasons};
use muster_api::event::EventType;
use muster_api::gang_objects::PodGroupMember;
use muster_api::job::{CompletionMode, JobFacts, JobStatus};
use muster_api::job_pod::{JobPod, NewPod};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub use crate::backoff::BackoffRecord;
use crate::finalizer_tracking::CountedPods;
use crate::finished::FinishedCondition;
use crate::gang::JobGangDecision;
pub use crate::gang::JobGangSnapshot;
use crate::pods::PodChanges;
use crate::sync_context::{SyncContext, number};

/// Pods created or deleted in one reconciliation (upstream's `maxPodCreateDeletePerSync`).
pub const PODS_PER_SYNC_MAX: usize = 500;
/// Entries of `status.uncountedTerminatedPods` (upstream's `maxUncountedPods`).
pub const UNCOUNTED_MAX: usize = 500;

/// Everything one reconciliation may look at, read at a single instant.
pub struct JobSnapshot<'a> {
    /// The Job, defaulted and validated.
    pub job: &'a JobFacts,
    /// Pods whose controller owner reference is the Job.
    pub pods: &'a [JobPod],
    /// Pods of its namespace without a controller that the selector may adopt.
    pub orphans: &'a [JobPod],
    /// Failures of pods that may be deleted by now, for the backoff.
    pub backoff_record: &'a BackoffRecord,
    /// Whether any pod of the namespace has this name, whatever its owner.
    pub name_in_use: &'a dyn Fn(&Text) -> bool,
    /// The objects of its gang; `None` where Jobs do not create gangs.
    pub groups: Option<&'a JobGangSnapshot<'a>>,
    /// Whether the last creation of pods failed: the status is then written before the next attempt, so that quota errors do
    /// not keep it stale.
    pub create_failed: bool,
    /// The time of the snapshot.
    pub now: Time,
}

/// A pod incarnation: the UID guards against a pod that was recreated under the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    pub name: Text,
    pub uid: Uid,
}

impl PodRef {
    fn of(pod: &JobPod) -> PodRef {
        PodRef { name: pod.name.clone(), uid: pod.uid.clone() }
    }
}

/// One step of a reconciliation.
#[derive(Debug, Clone, PartialEq)]
pub enum JobAction {
    /// Adopts orphaned pods, provided that the Job is unchanged: a deleted Job must not adopt.
    Adopt(Vec<PodRef>),
    /// Removes the owner reference of pods that the selector no longer matches.
    ReleaseOwnership(Vec<PodRef>),
    /// Creates the Workload or the PodGroup of the gang and records the event.
    CreateGangObject {
        kind: Kind,
        object: Box<Tree>,
        /// Reason and message of the event.
        event: (&'static str, String),
    },
    /// Patches the size of the gang, provided that the object is unchanged.
    ResizeGang {
        kind: Kind,
        object: Box<ApiObject>,
        patch: Tree,
    },
    CreatePods(Vec<NewPod>),
    /// Deletes pods, which then count as failed.
    DeletePods(Vec<PodRef>),
    /// Removes the tracking finalizer of pods and deletes them: they do not count.
    DeleteUncounted(Vec<PodRef>),
    /// Updates the status, if it differs.
    UpdateStatus(Box<JobStatus>),
    /// Removes the tracking finalizer of pods that are listed as uncounted.
    RemoveFinalizer(Vec<PodRef>),
    /// Records an event about the Job.
    Event(EventType, Text, String),
    /// Reconciles the Job again at this time.
    RequeueAt(Time),
    /// Deletes the Job with foreground propagation.
    DeleteJob,
}

/// The result of a reconciliation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobReconciliation {
    /// The steps in order; empty means converged.
    pub steps: Vec<JobAction>,
    /// The input of the next reconciliation.
    pub backoff_record: BackoffRecord,
    /// The gang that new pods join; `None` for pods without a gang.
    pub member: Option<PodGroupMember>,
}

impl From<Vec<JobAction>> for JobReconciliation {
    fn from(steps: Vec<JobAction>) -> JobReconciliation {
        JobReconciliation { steps, ..JobReconciliation::default() }
    }
}

/// Returns the steps that move the Job towards its spec.
#[must_use]
pub fn reconcile(snapshot: &JobSnapshot<'_>) -> JobReconciliation {
    if snapshot.job.managed_externally {
        return JobReconciliation::default();
    }
    if snapshot.job.finished_condition().is_some() {
        return delete_after_ttl(snapshot).into();
    }
    if snapshot.job.mode == CompletionMode::Unknown {
        let message = "Skipped Job sync because completion mode is unknown".to_owned();
        return vec![JobAction::Event(EventType::Warning, reasons::UNKNOWN_COMPLETION_MODE.into(), message)]
            .into();
    }
    let claims = claim(snapshot);
    if !claims.is_empty() {
        return JobReconciliation {
            steps: claims,
            backoff_record: snapshot.backoff_record.clone(),
            member: None,
        };
    }
    let ctx = SyncContext::of(snapshot);
    let backoff_record = snapshot.backoff_record.with(&ctx);
    let (steps, member) = match finished::find_finished(&ctx) {
        Some(finished) => (finish(&ctx, &finished), None),
        None => manage(snapshot, &ctx, &backoff_record),
    };
    JobReconciliation { steps, backoff_record, member }
}

/// A finished Job removes its remaining tracking finalizers and is deleted when `ttlSecondsAfterFinished` has passed.
fn delete_after_ttl(snapshot: &JobSnapshot<'_>) -> Vec<JobAction> {
    let held: Vec<PodRef> =
        snapshot.pods.iter().filter(|pod| pod.has_tracking_finalizer).map(PodRef::of).collect();
    let mut steps = if held.is_empty() { vec![] } else { vec![JobAction::RemoveFinalizer(held)] };
    let (Some(ttl), Some(end), false) =
        (snapshot.job.ttl_secs, snapshot.job.finished_condition(), snapshot.job.deleting)
    else {
        return steps;
    };
    let since = Time::of(end.at(muster_api::paths::condition::SINCE)).unwrap_or(snapshot.now);
    let at = since + std::time::Duration::from_secs(ttl.into());
    steps.push(if at <= snapshot.now { JobAction::DeleteJob } else { JobAction::RequeueAt(at) });
    steps
}

/// Adopts orphans that the selector matches and releases owned pods that it does not match, as upstream's `ClaimPods`. A Job
/// that is being deleted does neither.
fn claim(snapshot: &JobSnapshot<'_>) -> Vec<JobAction> {
    if snapshot.job.deleting {
        return Vec::new();
    }
    let lost: Vec<PodRef> =
        snapshot.pods.iter().filter(|pod| !pod.matches_selector).map(PodRef::of).collect();
    let found = snapshot.orphans.iter().filter(|pod| pod.matches_selector && pod.deleting.is_none());
    let found: Vec<PodRef> = found.map(PodRef::of).collect();
    let mut steps = Vec::new();
    if !lost.is_empty() {
        steps.push(JobAction::ReleaseOwnership(lost));
    }
    if !found.is_empty() {
        steps.push(JobAction::Adopt(found));
    }
    if !steps.is_empty() {
        steps.push(JobAction::RequeueAt(snapshot.now));
    }
    steps
}

/// Creates, deletes and counts pods; finishes the Job when its completions are reached.
fn manage(
    snapshot: &JobSnapshot<'_>,
    ctx: &SyncContext<'_>,
    backoff_record: &BackoffRecord,
) -> (Vec<JobAction>, Option<PodGroupMember>) {
    let change =
        if snapshot.job.deleting { PodChanges::none() } else { pods::changes(snapshot, ctx, backoff_record) };
    if finished::is_complete(ctx, change.active_after(ctx)) {
        return (finish(ctx, &FinishedCondition::completed()), None);
    }
    match gang::decide(snapshot, ctx, &change) {
        JobGangDecision::CreateFirst(steps) => (steps, None),
        JobGangDecision::NoGang => (sync_pods(snapshot, ctx, &change), None),
        JobGangDecision::Join(member, mut steps) => {
            steps.extend(sync_pods(snapshot, ctx, &change));
            (steps, Some(member))
        }
    }
}

/// The steps of a running Job: pods, status, finalizers.
fn sync_pods(snapshot: &JobSnapshot<'_>, ctx: &SyncContext<'_>, change: &PodChanges) -> Vec<JobAction> {
    let CountedPods { mut status, remove_finalizer } = finalizer_tracking::count(ctx, None);
    let notes = suspend_or_resume(snapshot, &mut status);
    let (reported, first, last) = match snapshot.create_failed {
        true => (change.without_creates(), None, change.creates()),
        false => (change.clone(), change.creates(), None),
    };
    reported.set_counts(ctx, &mut status);
    let mut steps: Vec<JobAction> = change.discards().into_iter().chain(first).collect();
    steps.push(JobAction::UpdateStatus(Box::new(status)));
    steps.extend(notes);
    if !remove_finalizer.is_empty() {
        steps.push(JobAction::RemoveFinalizer(remove_finalizer));
    }
    steps.extend(last);
    let deadline = finished::deadline(snapshot.job).map(JobAction::RequeueAt);
    steps.extend(change.requeue_at.map(JobAction::RequeueAt).into_iter().chain(deadline));
    steps
}

/// Sets the Suspended condition and the start time when the Job is suspended or resumed, and returns the event.
fn suspend_or_resume(snapshot: &JobSnapshot<'_>, status: &mut JobStatus) -> Option<JobAction> {
    let now = snapshot.now.whole_seconds();
    if status.start_time.is_none() && !snapshot.job.suspend {
        status.start_time = Some(now);
    }
    let known = condition::find(&status.conditions, kinds::SUSPENDED).is_some();
    if snapshot.job.deleting || !(snapshot.job.suspend || known) {
        return None;
    }
    let (reason, event, message) = match snapshot.job.suspend {
        true => (reasons::JOB_SUSPENDED, reasons::SUSPENDED, "Job suspended"),
        false => (reasons::JOB_RESUMED, reasons::RESUMED, "Job resumed"),
    };
    let wanted =
        DesiredCondition { condition_type: kinds::SUSPENDED, status: snapshot.job.suspend, reason, message };
    if !conditions::set(&mut status.conditions, &wanted, now) {
        return None;
    }
    status.start_time = (!snapshot.job.suspend).then_some(now);
    Some(JobAction::Event(EventType::Normal, event.into(), message.to_owned()))
}

/// Finishes a Job: first the interim condition (SuccessCriteriaMet or FailureTarget), then, when no pod is left, the terminal
/// one (Complete or Failed).
fn finish(ctx: &SyncContext<'_>, finished: &FinishedCondition) -> Vec<JobAction> {
    let CountedPods { mut status, remove_finalizer } = finalizer_tracking::count(ctx, Some(finished));
    let now = ctx.now.whole_seconds();
    let active: Vec<PodRef> = ctx.active.iter().map(|pod| PodRef::of(pod)).collect();
    let terminating = ctx.terminating.saturating_add(number(active.len()));
    status.start_time = status.start_time.or((!ctx.job.suspend).then_some(now));
    finished.set_interim(&mut status, now);
    (status.active, status.ready, status.terminating) = (0, Some(0), Some(terminating));
    let uncounted = status.uncounted_succeeded.len() + status.uncounted_failed.len();
    // The interim condition is written by a status update of its own: a watcher must see it before the terminal condition.
    let announced = finished::has_interim_condition(&ctx.job.status);
    let over = announced && terminating == 0 && uncounted == 0 && remove_finalizer.is_empty();
    if over {
        finished.set_terminal(&mut status, now);
    }
    let too_many = ctx.job.completions.is_some_and(|wanted| status.succeeded > wanted);
    let mut steps = vec![JobAction::UpdateStatus(Box::new(status))];
    steps.extend(delete_pods(finished, active, remove_finalizer));
    if over {
        steps.extend((too_many && finished.is_success()).then(too_many_succeeded));
        steps.push(finished.event());
    }
    steps
}

/// Deletes the pods of a finished Job. Those of a succeeded Job lose the finalizer first: deleted before, a crash in between
/// would count them as failures.
fn delete_pods(
    finished: &FinishedCondition,
    active: Vec<PodRef>,
    remove_finalizer: Vec<PodRef>,
) -> Vec<JobAction> {
    let delete = (!active.is_empty()).then_some(JobAction::DeletePods(active));
    let remove_finalizer =
        (!remove_finalizer.is_empty()).then_some(JobAction::RemoveFinalizer(remove_finalizer));
    let (first, second) =
        if finished.is_success() { (remove_finalizer, delete) } else { (delete, remove_finalizer) };
    first.into_iter().chain(second).collect()
}

fn too_many_succeeded() -> JobAction {
    let message = "Too many succeeded pods running after completion count reached".to_owned();
    JobAction::Event(EventType::Warning, reasons::TOO_MANY_SUCCEEDED.into(), message)
}

#[cfg(test)]
mod tests;
