//! The pod reconciler: a single pod or a pod group.
//!
//! # Guarantees
//!
//! - [`reconcile`] is pure: the same snapshot gives the same actions in the same order.
//! - Every action is idempotent and a crash between any two loses nothing: a finished state is written to the
//!   Workload before pod finalizers are removed, and a delete names the UID of the pod that was observed.
//! - A write to the Workload is the last one to it in a reconciliation: it changes the resourceVersion all others
//!   rely on.
//! - Never more pods of a pod set are ungated and alive than were admitted, whatever was not observed yet.
//! - Foreign objects are not modified: neither a Workload that no group created, nor a pod with a queued owner.
//!
//! # Deliberately absent
//!
//! Quota. Whether a pod may run is read from its Workload.

mod finish;
mod group;
mod role_matching;
mod single;
mod status;
mod stop;
mod ungate;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use muster_api::client::{ApiObject, Revision, Uid};
use muster_api::event::EventType;
use muster_api::meta;
use muster_api::queue::{FlavorFacts, WorkloadFacts};
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::expectations::{CleanupExpectations, PodGroupKey, UngateExpectations};
use super::queued_pod::{PodAncestry, PodReference, QueuedPod};
use crate::jobs::naming::NameLimit;
use crate::jobs::priority::PriorityClassLister;
use crate::jobs::requests::PodEnvironment;

/// Requeue interval while waiting for the cache to catch up.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Requeue interval while a referenced object is missing.
const MISSING_OBJECT_RECHECK_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodReconcileKey {
    /// A pod without a group.
    Pod {
        namespace: Text,
        name: Text,
    },
    Group {
        namespace: Text,
        name: Text,
    },
}

impl PodReconcileKey {
    #[must_use]
    pub fn of_pod(pod: &Tree) -> PodReconcileKey {
        let namespace = muster_api::meta::namespace(pod);
        match super::group_metadata::group_name(pod) {
            Some((name, _)) => PodReconcileKey::Group { namespace, name },
            None => PodReconcileKey::Pod { namespace, name: muster_api::meta::name(pod) },
        }
    }

    /// The keys that a Workload event reconciles. `gone`: the Workload was deleted, which may unblock a group of
    /// its name.
    #[must_use]
    pub fn of_workload(workload: &WorkloadFacts, gone: bool) -> Vec<PodReconcileKey> {
        let namespace = workload.namespace.clone();
        let group = || PodReconcileKey::Group { namespace: namespace.clone(), name: workload.name.clone() };
        // A group's Workload has the group's name; other Workloads are found by their controller.
        if finish::is_of_group(workload) {
            return vec![group()];
        }
        let pod = workload.controller().filter(|owner| owner.kind == "Pod" && owner.group().is_empty());
        let pod =
            pod.map(|owner| PodReconcileKey::Pod { namespace: namespace.clone(), name: owner.name.clone() });
        pod.into_iter().chain(gone.then(group)).collect()
    }

    #[must_use]
    pub fn names(&self) -> (&Text, &Text) {
        match self {
            PodReconcileKey::Pod { namespace, name } | PodReconcileKey::Group { namespace, name } => {
                (namespace, name)
            }
        }
    }

    fn group(&self) -> PodGroupKey {
        let (namespace, name) = self.names();
        (namespace.clone(), name.clone())
    }
}

/// A Workload with UID and resourceVersion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WorkloadRef {
    pub name: Text,
    pub uid: Uid,
    /// The resourceVersion the decision is based on.
    pub revision: Revision,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ObservedWorkload {
    pub facts: WorkloadFacts,
    /// Its `deletionTimestamp`, if it is being deleted.
    pub deleted_at: Option<Time>,
    pub revision: Revision,
}

impl ObservedWorkload {
    #[must_use]
    pub fn of(workload: &ApiObject) -> ObservedWorkload {
        let ApiObject { tree, revision } = workload;
        ObservedWorkload {
            facts: WorkloadFacts::of(tree),
            deleted_at: meta::deletion_timestamp(tree),
            revision: *revision,
        }
    }

    #[must_use]
    pub fn reference(&self) -> WorkloadRef {
        WorkloadRef { name: self.facts.name.clone(), uid: self.facts.uid.clone(), revision: self.revision }
    }

