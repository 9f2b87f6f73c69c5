//! Counting pods that ended, exactly once.

use std::collections::BTreeSet;

use muster_api::job::{JobFacts, JobStatus, Mode};
use muster_api::pod::{Phase, PodFacts};
use muster_tree::Text;

use crate::indexes::Indexes;
use crate::verdict::Verdict;
use crate::{Observed, PodRef, UNCOUNTED_MAX};

/// What the counters are, and which pods may go.
#[derive(Debug)]
pub struct Tally {
    /// The status with counters and lists brought up to date; nothing else of it changed.
    pub status: JobStatus,
    /// Pods that are on the list, or need not be: their finalizer may be taken off once the status is written.
    pub release: Vec<PodRef>,
    /// Successes, counted or not.
    pub succeeded: u32,
    /// Indexes that succeeded.
    pub completed: Indexes,
}

/// Whether a pod counts as a failure.
pub fn is_failed(job: &JobFacts, pod: &PodFacts) -> bool {
    let deleted = pod.deleting.is_some() && pod.phase != Phase::Succeeded;
    pod.phase == Phase::Failed || (deleted && !job.replace_only_ended)
}

/// All failures so far: counted, listed, and those that will be.
pub fn failures(seen: &Observed<'_>) -> u32 {
    let status = &seen.job.status;
    let new = seen.pods.iter().filter(|pod| is_new(seen.job, pod) && is_failed(seen.job, pod));
    let new = new.filter(|pod| !status.uncounted_failed.contains(&pod.uid)).count();
    let listed = status.uncounted_failed.len() + new;
    status.failed.saturating_add(u32::try_from(listed).unwrap_or(u32::MAX))
}

/// Counts; with a verdict every pod may go.
pub fn count(seen: &Observed<'_>, verdict: Option<&Verdict>) -> Tally {
    let mut status = seen.job.status.clone();
    status.tracks = true;
    settle(seen, &mut status);
    let mut release = Vec::new();
    let mut new_indexes = 0;
    let written =
        below(seen.job).map(|below| Indexes::parse(&status.completed_indexes, below)).unwrap_or_default();
    let mut completed = written;
    for pod in in_order(seen) {
        if status.uncounted_succeeded.len() + status.uncounted_failed.len() + new_indexes >= UNCOUNTED_MAX {
            break;
        }
        let failed = is_failed(seen.job, pod);
        if !(seen.job.deleting || verdict.is_some() || pod.phase == Phase::Succeeded || failed) {
            continue;
        }
        release.push(PodRef::of(pod));
        let doomed = verdict.is_some_and(|verdict| !verdict.is_success());
        if pod.phase == Phase::Succeeded && !status.uncounted_failed.contains(&pod.uid) {
            match (seen.job.mode, pod.index) {
                // The index itself remembers that it was counted: no list is needed.
                (Mode::Indexed, Some(index)) => {
                    new_indexes += usize::from(is_new(seen.job, pod) && completed.0.insert(index));
                }
                (Mode::Indexed, None) => {}
                _ => list(&mut status.uncounted_succeeded, pod),
            }
        } else if (failed || doomed) && is_new(seen.job, pod) {
            list(&mut status.uncounted_failed, pod);
        }
    }
    if seen.job.mode == Mode::Indexed {
        status.completed_indexes = Text::from(completed.text());
        status.succeeded = completed.len();
    }
    let succeeded = if seen.job.mode == Mode::Indexed { completed.len() } else { successes(seen, &status) };
    Tally { status, release, succeeded, completed }
}

/// Listed pods that have lost their finalizer, or are gone, move into the counters.
fn settle(seen: &Observed<'_>, status: &mut JobStatus) {
    let held: BTreeSet<&Text> = seen.pods.iter().filter(|pod| pod.tracked).map(|pod| &pod.uid).collect();
    let settle = |list: &mut Vec<Text>, counter: &mut u32| {
        let before = list.len();
        list.retain(|uid| held.contains(uid));
        *counter += u32::try_from(before - list.len()).unwrap_or(0);
    };
    settle(&mut status.uncounted_succeeded, &mut status.succeeded);
    settle(&mut status.uncounted_failed, &mut status.failed);
}

fn successes(seen: &Observed<'_>, status: &JobStatus) -> u32 {
    let unlisted = |pod: &&PodFacts| {
        pod.tracked
            && pod.phase == Phase::Succeeded
            && !status.uncounted_succeeded.contains(&pod.uid)
            && !status.uncounted_failed.contains(&pod.uid)
    };
    let waiting = status.uncounted_succeeded.len() + seen.pods.iter().filter(unlisted).count();
    status.succeeded.saturating_add(u32::try_from(waiting).unwrap_or(u32::MAX))
}

fn list(list: &mut Vec<Text>, pod: &PodFacts) {
    if !list.contains(&pod.uid) {
        list.push(pod.uid.clone());
    }
}

/// Tracked pods, lowest index first.
fn in_order<'a>(seen: &Observed<'a>) -> Vec<&'a PodFacts> {
    let mut pods: Vec<&PodFacts> = seen.pods.iter().filter(|pod| pod.tracked).collect();
    pods.sort_by(|a, b| (a.index, &a.name).cmp(&(b.index, &b.name)));
    pods
}

/// Whether a pod may still be counted: it is tracked, and its index, if any, is wanted.
fn is_new(job: &JobFacts, pod: &PodFacts) -> bool {
    pod.tracked && below(job).is_none_or(|below| pod.index.is_some_and(|index| index < below))
}

/// The number of indexes of an indexed Job.
fn below(job: &JobFacts) -> Option<u32> {
    (job.mode == Mode::Indexed).then(|| job.completions.unwrap_or(0))
}
