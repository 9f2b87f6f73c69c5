//! Counting pods that ended, exactly once.

use std::collections::BTreeSet;

use muster_api::job::{JobStatus, Mode};
use muster_api::job_pod::JobPod;
use muster_api::pod::Phase;
use muster_tree::Text;

use crate::picture::{Picture, number};
use crate::verdict::Verdict;
use crate::{PodRef, UNCOUNTED_MAX, policy};

/// What the counters are, and which pods may go.
#[derive(Debug)]
pub struct Tally {
    /// The status with counters and lists brought up to date; nothing else of it changed.
    pub status: JobStatus,
    /// Pods that are on the list, or need not be: their finalizer may be taken off once the status is written.
    pub release: Vec<PodRef>,
}

/// Counts; with a verdict every pod may go.
pub fn count(picture: &Picture<'_>, verdict: Option<&Verdict>) -> Tally {
    let mut status = picture.job.status.clone();
    status.tracks = true;
    settle(picture, &mut status);
    let mut release = Vec::new();
    let mut new_indexes = BTreeSet::new();
    for pod in in_order(picture) {
        if status.uncounted_succeeded.len() + status.uncounted_failed.len() + new_indexes.len()
            >= UNCOUNTED_MAX
        {
            break;
        }
        if !may_go(picture, pod, verdict) {
            continue;
        }
        release.push(PodRef::of(pod));
        if pod.phase == Phase::Succeeded && !picture.listed_as_failed(pod) {
            // The index itself remembers that it was counted: no list is needed.
            match (picture.job.mode, pod.index.filter(|_| picture.in_range(pod))) {
                (Mode::Indexed, Some(index)) if !picture.completed_before.has(index) => {
                    new_indexes.insert(index);
                }
                (Mode::Indexed, _) => {}
                _ if picture.listed_as_succeeded(pod) => {}
                _ => status.uncounted_succeeded.push(pod.uid.clone()),
            }
        } else if counts_as_failed(picture, pod, verdict) {
            status.uncounted_failed.push(pod.uid.clone());
        }
    }
    if picture.job.mode == Mode::Indexed {
        status.completed_indexes = Text::from(picture.completed.text());
        status.succeeded = picture.completed.len();
        status.failed_indexes = picture.failed_indexes.as_ref().map(|indexes| Text::from(indexes.text()));
    }
    Tally { status, release }
}

fn may_go(picture: &Picture<'_>, pod: &JobPod, verdict: Option<&Verdict>) -> bool {
    picture.job.deleting
        || verdict.is_some()
        || pod.phase == Phase::Succeeded
        || (picture.is_failed(pod) && !picture.is_replaced_later(pod))
}

/// Whether a pod goes onto the list of failures; in a Job that failed, every pod that has not succeeded does.
fn counts_as_failed(picture: &Picture<'_>, pod: &JobPod, verdict: Option<&Verdict>) -> bool {
    let doomed = verdict.is_some_and(|verdict| !verdict.is_success());
    (picture.is_failed(pod) || doomed)
        && !picture.listed_as_failed(pod)
        && picture.in_range(pod)
        && policy::counts(picture.job, pod)
}

/// Listed pods that have lost their finalizer, or are gone, move into the counters.
fn settle(picture: &Picture<'_>, status: &mut JobStatus) {
    let held: BTreeSet<&Text> = picture.pods.iter().filter(|pod| pod.tracked).map(|pod| &pod.uid).collect();
    let settle = |list: &mut Vec<Text>, counter: &mut u32| {
        let before = list.len();
        list.retain(|uid| held.contains(uid));
        *counter = counter.saturating_add(number(before - list.len()));
    };
    settle(&mut status.uncounted_succeeded, &mut status.succeeded);
    settle(&mut status.uncounted_failed, &mut status.failed);
}

/// Tracked pods, lowest index first.
fn in_order<'a>(picture: &Picture<'a>) -> Vec<&'a JobPod> {
    let mut pods: Vec<&JobPod> = picture.pods.iter().copied().filter(|pod| pod.tracked).collect();
    pods.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    pods
}
