//! Reconciles a JobSet: decides which child objects to create, delete or update next, and its status.
//!
//! # Guarantees
//!
//! - [`reconcile`] is pure; every action is idempotent.
//! - A Job is deleted for a restart only if its attempt is lower than `status.restarts` as stored: a crash between two
//!   actions never restarts a JobSet without counting it.
//! - A finished JobSet creates nothing; its running Jobs are deleted, and the JobSet itself after its TTL.

mod claims;
mod failure;
mod gangs;
mod in_place;
mod stall;
mod startup;
mod status_update;
mod success;
mod suspend;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiObject, Kind, Uid};
use muster_api::event::EventType;
use muster_api::jobset::{JobSetFacts, JobSetStatus, ReplicatedJob, RestartStrategy, names};
use muster_api::meta::OwnerReference;
use muster_api::paths::condition;
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use crate::FeatureGates;
use crate::build::{self, Builder};
use crate::child_jobs::{ChildJob, ChildJobs, ObjectRef};
use crate::gangs::GangObjects;
use status_update::{EventToEmit, StatusUpdate};

/// Requeue interval for a stall that only a user or another controller can resolve.
const RETRY: Duration = Duration::from_secs(10);
/// Minimum interval between status updates that only change counts of `replicatedJobsStatus`.
const COUNTS_EVERY: Duration = Duration::from_secs(1);
/// Jobs created per reconciliation: a JobSet may have more than fit in memory.
const JOBS_PER_LOOK_MAX: usize = 1000;
/// How long the TTL deletion of a JobSet waits for an owner that is not in the cache.
const PARENT_WAIT: Duration = Duration::from_secs(60);

/// Event reasons that are not reasons of conditions.
pub mod reasons {
    /// The creation of a Job failed.
    pub const JOB_CREATION_FAILED: &str = "JobCreationFailed";
    /// The creation of the headless Service failed.
    pub const SERVICE_CREATION_FAILED: &str = "HeadlessServiceCreationFailed";
    /// A generated name belongs to another JobSet.
    pub const NAME_CONFLICT: &str = "NameConflict";
    /// A PersistentVolumeClaim was created.
    pub const CLAIM_CREATED: &str = "SuccessfulCreatePVC";
    /// The creation of a PersistentVolumeClaim failed.
    pub const CLAIM_FAILED: &str = "FailedCreatePVC";
    /// A ResourceClaim was created.
    pub const DEVICE_CLAIM_CREATED: &str = "SuccessfulCreateResourceClaim";
    /// The creation of a ResourceClaim failed.
    pub const DEVICE_CLAIM_FAILED: &str = "ResourceClaimCreationFailed";
    /// The pod template overrides a claim template.
    pub const DEVICE_CLAIM_OVERRIDDEN: &str = "ResourceClaimOverridden";
    /// The feature gate of claim templates is disabled.
    pub const DEVICE_CLAIMS_DISABLED: &str = "ResourceClaimTemplatesDisabled";
    /// The labels of a Job were modified and cannot be parsed.
    pub const LABELS_UNREADABLE: &str = "JobLabelsInvalid";
    /// A deleted Job is still terminating.
    pub const JOB_TERMINATING: &str = "JobTerminating";
    /// A pod template references a missing claim.
    pub const CLAIM_NOT_FOUND: &str = "ClaimNotFound";
    /// A failure policy rule needs a disabled feature gate.
    pub const ACTION_DISABLED: &str = "FailurePolicyActionDisabled";
}

/// An existing object with a name that the JobSet needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingObject {
    pub uid: Uid,
    pub controller: Option<OwnerReference>,
    /// The value of its JobSet name label.
    pub jobset: Option<Text>,
    /// It has a `deletionTimestamp`.
    pub deleting: bool,
}

/// Whether the owner of a finished JobSet observed its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnerState {
    None,
    /// The owner observed the end: the JobSet may be deleted.
    Notified,
    /// The owner did not observe the end yet.
    NotNotified,
    /// The owner is not in the cache.
    Unknown,
}

/// A pod of a JobSet with in-place restarts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InPlacePod {
    /// The highest `restartCount` of its containers.
    pub restarts: u32,
    pub failed: bool,
    /// Its attempt annotation, unparsed.
    pub attempt: Option<Text>,
}

