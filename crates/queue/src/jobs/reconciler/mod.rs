//! The job reconciler (Kueue's `jobframework.JobReconciler`).
//!
//! One order for all kinds: managed ancestors, the matching Workload, finished jobs and Workloads, Workload status,
//! start and stop. The kind is behind [`GenericJob`].
//!
//! # Guarantees
//!
//! - [`plan`] is pure: the same snapshot gives the same actions in the same order.
//! - A reconciliation ends with the first write to the Workload or the job; what follows is decided on the next
//!   read. So every action is idempotent, and a crash between two loses nothing.
//! - A Workload is deleted, or releases quota, only once its job is suspended and none of its pods is active.
//! - Events follow the write they report.

mod gone;
mod matching;
mod progress;
mod run;

use std::collections::BTreeMap;

use muster_api::client::Uid;
use muster_api::event::EventType;
use muster_api::meta;
use muster_api::queue::consts::{finalizers, labels, reasons};
use muster_api::queue::{Condition, FlavorFacts, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub use gone::reconcile_deleted;

use super::generic_job::{GenericJob, JobPatch};
use super::naming::NameLimit;
use super::owner_chain::{ManagedAncestor, OwnerChainError};
use super::priority::PriorityClassLister;

/// Bound on the pod sets of a Workload.
pub const POD_SETS_MAX: usize = 18;

/// A Workload with the object it was read from.
#[derive(Debug, Clone)]
pub struct WorkloadView<'a> {
    pub tree: &'a Tree,
    pub facts: WorkloadFacts,
}

impl<'a> WorkloadView<'a> {
    #[must_use]
    pub fn of(tree: &'a Tree) -> WorkloadView<'a> {
        WorkloadView { tree, facts: WorkloadFacts::of(tree) }
    }

    #[must_use]
    pub fn reference(&self) -> WorkloadId {
        WorkloadId { name: self.facts.name.clone(), uid: self.facts.uid.clone() }
    }

    fn key(&self) -> String {
        format!("{}/{}", self.facts.namespace, self.facts.name)
    }
}

/// A Workload by name and UID: a recreated object of the same name is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadId {
    pub name: Text,
    pub uid: Uid,
}

/// The managed ancestor of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobAncestry {
    Unmanaged,
    /// A managed ancestor is queued instead.
    Managed {
        ancestor: ManagedAncestor,
        /// Whether the ancestor's Workload is admitted.
        is_admitted: bool,
    },
    /// The owner chain could not be read.
    Unknown(OwnerChainError),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobReconcilerSettings {
    /// Labels copied to Workloads.
    pub label_keys: Vec<Text>,
    /// Length limit of Workload names.
    pub name_limit: NameLimit,
    /// Field `manageJobsWithoutQueueName` of Kueue's configuration.
    pub without_queue: bool,
    /// Whether `PodsReady` is written (`waitForPodsReady`).
    pub reports_pods_ready: bool,
}

/// Everything a reconciliation reads, taken at one instant.
pub struct QueuedJobSnapshot<'a> {
    pub job: &'a dyn GenericJob,
    /// Whether `managedJobsNamespaceSelector` selects its namespace.
    pub is_selected: bool,
    pub ancestry: JobAncestry,
    /// The Workloads it controls, oldest first.
    pub workloads: &'a [WorkloadView<'a>],
    /// The prebuilt Workload it names, if it exists.
    pub prebuilt: Option<&'a WorkloadView<'a>>,
    pub flavor: &'a dyn Fn(&str) -> Option<FlavorFacts>,
    pub classes: &'a dyn PriorityClassLister,
    pub settings: &'a JobReconcilerSettings,
    /// The time of the snapshot.
    pub now: Time,
}

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobEventObject {
    Job,
    Workload(WorkloadId),
}

