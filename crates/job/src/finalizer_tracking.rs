//! Counts finished pods exactly once, as upstream's `trackJobStatusAndRemoveFinalizers`: list as uncounted, remove the finalizer,
//! then move into the counter. A crash between any two of these steps neither loses nor doubles a pod.

use std::collections::BTreeSet;

use muster_api::job::{CompletionMode, JobStatus};
use muster_api::job_pod::JobPod;
use muster_api::pod::PodPhase;
use muster_tree::Text;

use crate::finished::FinishedCondition;
use crate::sync_context::{SyncContext, number};
use crate::{PodRef, UNCOUNTED_MAX, policies};

/// The counted status, and the pods that are done with.
#[derive(Debug)]
pub struct CountedPods {
    /// The status with updated counters and lists; nothing else of it changed.
    pub status: JobStatus,
    /// Pods that are listed, or need not be: their finalizer may be removed once the status is written.
    pub remove_finalizer: Vec<PodRef>,
}

/// Counts finished pods; of a finished Job every pod may lose its finalizer.
pub fn count(ctx: &SyncContext<'_>, finished: Option<&FinishedCondition>) -> CountedPods {
    let mut status = ctx.job.status.clone();
    status.has_uncounted_field = true;
    settle(ctx, &mut status);
    let mut remove_finalizer = Vec::new();
    let mut new_indexes = BTreeSet::new();
    for pod in tracked_pods(ctx) {
        if status.uncounted_succeeded.len() + status.uncounted_failed.len() + new_indexes.len()
            >= UNCOUNTED_MAX
        {
            break;
        }
        if !may_remove_finalizer(ctx, pod, finished) {
            continue;
        }
        remove_finalizer.push(PodRef::of(pod));
        if pod.phase == PodPhase::Succeeded && !ctx.listed_as_failed(pod) {
            // `completedIndexes` itself records that an index was counted: no list is needed.
            match (ctx.job.mode, pod.index.filter(|_| ctx.in_range(pod))) {
                (CompletionMode::Indexed, Some(index)) if !ctx.completed_before.contains(index) => {
                    new_indexes.insert(index);
                }
                (CompletionMode::Indexed, _) => {}
                _ if ctx.listed_as_succeeded(pod) => {}
                _ => status.uncounted_succeeded.push(pod.uid.clone()),
            }
        } else if counts_as_failed(ctx, pod, finished) {
            status.uncounted_failed.push(pod.uid.clone());
        }
    }
    if ctx.job.mode == CompletionMode::Indexed {
        status.completed_indexes = Text::from(ctx.completed.text());
        status.succeeded = ctx.completed.len();
        status.failed_indexes = ctx.failed_indexes.as_ref().map(|indexes| Text::from(indexes.text()));
    }
    CountedPods { status, remove_finalizer }
}

fn may_remove_finalizer(ctx: &SyncContext<'_>, pod: &JobPod, finished: Option<&FinishedCondition>) -> bool {
    ctx.job.deleting
        || finished.is_some()
        || pod.phase == PodPhase::Succeeded
        || (ctx.is_failed(pod) && !ctx.awaits_replacement(pod))
}

/// Whether a pod is listed as failed; in a failed Job every pod that has not succeeded is.
fn counts_as_failed(ctx: &SyncContext<'_>, pod: &JobPod, finished: Option<&FinishedCondition>) -> bool {
    let doomed = finished.is_some_and(|finished| !finished.is_success());
    (ctx.is_failed(pod) || doomed)
        && !ctx.listed_as_failed(pod)
        && ctx.in_range(pod)
        && policies::counts_as_failure(ctx.job, pod)
}

/// Listed pods that have lost their finalizer, or are deleted, move into the counters.
fn settle(ctx: &SyncContext<'_>, status: &mut JobStatus) {
    let held: BTreeSet<&Text> =
        ctx.pods.iter().filter(|pod| pod.has_tracking_finalizer).map(|pod| &pod.uid).collect();
    let settle = |list: &mut Vec<Text>, counter: &mut u32| {
        let before = list.len();
        list.retain(|uid| held.contains(uid));
        *counter = counter.saturating_add(number(before - list.len()));
    };
    settle(&mut status.uncounted_succeeded, &mut status.succeeded);
    settle(&mut status.uncounted_failed, &mut status.failed);
}

/// Tracked pods, lowest index first.
fn tracked_pods<'a>(ctx: &SyncContext<'a>) -> Vec<&'a JobPod> {
    let mut pods: Vec<&JobPod> = ctx.pods.iter().copied().filter(|pod| pod.has_tracking_finalizer).collect();
    pods.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    pods
}
