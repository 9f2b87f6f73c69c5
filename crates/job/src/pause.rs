//! The pause after a failure: it doubles with each failure and ends with a success.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::job_pod::JobPod;
use muster_api::pod::Phase;
use muster_api::port::Uid;
use muster_api::time::Time;

use crate::picture::{Picture, number};

/// The pause after a first failed pod.
pub const FAILURE_BACKOFF_FIRST: Duration = Duration::from_secs(10);
/// The longest pause.
pub const FAILURE_BACKOFF_MAX: Duration = Duration::from_secs(600);
/// Failures remembered: more of them do not make the pause longer.
pub const PAST_FAILURES_MAX: usize = 8;

/// Failures since the last success, of pods that may be gone by now. Losing it makes a pause shorter, no more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Past {
    failures: BTreeMap<Uid, Time>,
    success: Option<Time>,
}

impl Past {
    /// This past and what the picture adds to it.
    #[must_use]
    pub(crate) fn with(&self, picture: &Picture<'_>) -> Past {
        let ended = picture.pods.iter().filter(|pod| pod.phase == Phase::Succeeded);
        let success = ended.map(|pod| pod.ended_at).chain(self.success).max();
        let failed = picture.pods.iter().filter(|pod| has_failed(picture, pod));
        let failed = failed.map(|pod| (pod.uid.clone(), pod.ended_at));
        let mut failures: BTreeMap<Uid, Time> = self.failures.clone();
        failures.extend(failed);
        failures.retain(|_, at| success.is_none_or(|success| *at > success));
        while failures.len() > PAST_FAILURES_MAX {
            let oldest = failures.iter().min_by_key(|(_, at)| **at).map(|(uid, _)| uid.clone());
            failures.remove(&oldest.expect("more than none"));
        }
        Past { failures, success }
    }

    /// When the pause is over.
    pub(crate) fn until(&self) -> Option<Time> {
        let last = self.failures.values().max()?;
        Some(*last + pause(number(self.failures.len())))
    }
}

/// When a successor of the last failed pod of an index may be made.
pub fn until_for_index(last: &JobPod) -> Time {
    last.ended_at + pause(last.before.all().saturating_add(1))
}

/// A pod without finalizer that was deleted may be one that we took away ourselves: no failure.
fn has_failed(picture: &Picture<'_>, pod: &JobPod) -> bool {
    picture.is_failed(pod) && (pod.tracked || pod.deleting.is_none())
}

fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FAILURE_BACKOFF_FIRST.saturating_mul(1 << doublings).min(FAILURE_BACKOFF_MAX)
}