/// Lists other objects of the namespace.
pub trait ChildLister {
    fn job(&self, name: &Text) -> Option<ExistingObject>;
    fn service(&self, name: &Text) -> Option<ExistingObject>;
    fn volume_claim(&self, name: &Text) -> Option<ExistingObject>;
    fn device_claim(&self, name: &Text) -> Option<ExistingObject>;
    fn workload(&self, name: &Text) -> Option<ExistingObject>;
    fn group(&self, name: &Text) -> Option<ExistingObject>;
    fn pods(&self) -> Vec<InPlacePod>;
    /// Kind and name of a dependent that blocks the foreground deletion of a Job.
    fn remaining_dependent(&self, job: &Uid) -> Option<(Text, Text)>;
    /// The owner of the JobSet, if it must observe the end before the TTL deletion.
    fn owner_state(&self) -> OwnerState;
}

/// Everything one reconciliation may read, at a single instant.
pub struct JobSetSnapshot<'a> {
    pub set: &'a JobSetFacts,
    /// The Jobs with a controller owner reference to it (by UID).
    pub children: &'a [ChildJob<'a>],
    pub lister: &'a dyn ChildLister,
    pub gates: FeatureGates,
    /// The served version of ResourceClaims; `None` if they are not served.
    pub claims: Option<&'a Kind>,
    /// Its Workloads and PodGroups; `None` if they are not served.
    pub groups: Option<&'a GangObjects<'a>>,
    /// When this process last updated the status.
    pub status_updated_at: Option<Time>,
    /// No object is created before this time: the last create failed.
    pub create_after: Option<Time>,
    /// Reason and message of that failure.
    pub create_error: Option<(&'a str, &'a str)>,
    /// The time of the snapshot; the only clock of this module.
    pub now: Time,
}

/// An object to create, with its event.
#[derive(Debug, Clone, PartialEq)]
pub struct CreatedObject {
    pub object: Tree,
    /// Reason and message of the event after a successful create.
    pub event: Option<(&'static str, String)>,
}

/// One action of a reconciliation.
#[derive(Debug, Clone, PartialEq)]
pub enum JobSetAction {
    CreateService(Tree),
    CreateVolumeClaims(Vec<CreatedObject>),
    CreateClaims(Vec<CreatedObject>),
    DeleteClaims(Vec<ObjectRef>),
    /// Creates Workloads or PodGroups.
    CreateGangs(Kind, Vec<CreatedObject>),
    /// Merge patches a Workload or PodGroup, with its resourceVersion as a precondition.
    Resize(Kind, Box<ApiObject>, Tree),
    DeleteGroups(Kind, Vec<ObjectRef>),
    CreateJobs(Vec<Tree>),
    /// Deletes Jobs with foreground propagation.
    DeleteJobs(Vec<ObjectRef>),
    /// Clears `status.startTime` of suspended Jobs, so that their templates become mutable.
    ClearStartTimes(Vec<ObjectRef>),
    PatchJobs(Vec<(ObjectRef, Tree)>),
    UpdateStatus(Box<JobSetStatus>),
    EmitEvent(EventType, Text, String),
    /// Emits an event once per generation of the JobSet.
    EmitEventOnce(EventType, Text, String),
    /// Deletes the JobSet with foreground propagation.
    DeleteJobSet,
    /// Requeues the JobSet at this time.
    RequeueAt(Time),
}

/// Returns the actions that move the JobSet towards its spec. Empty means converged.
#[must_use]
pub fn reconcile(seen: &JobSetSnapshot<'_>) -> Vec<JobSetAction> {
    if seen.set.deleting || seen.set.managed_externally {
        return Vec::new();
    }
    Reconciliation::new(seen, ChildJobs::of(seen.set, seen.children, seen.gates)).run()
}

struct Reconciliation<'a> {
    snapshot: &'a JobSetSnapshot<'a>,
    child_jobs: ChildJobs<'a>,
    builder: Builder<'a>,
    jobs: BTreeMap<&'a str, &'a ReplicatedJob>,
    steps: Vec<JobSetAction>,
    /// Reasons and messages of the `Stalled` condition.
    stalls: Vec<(Text, String)>,
    /// Creates, executed after the status update: a rejected create must not block it.
    creates: Vec<JobSetAction>,
}

