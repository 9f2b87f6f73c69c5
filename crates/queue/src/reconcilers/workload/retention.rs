//! Finished, deleted and orphaned Workloads: finalizer removal and retention.

use muster_api::queue::consts::{conditions, finalizers, labels, messages, reasons};

use super::super::status_builder::WorkloadEvent;
use super::super::transitions;
use super::{Action, WorkloadSnapshot, status_update_actions};

const RETENTION_OVER: &str = "Deleted finished workload due to elapsed retention";

/// The actions for a finished, deleted or orphaned Workload; None for all others.
pub(super) fn plan(seen: &WorkloadSnapshot<'_>) -> Option<Vec<Action>> {
    let finished = seen.status.holds(conditions::FINISHED);
    // Before retention: an orphan that is being deleted must still be finished, so that watchers see why.
    if is_orphan(seen) {
        return Some(finish_orphan(seen));
    }
    match (seen.workload.deleting, finished) {
        (true, true) => Some(drop_finalizer(seen)),
        // The job reconciler stops the job first and then removes the finalizer.
        (true, false) => Some(Vec::new()),
        (false, true) => Some(retain(seen)),
        (false, false) => None,
    }
}

/// Whether its owner is gone. A Workload that never had an owner was created by a user and is kept until it is
/// deleted.
fn is_orphan(seen: &WorkloadSnapshot<'_>) -> bool {
    let it = seen.workload;
    it.owners.is_empty() && (it.deleting || it.label(labels::JOB_UID).is_some())
}

/// Sets `Finished` before the finalizer is removed, so that watchers see the reason.
fn finish_orphan(seen: &WorkloadSnapshot<'_>) -> Vec<Action> {
    let (reason, message) = (reasons::OWNER_NOT_FOUND, messages::OWNER_NOT_FOUND);
    match transitions::finish(seen.known(), reason, message, seen.at()) {
        Some(told) => status_update_actions(told),
        None if seen.workload.has_finalizer(finalizers::IN_USE) => vec![Action::RemoveFinalizer],
        None => retain(seen),
    }
}

fn drop_finalizer(seen: &WorkloadSnapshot<'_>) -> Vec<Action> {
    let ours = seen.workload.has_finalizer(finalizers::IN_USE);
    ours.then_some(Action::RemoveFinalizer).into_iter().collect()
}

/// Deletes a finished Workload when its retention ends.
fn retain(seen: &WorkloadSnapshot<'_>) -> Vec<Action> {
    let finished = seen.workload.condition(conditions::FINISHED).and_then(|it| it.since);
    let (Some(after), Some(since)) = (seen.settings.delete_finished_after, finished) else {
        return Vec::new();
    };
    if seen.workload.deleting {
        return Vec::new();
    }
    let at = since + after;
    if at > seen.now {
        return vec![Action::RequeueAt(at)];
    }
    vec![Action::Delete, Action::Note(WorkloadEvent::normal(reasons::DELETED, RETENTION_OVER))]
}
