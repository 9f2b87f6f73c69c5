//! The engine's decisions, and the reasons and messages that the conditions of a Workload carry.

use muster_api::time::Time;
use muster_tree::Text;

use super::assignment_trace::NoFitReason;
use super::flavor_assigner::WorkloadAssignment;
use super::preempt::PreemptionReason;
use super::workload::{NamespacedName, PodSetResources, Requests};

/// The reason of `QuotaReserved=False`, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequeueReason {
    Deactivated,
    /// The LocalQueue or ClusterQueue is missing, the namespace does not match, or the resources are invalid.
    Misconfigured,
    /// The LocalQueue or ClusterQueue is inactive.
    Suspended,
    /// Annotation `admission-gated-by` is set.
    AdmissionGated,
    /// No flavor suits it.
    NoMatchingFlavor,
    /// The request exceeds what the ClusterQueue could ever use.
    ExceedsMaxQuota,
    /// The request could fit, and other Workloads use the quota.
    WaitingForQuota,
    /// Victims were evicted and have not released their quota.
    WaitingForPreemptedWorkloads,
    /// An admitted Workload is not ready and `blockAdmission` is on.
    WaitingForPodsReady,
    PendingEvaluation,
    /// In requeue backoff, or `Requeued` is False.
    OnHold,
}

impl RequeueReason {
    /// The reason in condition `QuotaReserved`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RequeueReason::Deactivated => "Deactivated",
            RequeueReason::Misconfigured => "Misconfigured",
            RequeueReason::Suspended => "Suspended",
            RequeueReason::AdmissionGated => "AdmissionGated",
            RequeueReason::NoMatchingFlavor => "NoMatchingFlavor",
            RequeueReason::ExceedsMaxQuota => "ExceedsMaxQuota",
            RequeueReason::WaitingForQuota => "WaitingForQuota",
            RequeueReason::WaitingForPreemptedWorkloads => "WaitingForPreemptedWorkloads",
            RequeueReason::WaitingForPodsReady => "WaitingForPodsReady",
            RequeueReason::PendingEvaluation => "PendingEvaluation",
            RequeueReason::OnHold => "OnHold",
        }
    }

    /// The reason in the wording of Kueue's older releases.
    #[must_use]
    pub fn as_legacy_str(self) -> &'static str {
        match self {
            RequeueReason::Misconfigured | RequeueReason::Suspended => "Inadmissible",
            RequeueReason::WaitingForPodsReady => "Waiting",
            RequeueReason::Deactivated
            | RequeueReason::AdmissionGated
            | RequeueReason::NoMatchingFlavor
            | RequeueReason::ExceedsMaxQuota
            | RequeueReason::WaitingForQuota
            | RequeueReason::WaitingForPreemptedWorkloads
            | RequeueReason::PendingEvaluation
            | RequeueReason::OnHold => "Pending",
        }
    }
}

impl From<NoFitReason> for RequeueReason {
    fn from(obstacle: NoFitReason) -> RequeueReason {
        match obstacle {
            NoFitReason::NoMatchingFlavor => RequeueReason::NoMatchingFlavor,
            NoFitReason::ExceedsMaxQuota => RequeueReason::ExceedsMaxQuota,
            NoFitReason::WaitingForQuota => RequeueReason::WaitingForQuota,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Reserve quota. The engine assumes the reservation until [`super::Engine::record_write_outcome`].
    Admit(AdmitDecision),
    /// Evict the victims; the preemptor stays pending until they have released their quota.
    Preempt {
        /// The pending status of the preemptor.
        pending: PendingStatus,
        /// Victims to evict now. Victims with an open preemption expectation are left out.
        victims: Vec<PreemptionVictim>,
    },
    /// Write `QuotaReserved=False` with this status; the Workload stays in its queue.
    Requeue(PendingStatus),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmitDecision {
    pub key: NamespacedName,
    pub queue: Text,
    /// The flavors and usage of each pod set.
    pub sets: Vec<PodSetResources>,
    /// The height of the cohort from which it borrows; 0 without borrowing.
    pub borrowing_height: usize,
    /// The queue-order timestamp, for wait-time metrics.
    pub queued_since: Time,
    /// The message of `QuotaReserved`.
    pub message: String,
}

/// The pending status of a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingStatus {
    pub key: NamespacedName,
    pub reason: RequeueReason,
    pub message: String,
    /// Requests of each pod set, for `status.resourceRequests`.
    pub requests: Vec<(Text, Requests)>,
}

/// A Workload to evict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionVictim {
    pub key: NamespacedName,
    /// Precondition of the eviction.
    pub uid: Text,
    /// Reason of condition `Preempted`.
    pub reason: PreemptionReason,
    /// The message of `Evicted` and `Preempted`.
    pub message: String,
    /// Text that the event appends to the message.
    pub event_suffix: String,
}

/// The last scheduling attempt for a Workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evaluation {
    pub at: Time,
    /// Why it has no quota.
    pub reason: RequeueReason,
    pub message: String,
    /// The full flavor assignment trace.
    pub assignment: WorkloadAssignment,
}

/// Message for Workloads that share the result of an equivalent one.
pub const BYPASSED: &str = "Bypassed scheduling evaluation because an equivalent workload recently failed";
/// Message when a Workload processed earlier in the cycle took the quota.
pub const NO_LONGER_FITS: &str = "Workload no longer fits after processing another workload";
/// Message when another preemptor in the cycle has the same victims.
pub const OVERLAPPING: &str = "Workload has overlapping preemption targets with another workload";
/// Message when the victims of another preemptor also make this Workload fit.
pub const OVERLAPPING_FITS: &str = "Workload has overlapping preemption targets with another workload, but will fit \
                                    after these preemptions complete";
/// An admitted Workload is not ready and `blockAdmission` is on.
pub const NOT_ALL_READY: &str = "waiting for all admitted workloads to be in PodsReady condition";
pub const CHECKS_FAILED: &str = "The workload has failed admission checks";
pub const NAMESPACE_MISMATCH: &str = "workload namespace doesn't match ClusterQueue selector";
pub const PENDING_EVALUATION: &str = "Workload is pending evaluation in the scheduling queue";
