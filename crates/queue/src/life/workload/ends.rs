//! The end of a Workload: finished, kept for a while, deleted, or left without an owner.

use muster_api::queue::words::{conditions, finalizers, labels, messages, reasons};

use super::super::draft::Note;
use super::super::steps;
use super::{Action, Observed, actions};

const RETENTION_OVER: &str = "Deleted finished workload due to elapsed retention";

/// The steps of one that has ended or has to; none for all others.
pub(super) fn plan(seen: &Observed<'_>) -> Option<Vec<Action>> {
    let finished = seen.status.holds(conditions::FINISHED);
    if is_orphan(seen) {
        return Some(end_orphan(seen));
    }
    match (seen.workload.deleting, finished) {
        (true, true) => Some(drop_finalizer(seen)),
        // Whoever owns it stops its job first, and takes the finalizer off then.
        (true, false) => Some(Vec::new()),
        (false, true) => Some(retain(seen)),
        (false, false) => None,
    }
}

/// Whether nobody owns it any more. One that never had an owner was made by a user, and is kept until it is deleted.
fn is_orphan(seen: &Observed<'_>) -> bool {
    let it = seen.workload;
    it.owners.is_empty() && (it.deleting || it.label(labels::JOB_UID).is_some())
}

/// The end is told before the finalizer goes: whoever watches learns why.
fn end_orphan(seen: &Observed<'_>) -> Vec<Action> {
    let (reason, message) = (reasons::OWNER_NOT_FOUND, messages::OWNER_NOT_FOUND);
    match steps::finish(seen.known(), reason, message, seen.at()) {
        Some(told) => actions(told),
        None if seen.workload.has_finalizer(finalizers::IN_USE) => vec![Action::DropFinalizer],
        None => retain(seen),
    }
}

fn drop_finalizer(seen: &Observed<'_>) -> Vec<Action> {
    let ours = seen.workload.has_finalizer(finalizers::IN_USE);
    ours.then_some(Action::DropFinalizer).into_iter().collect()
}

/// A finished one is deleted when its time is over.
fn retain(seen: &Observed<'_>) -> Vec<Action> {
    let finished = seen.workload.condition(conditions::FINISHED).and_then(|it| it.since);
    let (Some(after), Some(since)) = (seen.settings.delete_finished_after, finished) else {
        return Vec::new();
    };
    if seen.workload.deleting {
        return Vec::new();
    }
    let at = since + after;
    if at > seen.now {
        return vec![Action::LookAgain(at)];
    }
    vec![Action::Delete, Action::Note(Note::normal(reasons::DELETED, RETENTION_OVER))]
}