    /// Whether the pod is among its owner references.
    fn is_owned_by(&self, pod: &QueuedPod) -> bool {
        self.facts.owners.iter().any(|owner| owner.uid == pod.reference.uid)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodReconcilerSettings {
    /// Length limit of Workload names.
    pub room: NameLimit,
    /// Labels copied to Workloads.
    pub label_keys: Vec<Text>,
    /// Whether `PodsReady` is written (`waitForPodsReady`).
    pub reports_pods_ready: bool,
    /// The pod integration is off and another integration needs it: only pods with its annotation are reconciled.
    pub only_suspended_by_parent: bool,
}

/// Everything a reconciliation reads, taken at one instant.
pub struct PodSnapshot<'a> {
    pub key: &'a PodReconcileKey,
    /// The pods of the key, including unmanaged ones.
    pub pods: &'a [QueuedPod],
    /// For a pod: the Workloads it controls and its prebuilt one. For a group: the Workload with its name.
    pub workloads: &'a [ObservedWorkload],
    pub flavor: &'a dyn Fn(&str) -> Option<FlavorFacts>,
    /// Ungates that were not observed yet.
    pub ungates: &'a UngateExpectations,
    /// Finalizer removals and deletions that were not observed yet.
    pub cleanups: &'a CleanupExpectations,
    pub classes: &'a dyn PriorityClassLister,
    /// LimitRanges and RuntimeClasses that apply to the pods.
    pub environment: &'a PodEnvironment<'a>,
    /// When the pods of a system-deactivated Workload are deleted by retention.
    pub delete_deactivated_at: Option<Time>,
    pub settings: &'a PodReconcilerSettings,
    /// The time of the snapshot.
    pub now: Time,
}

/// The ungating of a pod, in one write.
#[derive(Debug, Clone, PartialEq)]
pub struct PodUngate {
    /// The pod; the patch has its resourceVersion as precondition.
    pub pod: PodReference,
    pub workload: Uid,
    pub set: Text,
    /// Merge patch that removes the gate and applies the PodSetInfo.
    pub patch: Tree,
    /// Message of event `Started`.
    pub message: String,
}

/// Whether an evicted Workload may be requeued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodRequeueability {
    /// Its pods are still gated, or replacement pods can be created.
    Possible,
    /// Its only pod was deleted.
    Never,
}

/// The object of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodEventObject {
    Pod(PodReference),
    Workload(WorkloadRef),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    pub object: PodEventObject,
    pub severity: EventType,
    pub reason: &'static str,
    pub message: String,
}

/// Why a reconciliation stops without reaching the desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitReason {
    /// The key is that of a single pod, and the pod belongs to a group.
    WrongKey,
    /// Pod cleanups are not observed yet.
    UnobservedCleanups,
    /// Ungates are not observed yet.
    UnobservedUngates,
    /// Pods still use quota.
    StillActive,
    /// No Workload can be composed from the pods.
    Compose(String),
    PriorityClass(Text),
    /// A ResourceFlavor of the admission is missing.
    Flavor(Text),
    /// `Admitted` is True and `status.admission` is missing.
    NotAdmitted,
    /// The prebuilt Workload does not exist.
    Prebuilt(Text),
    /// A foreign Workload has the name.
    NameConflict(Text),
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitReason::WrongKey => {
                f.write_str("event handler error: got a single pod reconcile request for a pod group")
            }
            WaitReason::UnobservedCleanups => f.write_str("waiting to observe previous operations on pods"),
            WaitReason::UnobservedUngates => f.write_str("waiting to observe pods whose gate was removed"),
            WaitReason::StillActive => f.write_str("pods are still active"),
            WaitReason::Compose(why) => f.write_str(why),
            WaitReason::PriorityClass(name) => write!(f, "priority class {name} not found"),
            WaitReason::NotAdmitted => f.write_str("the workload has no admission"),
            WaitReason::Flavor(name) => write!(f, "flavor {name} not found"),
            WaitReason::Prebuilt(name) => write!(f, "prebuilt workload {name} not found"),
            WaitReason::NameConflict(name) => write!(f, "workload {name} is not of this group"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum PodAction {
    /// Creates the Workload and emits an event about the pod.
    CreateWorkload(Tree, PodEvent),
    /// Replaces the spec of a Workload, with its resourceVersion.
    UpdateWorkloadSpec(WorkloadRef, Tree),
    /// Removes the finalizer of a Workload and deletes it.
    DeleteWorkload(WorkloadRef),
    RemoveWorkloadFinalizer(WorkloadRef),
    /// Adds owner references, with the Workload's resourceVersion.
    AddOwnerReferences(WorkloadRef, Vec<Tree>),
    /// Sets `spec.queueName`, with the Workload's resourceVersion.
    ChangeQueue(WorkloadRef, Text),
    /// Sets the priority, with the Workload's resourceVersion.
    ChangePriority(WorkloadRef, crate::jobs::priority::ResolvedPriority),
    Finish {
        workload: WorkloadRef,
        /// Reason of the condition.
        reason: &'static str,
        /// Message of the condition.
        message: String,
    },
    SetWaitingForReplacementPods {
        workload: WorkloadRef,
        holds: bool,
        /// Reason of the condition.
        reason: Text,
        /// Message of the condition.
        message: Text,
    },
    /// Sets `status.reclaimablePods`, by pod set.
    SetReclaimablePods(WorkloadRef, Vec<(Text, u32)>),
    SetPodsReady(WorkloadRef, bool),
    /// Releases the quota of an evicted Workload.
    ReleaseQuota(WorkloadRef, PodRequeueability),
    /// Ungates pods, with an event for each.
    Ungate(Vec<PodUngate>),
    RemoveFinalizer(Vec<PodReference>),
    /// Removes the finalizer of excess pods and deletes them, with an event for each.
    DeleteExcess(Vec<PodReference>),
    /// Removes the finalizer and deletes pods after their retention.
    DeletePods(Vec<PodReference>),
    /// Sets condition `TerminationTarget`, deletes the pods, and emits an event for each.
    Stop {
        pods: Vec<PodReference>,
        /// Reason of the condition.
        reason: String,
        /// Message of the condition and the event.
        message: String,
    },
    Note(PodEvent),
    /// Emits an event unless the last one about the same object is equal.
    NoteOnce(PodEvent),
    RequeueAt(Time),
    /// Waits without reaching the desired state.
    Wait(WaitReason),
}

/// Returns the actions for the pods of a key. Empty means converged.
#[must_use]
pub fn reconcile(seen: &PodSnapshot<'_>) -> Vec<PodAction> {
    let mut pass = PodReconciliation { seen, steps: Vec::new() };
    let ours = pass.managed_pods();
    match seen.key {
        PodReconcileKey::Pod { .. } => single::run(&mut pass, &ours),
        PodReconcileKey::Group { name, .. } => group::run(&mut pass, name, &ours),
    }
    pass.steps
}

struct PodReconciliation<'a> {
    seen: &'a PodSnapshot<'a>,
    steps: Vec<PodAction>,
}