#[derive(Debug, Clone, PartialEq)]
pub enum JobReconcilerAction {
    CreateWorkload(Tree),
    /// Merge patch of a Workload, with the resourceVersion that was read.
    PatchWorkload(WorkloadId, Tree),
    /// Removes the finalizer of a Workload.
    RemoveFinalizer(WorkloadId),
    DeleteWorkload(WorkloadId),
    /// Sets a condition owned by admission.
    SetCondition(WorkloadId, Condition),
    SetReclaimablePods(WorkloadId, BTreeMap<Text, u32>),
    /// Releases the quota of an evicted Workload: reservation, admission and, by the eviction reason, requeueing.
    ReleaseQuota(WorkloadId),
    /// Patches the job, with the resourceVersion that was read.
    PatchJob(JobPatch),
    Note(JobEventObject, EventType, &'static str, String),
}

/// Returns the actions that move a job towards what its Workload says. Empty means converged.
#[must_use]
pub fn reconcile(snapshot: &QueuedJobSnapshot<'_>) -> Vec<JobReconcilerAction> {
    // Garbage collection deletes the Workloads; only our finalizer would block it.
    if snapshot.job.is_deleting() {
        return snapshot.workloads.iter().flat_map(drop_finalizer).collect();
    }
    if !snapshot.is_selected {
        return Vec::new();
    }
    match &snapshot.ancestry {
        JobAncestry::Managed { is_admitted, .. } => return matching::suspend_child(snapshot, *is_admitted),
        JobAncestry::Unknown(OwnerChainError::TooDeep) => {
            return vec![warning_event(reasons::NESTING_TOO_DEEP, OwnerChainError::TooDeep.to_string())];
        }
        // The owner may not be observed yet: its watch event reconciles the job.
        JobAncestry::Unknown(
            OwnerChainError::NotFound(_) | OwnerChainError::Unreadable(_) | OwnerChainError::Cyclic,
        ) => return Vec::new(),
        JobAncestry::Unmanaged => {}
    }
    if queue_of(snapshot.job.object()).is_empty() && !snapshot.settings.without_queue {
        return Vec::new();
    }
    match matching::own_workload(snapshot) {
        matching::WorkloadMatch::Act(steps) => steps,
        matching::WorkloadMatch::Missing => run::without_workload(snapshot),
        matching::WorkloadMatch::Found(workload) => with_workload(snapshot, workload),
    }
}

/// Reconciles a job with its matching Workload.
fn with_workload(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Vec<JobReconcilerAction> {
    let facts = &workload.facts;
    if facts.is_finished() {
        return run::reconcile_finished(snapshot, workload);
    }
    if facts.deleting {
        return run::reconcile_deleted_workload(snapshot, workload);
    }
    if let Some(end) = snapshot.job.outcome() {
        return progress::finish(snapshot, workload, &end);
    }
    let mut steps = progress::sync_workload(snapshot, workload);
    if steps.is_empty() {
        steps = run::run_or_stop(snapshot, workload);
    }
    // Events that accompany any outcome of the reconciliation.
    steps.extend(progress::missing_priority_class_event(snapshot, workload));
    steps.extend(snapshot.job.pod_sets().err().map(matching::cannot_tell));
    steps
}

/// The label `queue-name`; empty for none.
#[must_use]
pub fn queue_of(object: &Tree) -> Text {
    meta::label(object, labels::QUEUE).map(Text::from).unwrap_or_default()
}

/// The prebuilt Workload an object names, by label or annotation.
#[must_use]
pub fn prebuilt_of(object: &Tree) -> Option<Text> {
    let name = meta::label(object, labels::PREBUILT_WORKLOAD)
        .or_else(|| meta::annotation(object, labels::PREBUILT_WORKLOAD))?;
    (!name.is_empty()).then(|| Text::from(name))
}

fn drop_finalizer(workload: &WorkloadView<'_>) -> Vec<JobReconcilerAction> {
    let has = workload.facts.has_finalizer(finalizers::IN_USE);
    if has { vec![JobReconcilerAction::RemoveFinalizer(workload.reference())] } else { Vec::new() }
}

fn normal_event(reason: &'static str, message: impl Into<String>) -> JobReconcilerAction {
    JobReconcilerAction::Note(JobEventObject::Job, EventType::Normal, reason, message.into())
}

fn warning_event(reason: &'static str, message: impl Into<String>) -> JobReconcilerAction {
    JobReconcilerAction::Note(JobEventObject::Job, EventType::Warning, reason, message.into())
}
