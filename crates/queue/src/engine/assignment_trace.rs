//! The trace of a flavor assignment: each flavor that was tried, with all amounts. Modes, messages and explanations
//! derive from it.

use muster_tree::Text;

use super::amount::{self, plus};

/// How a flavor can serve a request, worst first (Kueue's `granularMode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GranularMode {
    /// Not even with preemption.
    NoFit,
    /// Needs preemption, and there are no candidates.
    NoPreemptionCandidates,
    /// Needs preemption within its own ClusterQueue.
    Preempt,
    /// Needs preemption in other ClusterQueues only.
    Reclaim,
    Fit,
}

/// Why a request does not fit, most severe first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoFitReason {
    /// No flavor matches the pods, or no flavor covers the resource.
    NoMatchingFlavor,
    /// The request exceeds the potential quota.
    ExceedsMaxQuota,
    WaitingForQuota,
}

/// The evaluation of one resource in one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceTrace {
    pub resource: Text,
    pub requested: i64,
    /// Usage assumed by earlier pod sets of the same Workload.
    pub assumed_by_earlier_pod_sets: i64,
    pub available: i64,
    /// Available in an otherwise empty tree.
    pub maximum: i64,
    pub shortfall: i64,
    pub mode: GranularMode,
    /// Height of the cohort that would lend it; 0 without borrowing.
    pub borrowing_height: usize,
}

/// The evaluation of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorTrace {
    pub flavor: Text,
    /// Taint or node affinity mismatch, as the message prints it.
    pub unsuitable: Option<String>,
    pub resources: Vec<ResourceTrace>,
}

impl FlavorTrace {
    pub(super) fn grade(&self) -> GranularMode {
        let worst = self.resources.iter().map(|it| it.mode).min().unwrap_or(GranularMode::Fit);
        if self.unsuitable.is_some() { GranularMode::NoFit } else { worst }
    }

    /// Height of the cohort that would lend it; 0 without borrowing.
    pub(super) fn height(&self) -> usize {
        self.resources.iter().map(|it| it.borrowing_height).max().unwrap_or(0)
    }

    pub(super) fn obstacle(&self) -> NoFitReason {
        let exceeds =
            self.resources.iter().any(|it| plus(it.assumed_by_earlier_pod_sets, it.requested) > it.maximum);
        match (&self.unsuitable, exceeds) {
            (Some(_), _) => NoFitReason::NoMatchingFlavor,
            (None, true) => NoFitReason::ExceedsMaxQuota,
            (None, false) => NoFitReason::WaitingForQuota,
        }
    }

    /// The reasons as condition `QuotaReserved` prints them.
    pub(super) fn sentences(&self) -> Vec<String> {
        if let Some(why) = &self.unsuitable {
            return vec![why.clone()];
        }
        self.resources.iter().filter_map(|it| it.sentence(&self.flavor)).collect()
    }
}

impl ResourceTrace {
    fn sentence(&self, flavor: &str) -> Option<String> {
        let (name, value) = (&self.resource, |amount| amount::quantity_string(&self.resource, amount));
        if plus(self.assumed_by_earlier_pod_sets, self.requested) > self.maximum {
            return Some(format!(
                "insufficient quota for {name} in flavor {flavor}, previously considered podsets requests ({}) + \
                 current podset request ({}) > maximum capacity ({})",
                value(self.assumed_by_earlier_pod_sets),
                value(self.requested),
                value(self.maximum)
            ));
        }
        (self.mode != GranularMode::Fit).then(|| {
            format!(
                "insufficient unused quota for {name} in flavor {flavor}, {} more needed",
                value(self.shortfall)
            )
        })
    }
}
