//! What the engine decides, and why: reasons and texts as the conditions of a Workload carry them.

use muster_api::time::Time;
use muster_tree::Text;

use super::assign::Assignment;
use super::look::Obstacle;
use super::preempt::Because;
use super::workload::{Amounts, Key, SetAssignment};

/// Why a workload has no quota: the reason of `QuotaReserved=False`, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// `spec.active` is false.
    Deactivated,
    /// Its queue is missing, its namespace is not taken, or its resources are wrong.
    Misconfigured,
    /// Its queue takes nothing.
    Suspended,
    /// Someone holds it back by annotation.
    AdmissionGated,
    /// No flavor suits it.
    NoMatchingFlavor,
    /// It asks for more than there is.
    ExceedsMaxQuota,
    /// Others have what it needs.
    WaitingForQuota,
    /// Victims were told to go and are not gone.
    WaitingForPreemptedWorkloads,
    /// Something admitted is not ready yet.
    WaitingForPodsReady,
    /// It was not looked at yet.
    PendingEvaluation,
    /// It is to be queued later.
    OnHold,
}

impl Reason {
    /// The word of the condition.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Reason::Deactivated => "Deactivated",
            Reason::Misconfigured => "Misconfigured",
            Reason::Suspended => "Suspended",
            Reason::AdmissionGated => "AdmissionGated",
            Reason::NoMatchingFlavor => "NoMatchingFlavor",
            Reason::ExceedsMaxQuota => "ExceedsMaxQuota",
            Reason::WaitingForQuota => "WaitingForQuota",
            Reason::WaitingForPreemptedWorkloads => "WaitingForPreemptedWorkloads",
            Reason::WaitingForPodsReady => "WaitingForPodsReady",
            Reason::PendingEvaluation => "PendingEvaluation",
            Reason::OnHold => "OnHold",
        }
    }

    /// The word that older clients know.
    #[must_use]
    pub fn older_word(self) -> &'static str {
        match self {
            Reason::Misconfigured | Reason::Suspended => "Inadmissible",
            Reason::WaitingForPodsReady => "Waiting",
            Reason::Deactivated
            | Reason::AdmissionGated
            | Reason::NoMatchingFlavor
            | Reason::ExceedsMaxQuota
            | Reason::WaitingForQuota
            | Reason::WaitingForPreemptedWorkloads
            | Reason::PendingEvaluation
            | Reason::OnHold => "Pending",
        }
    }
}

impl From<Obstacle> for Reason {
    fn from(obstacle: Obstacle) -> Reason {
        match obstacle {
            Obstacle::NoMatchingFlavor => Reason::NoMatchingFlavor,
            Obstacle::ExceedsMaxQuota => Reason::ExceedsMaxQuota,
            Obstacle::WaitingForQuota => Reason::WaitingForQuota,
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Set quota aside. The engine counts it as taken already; see [`super::Engine::settle`].
    Admit(Admission),
    /// Stop the victims; the workload waits for them.
    Preempt {
        /// Why the workload itself does not run yet.
        refusal: Refusal,
        /// Whom to tell now; those that were told before are not named again.
        victims: Vec<Victim>,
    },
    /// Tell why it waits.
    Refuse(Refusal),
}

/// Quota for a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Who.
    pub key: Key,
    /// In which queue.
    pub queue: Text,
    /// What each set gets.
    pub sets: Vec<SetAssignment>,
    /// From how high up it borrows; 0 if it does not.
    pub height: usize,
    /// Since when it waited.
    pub queued_since: Time,
    /// The message of `QuotaReserved`.
    pub message: String,
}

/// Why a workload waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Who.
    pub key: Key,
    /// Reason of `QuotaReserved=False`.
    pub reason: Reason,
    /// Its message.
    pub message: String,
    /// What each set asks for, for `status.resourceRequests`.
    pub requests: Vec<(Text, Amounts)>,
}

/// Someone who has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Who.
    pub key: Key,
    /// Its UID, for the guard of the write.
    pub uid: Text,
    /// Why it was chosen.
    pub because: Because,
    /// The message of `Evicted` and `Preempted`.
    pub message: String,
    /// What the event adds to it.
    pub event_suffix: String,
}

/// The last look at a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// When.
    pub at: Time,
    /// Why it has no quota.
    pub reason: Reason,
    /// In words.
    pub message: String,
    /// All that was looked at.
    pub assignment: Assignment,
}

/// What is said to those who share the fate of another.
pub const BYPASSED: &str = "Bypassed scheduling evaluation because an equivalent workload recently failed";
/// Another took the room in the same cycle.
pub const NO_LONGER_FITS: &str = "Workload no longer fits after processing another workload";
/// Another has the same victims.
pub const OVERLAPPING: &str = "Workload has overlapping preemption targets with another workload";
/// Another has the same victims, and their going makes room for both.
pub const OVERLAPPING_FITS: &str = "Workload has overlapping preemption targets with another workload, but will fit \
                                    after these preemptions complete";
/// Something admitted is not ready.
pub const NOT_ALL_READY: &str = "waiting for all admitted workloads to be in PodsReady condition";
/// A check said Retry or Rejected.
pub const CHECKS_FAILED: &str = "The workload has failed admission checks";
/// Its namespace is not taken.
pub const NAMESPACE_MISMATCH: &str = "workload namespace doesn't match ClusterQueue selector";
/// Nobody looked at it yet.
pub const PENDING_EVALUATION: &str = "Workload is pending evaluation in the scheduling queue";
