//! The backoff before new pods after failures: it doubles with each failure and is reset by a success.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::Uid;
use muster_api::job_pod::JobPod;
use muster_api::pod::PodPhase;
use muster_api::time::Time;

use crate::sync_context::{SyncContext, number};

/// The backoff after the first failed pod.
pub const FAILURE_BACKOFF_BASE: Duration = Duration::from_secs(10);
pub const FAILURE_BACKOFF_MAX: Duration = Duration::from_secs(600);
/// Failures remembered: more of them do not make the backoff longer.
pub const REMEMBERED_FAILURES_MAX: usize = 8;

/// Failures since the last success, of pods that may be deleted by now. Losing it only shortens a backoff.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackoffRecord {
    failures: BTreeMap<Uid, Time>,
    success: Option<Time>,
}

impl BackoffRecord {
    /// This record with the failures and successes of the current pods.
    #[must_use]
    pub(crate) fn with(&self, ctx: &SyncContext<'_>) -> BackoffRecord {
        let ended = ctx.pods.iter().filter(|pod| pod.phase == PodPhase::Succeeded);
        let success = ended.map(|pod| pod.ended_at).chain(self.success).max();
        let failed = ctx.pods.iter().filter(|pod| has_failed(ctx, pod));
        let failed = failed.map(|pod| (pod.uid.clone(), pod.ended_at));
        let mut failures: BTreeMap<Uid, Time> = self.failures.clone();
        failures.extend(failed);
        failures.retain(|_, at| success.is_none_or(|success| *at > success));
        while failures.len() > REMEMBERED_FAILURES_MAX {
            let oldest = failures.iter().min_by_key(|(_, at)| **at).map(|(uid, _)| uid.clone());
            failures.remove(&oldest.expect("more than none"));
        }
        BackoffRecord { failures, success }
    }

    /// When the backoff ends.
    pub(crate) fn until(&self) -> Option<Time> {
        let last = self.failures.values().max()?;
        Some(*last + backoff(number(self.failures.len())))
    }
}

/// When the backoff of an index ends, given its last failed pod.
pub fn index_backoff_until(last: &JobPod) -> Time {
    last.ended_at + backoff(last.index_failures.all().saturating_add(1))
}

/// A deleted pod without finalizer may be one that the controller discarded itself: no failure.
fn has_failed(ctx: &SyncContext<'_>, pod: &JobPod) -> bool {
    ctx.is_failed(pod) && (pod.has_tracking_finalizer || pod.deleting.is_none())
}

fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FAILURE_BACKOFF_BASE.saturating_mul(1 << doublings).min(FAILURE_BACKOFF_MAX)
}
