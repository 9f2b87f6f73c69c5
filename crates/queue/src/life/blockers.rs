//! Why a Workload has no quota: the reasons of `QuotaReserved=False`, the most severe first.
//!
//! # Invariants
//!
//! - What the engine said stays until it looks again; what stands in the way of looking at all replaces it, and is
//!   taken back when it is gone.

use muster_api::queue::words::{messages, reasons};
use muster_tree::Text;

use super::settings::Wording;

/// What is in the way; the order is that of severity, the most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Why {
    /// `spec.active` is false.
    Deactivated,
    /// Something it names is not there, or does not suit it.
    Misconfigured,
    /// Its queue takes nothing.
    Suspended,
    /// Others have to let it in.
    AdmissionGated,
    /// No flavor suits it.
    NoMatchingFlavor,
    /// It asks for more than there ever is.
    ExceedsMaxQuota,
    /// Others have what it needs.
    WaitingForQuota,
    /// No place for all of it.
    TopologyPlacementFailed,
    /// Others are leaving for it.
    WaitingForPreempted,
    /// Pods of others are not ready.
    WaitingForPodsReady,
    /// Not looked at yet.
    PendingEvaluation,
    /// Its job is held.
    OnHold,
}

impl Why {
    /// All of them, the most severe first.
    pub const ALL: [Why; 12] = [
        Why::Deactivated,
        Why::Misconfigured,
        Why::Suspended,
        Why::AdmissionGated,
        Why::NoMatchingFlavor,
        Why::ExceedsMaxQuota,
        Why::WaitingForQuota,
        Why::TopologyPlacementFailed,
        Why::WaitingForPreempted,
        Why::WaitingForPodsReady,
        Why::PendingEvaluation,
        Why::OnHold,
    ];

    /// The reason that is written.
    #[must_use]
    pub fn reason(self, wording: Wording) -> &'static str {
        match wording {
            Wording::Telling => self.telling(),
            Wording::Old => self.old(),
        }
    }

    fn telling(self) -> &'static str {
        match self {
            Why::Deactivated => reasons::DEACTIVATED,
            Why::Misconfigured => reasons::MISCONFIGURED,
            Why::Suspended => reasons::SUSPENDED,
            Why::AdmissionGated => reasons::ADMISSION_GATED,
            Why::NoMatchingFlavor => reasons::NO_MATCHING_FLAVOR,
            Why::ExceedsMaxQuota => reasons::EXCEEDS_MAX_QUOTA,
            Why::WaitingForQuota => reasons::WAITING_FOR_QUOTA,
            Why::TopologyPlacementFailed => reasons::TOPOLOGY_PLACEMENT_FAILED,
            Why::WaitingForPreempted => reasons::WAITING_FOR_PREEMPTED,
            Why::WaitingForPodsReady => reasons::WAITING_FOR_PODS_READY,
            Why::PendingEvaluation => reasons::PENDING_EVALUATION,
            Why::OnHold => reasons::ON_HOLD,
        }
    }

    fn old(self) -> &'static str {
        match self {
            Why::Misconfigured | Why::Suspended | Why::AdmissionGated => reasons::INADMISSIBLE,
            Why::WaitingForPodsReady => reasons::WAITING,
            // Whether a Workload may be queued is read off this one.
            Why::OnHold => reasons::ON_HOLD,
            Why::Deactivated
            | Why::NoMatchingFlavor
            | Why::ExceedsMaxQuota
            | Why::WaitingForQuota
            | Why::TopologyPlacementFailed
            | Why::WaitingForPreempted
            | Why::PendingEvaluation => reasons::PENDING,
        }
    }

    /// What a written reason means; none for those of older clients, which mean several things.
    #[must_use]
    pub fn of(reason: &str) -> Option<Why> {
        Why::ALL.into_iter().find(|it| it.telling() == reason)
    }
}

/// Something in the way, and the words for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    /// What it is.
    pub why: Why,
    /// The words.
    pub message: String,
}

impl Blocker {
    fn new(why: Why, message: impl Into<String>) -> Blocker {
        Blocker { why, message: message.into() }
    }

    /// It is not active.
    #[must_use]
    pub fn deactivated(message: &str) -> Blocker {
        Blocker::new(Why::Deactivated, message)
    }

    /// It was not looked at yet.
    #[must_use]
    pub fn not_evaluated() -> Blocker {
        Blocker::new(Why::PendingEvaluation, messages::PENDING_EVALUATION)
    }

    /// Its LocalQueue is not there.
    #[must_use]
    pub fn no_local_queue(name: &str) -> Blocker {
        Blocker::new(Why::Misconfigured, format!("LocalQueue {name} doesn't exist"))
    }