impl<'a> Reconciliation<'a> {
    fn new(seen: &'a JobSetSnapshot<'a>, sorted: ChildJobs<'a>) -> Reconciliation<'a> {
        Reconciliation {
            builder: Builder::new(seen.set, seen.gates),
            snapshot: seen,
            child_jobs: sorted,
            jobs: seen.set.jobs.iter().map(|it| (it.name.as_str(), it)).collect(),
            steps: Vec::new(),
            stalls: Vec::new(),
            creates: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<JobSetAction> {
        let mut draft = StatusUpdate::new(self.snapshot, &self.child_jobs);
        self.lay_out_gangs();
        self.release_claims();
        if self.snapshot.set.status.terminal_condition().is_some() {
            self.delete_jobs(&self.child_jobs.running().collect::<Vec<_>>());
            let told = self.update_status(draft);
            self.delete_after_ttl(told);
            return self.steps;
        }
        self.report_unreadable_jobs();
        self.report_terminating_jobs();
        // The restart that made these Jobs obsolete is in the stored status.
        self.delete_jobs(&self.child_jobs.previous.clone());
        draft.all_ready();
        if !self.child_jobs.failed.is_empty() {
            failure::apply_policy(self.snapshot, &self.child_jobs, &mut draft);
        } else if success::is_met(self.snapshot.set, &self.child_jobs) {
            draft.complete();
        } else {
            self.go_on(&mut draft);
        }
        self.update_status(draft);
        self.create_children();
        self.steps
    }

    /// The JobSet is neither failed nor completed.
    fn go_on(&mut self, draft: &mut StatusUpdate<'_>) {
        // Not short-circuit: both must report their conflicts.
        let may_create = self.ensure_service() & self.ensure_volume_claims();
        self.resize_gangs();
        if self.snapshot.gates.elastic {
            self.resize();
        }
        startup::create_missing_jobs(self, draft, may_create);
        self.ensure_claims(draft);
        self.report_missing_claims();
        if self.snapshot.set.suspend {
            self.suspend(draft);
        } else {
            self.resume(draft);
        }
        if self.snapshot.set.strategy() == RestartStrategy::InPlace && self.snapshot.gates.in_place_restart {
            in_place::sync(self.snapshot, draft);
        }
    }

    /// Reports Jobs that are ignored because their labels cannot be parsed.
    fn report_unreadable_jobs(&mut self) {
        let Some((_, why)) = self.child_jobs.unreadable.first() else { return };
        let more = match self.child_jobs.unreadable.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more jobs)"),
        };
        let message = format!("{why}{more}");
        self.report_stall(reasons::LABELS_UNREADABLE, message);
    }

    /// Creates missing objects, unless a failed create is in backoff.
    fn create_children(&mut self) {
        match self
            .snapshot
            .create_after
            .filter(|until| *until > self.snapshot.now && !self.creates.is_empty())
        {
            Some(until) => self.steps.push(JobSetAction::RequeueAt(until)),
            None => self.steps.append(&mut self.creates),
        }
    }

    /// Deletes Jobs that are not terminating yet.
    fn delete_jobs(&mut self, jobs: &[&ChildJob<'_>]) {
        let all: Vec<ObjectRef> =
            jobs.iter().filter(|it| !it.deleting).map(|it| it.object_ref.clone()).collect();
        if !all.is_empty() {
            self.steps.push(JobSetAction::DeleteJobs(all));
        }
    }

    /// Updates the status if it differs and emits its events; whether it is written. Updates of counts are rate-limited.
    fn update_status(&mut self, mut draft: StatusUpdate<'_>) -> bool {
        let old = &self.snapshot.set.status;
        for (reason, message) in std::mem::take(&mut draft.stalls) {
            self.report_stall(reason, message);
        }
        let is_held = self.snapshot.create_after.is_some_and(|until| until > self.snapshot.now);
        if let Some((reason, message)) =
            self.snapshot.create_error.filter(|_| is_held && !self.creates.is_empty())
        {
            self.stalls.push((reason.into(), message.to_owned()));
        }
        draft.stalled(&self.stalls, !self.creates.is_empty());
        let due =
            self.snapshot.status_updated_at.map(|at| at + COUNTS_EVERY).filter(|at| *at > self.snapshot.now);
        let (status, said) = (in_order(&draft.status), draft.events);
        match due {
            _ if status == in_order(old) => return false,
            // Thousands of Jobs becoming ready would otherwise cause as many status updates.
            Some(at) if without_counts(&status) == without_counts(old) => {
                self.steps.push(JobSetAction::RequeueAt(at));
                return false;
            }
            _ => self.steps.push(JobSetAction::UpdateStatus(Box::new(status))),
        }
        let notes = said.into_iter();
        self.steps.extend(notes.map(|EventToEmit { severity, reason, message }| {
            JobSetAction::EmitEvent(severity, reason, message)
        }));
        true
    }

    /// Deletes a finished JobSet after its TTL, once its owner observed the end.
    fn delete_after_ttl(&mut self, told: bool) {
        let (Some(ttl), Some(end)) =
            (self.snapshot.set.ttl_secs, self.snapshot.set.status.terminal_condition())
        else {
            return;
        };
        let Some(since) = Time::of(end.at(condition::SINCE)) else { return };
        let at = since + Duration::from_secs(ttl.into());
        let at = match self.snapshot.lister.owner_state() {
            OwnerState::None | OwnerState::Notified => at,
            OwnerState::Unknown => at.max(since + PARENT_WAIT),
            OwnerState::NotNotified => at.max(self.snapshot.now + PARENT_WAIT),
        };
        // The status update changes the resourceVersion that the deletion has as a precondition.
        let now = at <= self.snapshot.now && !told;
        self.steps.push(if now {
            JobSetAction::DeleteJobSet
        } else {
            JobSetAction::RequeueAt(at.max(self.snapshot.now))
        });
    }

    /// Creates the headless Service if it is missing; whether Jobs may be created.
    fn ensure_service(&mut self) -> bool {
        let network = &self.snapshot.set.network;
        if !network.hostnames {
            return true;
        }
        match self.snapshot.lister.service(&network.subdomain) {
            None => {
                self.creates.push(JobSetAction::CreateService(self.builder.service()));
                true
            }
            Some(held) => !self.is_conflict("service", &network.subdomain, &held),
        }
    }

    /// Whether an object with a generated name belongs to a JobSet whose name only differs in dots and dashes. If so, the
    /// conflict is reported.
    fn is_conflict(&mut self, what: &str, name: &str, held: &ExistingObject) -> bool {
        let set = self.snapshot.set;
        let Some(other) = held.controller.as_ref().filter(|owner| owner.uid != set.uid) else { return false };
        let met = other.kind == "JobSet"
            && other.name != set.name
            && names::dns_label(&other.name) == names::dns_label(&set.name);
        if met {
            let message = format!(
                "{what} {name} of jobset {} has the name that jobset {} needs: delete or rename one of them",
                other.name, set.name
            );
            self.report_stall(reasons::NAME_CONFLICT, message);
        }
        met
    }

    /// Reports a stall as an event and in the `Stalled` condition, and requeues.
    fn report_stall(&mut self, reason: &str, message: String) {
        self.stalls.push((reason.into(), message.clone()));
        self.steps.push(JobSetAction::EmitEventOnce(EventType::Warning, reason.into(), message));
        self.steps.push(JobSetAction::RequeueAt(self.snapshot.now + RETRY));
    }

    /// Sets parallelism and completions of active Jobs to those of their templates.
    fn resize(&mut self) {
        let patch = |child: &&ChildJob<'_>| {
            let of = self.jobs.get(child.group?)?;
            Some((child.object_ref.clone(), build::resize(child.tree, of)?))
        };
        let all: Vec<(ObjectRef, Tree)> = self.child_jobs.active.iter().filter_map(patch).collect();
        if !all.is_empty() {
            self.steps.push(JobSetAction::PatchJobs(all));
        }
    }
}

/// A status without the counts of `replicatedJobsStatus`.
fn without_counts(status: &JobSetStatus) -> JobSetStatus {
    let mut status = status.clone();
    for it in &mut status.jobs {
        (it.ready, it.succeeded, it.failed, it.active, it.suspended) = (0, 0, 0, 0, 0);
    }
    in_order(&status)
}

/// A status with `replicatedJobsStatus` sorted by name: a map list has no order, so another order is no change.
fn in_order(status: &JobSetStatus) -> JobSetStatus {
    let mut status = status.clone();
    status.jobs.sort_by(|a, b| a.name.cmp(&b.name));
    status
}