impl<'a> PodReconciliation<'a> {
    fn add(&mut self, step: PodAction) {
        self.steps.push(step);
    }

    fn wait(&mut self, why: WaitReason) {
        self.add(PodAction::Wait(why));
    }

    fn requeue_at(&mut self, at: Time) {
        self.add(PodAction::RequeueAt(at.max(self.seen.now)));
    }

    fn emit_event(
        &mut self,
        pod: &QueuedPod,
        severity: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let topic = PodEventObject::Pod(pod.reference.clone());
        self.add(PodAction::Note(PodEvent { object: topic, severity, reason, message: message.into() }));
    }

    fn warn_once(&mut self, pod: &QueuedPod, reason: &'static str, message: impl Into<String>) {
        let topic = PodEventObject::Pod(pod.reference.clone());
        let note = PodEvent { object: topic, severity: EventType::Warning, reason, message: message.into() };
        self.add(PodAction::NoteOnce(note));
    }

    fn remove_finalizers<'p>(&mut self, pods: impl IntoIterator<Item = &'p QueuedPod>) {
        let all: Vec<PodReference> =
            pods.into_iter().filter(|pod| pod.finalizer).map(|pod| pod.reference.clone()).collect();
        if !all.is_empty() {
            self.add(PodAction::RemoveFinalizer(all));
        }
    }

    fn full_name(&self, workload: &str) -> String {
        format!("{}/{workload}", self.seen.key.names().0)
    }

    /// The managed pods of the key, oldest first. Pods with a managed ancestor are excluded, unless they own a
    /// Workload already: a pod that is adopted later keeps its quota. An excluded pod that carries our finalizer
    /// must not be stuck with it, so the finalizer is removed once the pod ends.
    fn managed_pods(&mut self) -> Vec<&'a QueuedPod> {
        let seen = self.seen;
        let owners = seen.workloads.iter().flat_map(|it| &it.facts.owners);
        let known: BTreeSet<&Text> = owners.map(|owner| &owner.uid).collect();
        let (foreign, mut ours): (Vec<&QueuedPod>, Vec<&QueuedPod>) = seen
            .pods
            .iter()
            // A pod that owns a Workload keeps it: its quota is accounted for already.
            .partition(|pod| {
                pod.ancestry == PodAncestry::Managed
                    && !pod.suspended_by_parent
                    && !known.contains(&pod.reference.uid)
            });
        self.remove_finalizers(foreign.into_iter().filter(|pod| pod.terminated() || pod.deleting.is_some()));
        ours.retain(|pod| {
            pod.suspended_by_parent || (pod.managed && !seen.settings.only_suspended_by_parent)
        });
        // The oldest pod decides on contradictions; ties by name make the result deterministic.
        ours.sort_by(|a, b| (a.created, &a.reference.name).cmp(&(b.created, &b.reference.name)));
        ours
    }

    /// Requeues when the grace period of the first terminating pod ends.
    fn requeue_when_grace_period_ends(&mut self, pods: &[&QueuedPod]) {
        let now = self.seen.now;
        let over = pods
            .iter()
            .filter(|pod| pod.holds_quota(now))
            .filter_map(|pod| Some(pod.deleting?.grace_period_ends_at()));
        if let Some(at) = over.min() {
            self.requeue_at(at);
        }
    }
}

/// Whether any of these pods uses quota.
fn any_holds_quota(pods: &[&QueuedPod], now: Time) -> bool {
    pods.iter().any(|pod| pod.holds_quota(now))
}

struct WorkloadToCreate<'p> {
    name: Text,
    queue: Text,
    sets: Vec<muster_api::queue::PodSet>,
    pods: Vec<&'p QueuedPod>,
}
