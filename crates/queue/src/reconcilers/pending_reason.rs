//! The reasons and messages of `QuotaReserved=False`, most severe first.
//!
//! # Guarantees
//!
//! - A pending status written by the engine stays until the engine evaluates again. A condition found by the
//!   reconciler (missing or stopped queue, admission gate) replaces it, and is cleared when it no longer holds.

use muster_api::queue::consts::{messages, reasons};
use muster_tree::Text;

use super::settings::ReasonFormat;

/// Why a Workload is pending, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PendingReason {
    Deactivated,
    /// A referenced object is missing or does not match.
    Misconfigured,
    /// The LocalQueue or ClusterQueue is inactive.
    Suspended,
    AdmissionGated,
    /// No flavor suits it.
    NoMatchingFlavor,
    /// The request exceeds what the ClusterQueue could ever use.
    ExceedsMaxQuota,
    /// The request could fit, and other Workloads use the quota.
    WaitingForQuota,
    /// No topology domain fits the Workload.
    TopologyPlacementFailed,
    /// Victims were evicted and have not released their quota.
    WaitingForPreempted,
    WaitingForPodsReady,
    /// Not evaluated by the engine yet.
    PendingEvaluation,
    /// The job is on hold.
    OnHold,
}

impl PendingReason {
    pub const ALL: [PendingReason; 12] = [
        PendingReason::Deactivated,
        PendingReason::Misconfigured,
        PendingReason::Suspended,
        PendingReason::AdmissionGated,
        PendingReason::NoMatchingFlavor,
        PendingReason::ExceedsMaxQuota,
        PendingReason::WaitingForQuota,
        PendingReason::TopologyPlacementFailed,
        PendingReason::WaitingForPreempted,
        PendingReason::WaitingForPodsReady,
        PendingReason::PendingEvaluation,
        PendingReason::OnHold,
    ];

    #[must_use]
    pub fn condition_reason(self, wording: ReasonFormat) -> &'static str {
        match wording {
            ReasonFormat::Detailed => self.detailed(),
            ReasonFormat::Legacy => self.legacy(),
        }
    }

    fn detailed(self) -> &'static str {
        match self {
            PendingReason::Deactivated => reasons::DEACTIVATED,
            PendingReason::Misconfigured => reasons::MISCONFIGURED,
            PendingReason::Suspended => reasons::SUSPENDED,
            PendingReason::AdmissionGated => reasons::ADMISSION_GATED,
            PendingReason::NoMatchingFlavor => reasons::NO_MATCHING_FLAVOR,
            PendingReason::ExceedsMaxQuota => reasons::EXCEEDS_MAX_QUOTA,
            PendingReason::WaitingForQuota => reasons::WAITING_FOR_QUOTA,
            PendingReason::TopologyPlacementFailed => reasons::TOPOLOGY_PLACEMENT_FAILED,
            PendingReason::WaitingForPreempted => reasons::WAITING_FOR_PREEMPTED,
            PendingReason::WaitingForPodsReady => reasons::WAITING_FOR_PODS_READY,
            PendingReason::PendingEvaluation => reasons::PENDING_EVALUATION,
            PendingReason::OnHold => reasons::ON_HOLD,
        }
    }

    fn legacy(self) -> &'static str {
        match self {
            PendingReason::Misconfigured | PendingReason::Suspended | PendingReason::AdmissionGated => {
                reasons::INADMISSIBLE
            }
            PendingReason::WaitingForPodsReady => reasons::WAITING,
            // The pods and jobs reconcilers read this reason to see that a Workload is on hold.
            PendingReason::OnHold => reasons::ON_HOLD,
            PendingReason::Deactivated
            | PendingReason::NoMatchingFlavor
            | PendingReason::ExceedsMaxQuota
            | PendingReason::WaitingForQuota
            | PendingReason::TopologyPlacementFailed
            | PendingReason::WaitingForPreempted
            | PendingReason::PendingEvaluation => reasons::PENDING,
        }
    }

    /// Parses a detailed reason. Legacy reasons are ambiguous and return None.
    #[must_use]
    pub fn from_condition_reason(reason: &str) -> Option<PendingReason> {
        PendingReason::ALL.into_iter().find(|it| it.detailed() == reason)
    }
}

/// A pending reason with its message.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PendingCondition {
    pub reason: PendingReason,
    pub message: String,
}

impl PendingCondition {
    fn new(why: PendingReason, message: impl Into<String>) -> PendingCondition {
        PendingCondition { reason: why, message: message.into() }
    }