    /// The ClusterQueue of its LocalQueue is not there.
    #[must_use]
    pub fn no_cluster_queue(name: &str) -> Blocker {
        Blocker::new(Why::Misconfigured, format!("ClusterQueue {name} doesn't exist"))
    }

    /// Its LocalQueue takes nothing.
    #[must_use]
    pub fn local_queue_inactive(name: &str) -> Blocker {
        Blocker::new(Why::Suspended, format!("LocalQueue {name} is inactive"))
    }

    /// Its ClusterQueue takes nothing.
    #[must_use]
    pub fn cluster_queue_inactive(name: &str) -> Blocker {
        Blocker::new(Why::Suspended, format!("ClusterQueue {name} is inactive"))
    }

    /// Its LocalQueue was stopped while it waited for checks.
    #[must_use]
    pub fn local_queue_stopped(name: &str) -> Blocker {
        Blocker::new(Why::Suspended, format!("LocalQueue {name} is stopped"))
    }

    /// Its ClusterQueue was stopped while it waited for checks.
    #[must_use]
    pub fn cluster_queue_stopped(name: &str) -> Blocker {
        Blocker::new(Why::Suspended, format!("ClusterQueue {name} is stopped"))
    }

    /// Its LocalQueue went away while it waited for checks.
    #[must_use]
    pub fn local_queue_gone(name: &str) -> Blocker {
        Blocker::new(Why::Misconfigured, format!("LocalQueue {name} is terminating or missing"))
    }

    /// Its ClusterQueue went away while it waited for checks.
    #[must_use]
    pub fn cluster_queue_gone(name: &str) -> Blocker {
        Blocker::new(Why::Misconfigured, format!("ClusterQueue {name} is terminating or missing"))
    }

    /// Others have to let it in.
    #[must_use]
    pub fn gated(by: &[Text]) -> Blocker {
        Blocker::new(Why::AdmissionGated, format!("Admission is gated by: {}", by.join(", ")))
    }

    /// Its job is held.
    #[must_use]
    pub fn on_hold(message: &str) -> Blocker {
        Blocker::new(Why::OnHold, message)
    }

    /// Whether these words were found here and not by the engine, so that they go when what they say is over.
    #[must_use]
    pub fn is_found_here(message: &str) -> bool {
        let of_queue = message.starts_with("LocalQueue ") || message.starts_with("ClusterQueue ");
        let state = [" doesn't exist", " is inactive", " is stopped", " is terminating or missing"];
        (of_queue && state.iter().any(|it| message.ends_with(it)))
            || message.starts_with("Admission is gated by: ")
            || message.starts_with(messages::DEACTIVATED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_in_both_wordings_and_in_order_of_severity() {
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
        let got = Why::ALL.map(|it| (it.reason(Wording::Telling), it.reason(Wording::Old)));
        assert_eq!(got, want);
        assert!(Why::ALL.is_sorted());
        assert!(Why::ALL.into_iter().all(|it| Why::of(it.reason(Wording::Telling)) == Some(it)));
        assert_eq!(Why::of("Pending"), None);
    }

    #[test]
    fn the_words_tell_who_found_it() {
        let ours = [
            (
                Blocker::deactivated("The workload is deactivated due to x"),
                "The workload is deactivated due to x",
            ),
            (Blocker::no_local_queue("q"), "LocalQueue q doesn't exist"),
            (Blocker::no_cluster_queue("q"), "ClusterQueue q doesn't exist"),
            (Blocker::local_queue_inactive("q"), "LocalQueue q is inactive"),
            (Blocker::cluster_queue_inactive("q"), "ClusterQueue q is inactive"),
            (Blocker::local_queue_stopped("q"), "LocalQueue q is stopped"),
            (Blocker::cluster_queue_stopped("q"), "ClusterQueue q is stopped"),
            (Blocker::local_queue_gone("q"), "LocalQueue q is terminating or missing"),
            (Blocker::cluster_queue_gone("q"), "ClusterQueue q is terminating or missing"),
            (Blocker::gated(&["a".into(), "b".into()]), "Admission is gated by: a, b"),
        ];
        for (blocker, want) in ours {
            assert_eq!(blocker.message, want);
            assert!(Blocker::is_found_here(want), "{want}");
        }
        for engine in [
            "couldn't assign flavors to pod set main: insufficient quota",
            "workload namespace doesn't match ClusterQueue selector",
            "Workload is pending evaluation in the scheduling queue",
            "ClusterQueue q not found",
        ] {
            assert!(!Blocker::is_found_here(engine), "{engine}");
        }
    }
}