    /// `spec.active` is false; the message names the cause.
    #[must_use]
    pub fn deactivated(message: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Deactivated, message)
    }

    /// The engine has not evaluated the Workload yet.
    #[must_use]
    pub fn pending_evaluation() -> PendingCondition {
        PendingCondition::new(PendingReason::PendingEvaluation, messages::PENDING_EVALUATION)
    }

    #[must_use]
    pub fn local_queue_missing(name: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Misconfigured, format!("LocalQueue {name} doesn't exist"))
    }

    #[must_use]
    pub fn cluster_queue_missing(name: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Misconfigured, format!("ClusterQueue {name} doesn't exist"))
    }

    #[must_use]
    pub fn local_queue_inactive(name: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Suspended, format!("LocalQueue {name} is inactive"))
    }

    #[must_use]
    pub fn cluster_queue_inactive(name: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Suspended, format!("ClusterQueue {name} is inactive"))
    }

    /// The LocalQueue was stopped while admission checks were pending.
    #[must_use]
    pub fn local_queue_stopped(name: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Suspended, format!("LocalQueue {name} is stopped"))
    }

    /// The ClusterQueue was stopped while admission checks were pending.
    #[must_use]
    pub fn cluster_queue_stopped(name: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::Suspended, format!("ClusterQueue {name} is stopped"))
    }

    /// The LocalQueue was deleted while admission checks were pending.
    #[must_use]
    pub fn local_queue_terminating(name: &str) -> PendingCondition {
        PendingCondition::new(
            PendingReason::Misconfigured,
            format!("LocalQueue {name} is terminating or missing"),
        )
    }

    /// The ClusterQueue was deleted while admission checks were pending.
    #[must_use]
    pub fn cluster_queue_terminating(name: &str) -> PendingCondition {
        PendingCondition::new(
            PendingReason::Misconfigured,
            format!("ClusterQueue {name} is terminating or missing"),
        )
    }

    #[must_use]
    pub fn admission_gated(by: &[Text]) -> PendingCondition {
        PendingCondition::new(
            PendingReason::AdmissionGated,
            format!("Admission is gated by: {}", by.join(", ")),
        )
    }

    /// The job is on hold.
    #[must_use]
    pub fn on_hold(message: &str) -> PendingCondition {
        PendingCondition::new(PendingReason::OnHold, message)
    }

    /// Whether this message was written by the reconciler and not by the engine: only such a condition is cleared
    /// by the reconciler.
    #[must_use]
    pub fn is_set_by_reconciler(message: &str) -> bool {
        let of_queue = message.starts_with("LocalQueue ") || message.starts_with("ClusterQueue ");
        let state = [" doesn't exist", " is inactive", " is stopped", " is terminating or missing"];
        // By message, since legacy reasons do not distinguish the writers.
        (of_queue && state.iter().any(|it| message.ends_with(it)))
            || message.starts_with("Admission is gated by: ")
            || message.starts_with(messages::DEACTIVATED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_in_both_formats_by_severity() {
        let want = [
            ("Deactivated", "Pending"),
            ("Misconfigured", "Inadmissible"),
            ("Suspended", "Inadmissible"),
            ("AdmissionGated", "Inadmissible"),
            ("NoMatchingFlavor", "Pending"),
            ("ExceedsMaxQuota", "Pending"),
            ("WaitingForQuota", "Pending"),
            ("TopologyPlacementFailed", "Pending"),
            ("WaitingForPreemptedWorkloads", "Pending"),
            ("WaitingForPodsReady", "Waiting"),
            ("PendingEvaluation", "Pending"),
            ("OnHold", "OnHold"),
        ];
        let got = PendingReason::ALL.map(|it| {
            (it.condition_reason(ReasonFormat::Detailed), it.condition_reason(ReasonFormat::Legacy))
        });
        assert_eq!(got, want);
        assert!(PendingReason::ALL.is_sorted());
        assert!(
            PendingReason::ALL
                .into_iter()
                .all(|it| PendingReason::from_condition_reason(it.condition_reason(ReasonFormat::Detailed))
                    == Some(it))
        );
        assert_eq!(PendingReason::from_condition_reason("Pending"), None);
    }

    #[test]
    fn messages_identify_their_writer() {
        let ours = [
            (
                PendingCondition::deactivated("The workload is deactivated due to x"),
                "The workload is deactivated due to x",
            ),
            (PendingCondition::local_queue_missing("q"), "LocalQueue q doesn't exist"),
            (PendingCondition::cluster_queue_missing("q"), "ClusterQueue q doesn't exist"),
            (PendingCondition::local_queue_inactive("q"), "LocalQueue q is inactive"),
            (PendingCondition::cluster_queue_inactive("q"), "ClusterQueue q is inactive"),
            (PendingCondition::local_queue_stopped("q"), "LocalQueue q is stopped"),
            (PendingCondition::cluster_queue_stopped("q"), "ClusterQueue q is stopped"),
            (PendingCondition::local_queue_terminating("q"), "LocalQueue q is terminating or missing"),
            (PendingCondition::cluster_queue_terminating("q"), "ClusterQueue q is terminating or missing"),
            (PendingCondition::admission_gated(&["a".into(), "b".into()]), "Admission is gated by: a, b"),
        ];
        for (blocker, want) in ours {
            assert_eq!(blocker.message, want);
            assert!(PendingCondition::is_set_by_reconciler(want), "{want}");
        }
        for engine in [
            "couldn't assign flavors to pod set main: insufficient quota",
            "workload namespace doesn't match ClusterQueue selector",
            "Workload is pending evaluation in the scheduling queue",
            "ClusterQueue q not found",
        ] {
            assert!(!PendingCondition::is_set_by_reconciler(engine), "{engine}");
        }
    }
}
