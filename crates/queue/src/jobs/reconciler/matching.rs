//! Finds the Workload of a job: exactly one, and equivalent.

use muster_api::meta;
use muster_api::meta::OwnerReference;
use muster_api::paths::{meta as meta_path, owner};
use muster_api::queue::consts::{conditions, labels, messages, reasons};
use muster_api::queue::{Condition, PodSet};
use muster_tree::Tree;

use super::run::{Stopping, stop};
use super::{
    JobReconcilerAction, QueuedJobSnapshot, WorkloadView, normal_event, prebuilt_of, run, warning_event,
};
use crate::jobs::construct::is_label_value;
use crate::jobs::equivalence::{self, ComparedJob};
use crate::jobs::generic_job::StopProgress;

/// The matching Workload of a job.
pub(super) enum WorkloadMatch<'a> {
    Found(&'a WorkloadView<'a>),
    Missing,
    /// These actions come first.
    Act(Vec<JobReconcilerAction>),
}

/// A job with a managed ancestor is only kept suspended until the ancestor is admitted.
pub(super) fn suspend_child(snapshot: &QueuedJobSnapshot<'_>, is_admitted: bool) -> Vec<JobReconcilerAction> {
    if is_admitted || snapshot.job.is_suspended() || snapshot.job.outcome().is_some() {
        return Vec::new();
    }
    let StopProgress::Step(step) = snapshot.job.stop(None) else { return Vec::new() };
    vec![
        JobReconcilerAction::PatchJob(step.change),
        normal_event(SUSPENDED, "Kueue managed child job suspended"),
    ]
}

const SUSPENDED: &str = "Suspended";

/// The matching Workload, after conflicting ones are deleted.
pub(super) fn own_workload<'a>(snapshot: &QueuedJobSnapshot<'a>) -> WorkloadMatch<'a> {
    let sets = match snapshot.job.pod_sets() {
        Ok(sets) => sets,
        Err(why) => return unknown_pod_sets(snapshot, why),
    };
    match prebuilt_of(snapshot.job.object()) {
        Some(name) => prebuilt(snapshot, &name, &sets),
        None => generated(snapshot, &sets),
    }
}

/// The pod sets are not known: an existing Workload stays, since it may have to be evicted or finished.
fn unknown_pod_sets<'a>(snapshot: &QueuedJobSnapshot<'a>, why: String) -> WorkloadMatch<'a> {
    let own = meta::uid(snapshot.job.object());
    let is_own = |it: &&WorkloadView<'_>| it.facts.controller().is_some_and(|owner| owner.uid == own);
    // Prefer the one with quota: it may have to be evicted or finished.
    let holds = snapshot.workloads.iter().find(|it| it.facts.has_quota()).or(snapshot.workloads.first());
    match snapshot.prebuilt.filter(is_own).or(holds) {
        Some(workload) => WorkloadMatch::Found(workload),
        None if snapshot.job.outcome().is_some() => WorkloadMatch::Act(Vec::new()),
        None => keep_suspended(snapshot, vec![cannot_tell(why)]),
    }
}

pub(super) fn cannot_tell(why: String) -> JobReconcilerAction {
    warning_event(reasons::ERR_WORKLOAD_COMPOSE, why)
}

fn compared<'s>(snapshot: &'s QueuedJobSnapshot<'_>, sets: &'s [PodSet]) -> ComparedJob<'s> {
    ComparedJob { object: snapshot.job.object(), pod_sets: sets, is_suspended: snapshot.job.is_suspended() }
}

fn generated<'a>(snapshot: &QueuedJobSnapshot<'a>, sets: &[PodSet]) -> WorkloadMatch<'a> {
    let (job, has_ended) = (compared(snapshot, sets), snapshot.job.outcome().is_some());
    // A finished job's Workload stays its own, whatever was changed since.
    let is_own =
        |it: &&WorkloadView<'_>| has_ended || equivalence::is_workload_of(&job, &it.facts, snapshot.flavor);
    // The oldest equivalent Workload is kept, all others are deleted.
    let found = snapshot.workloads.iter().find(is_own);
    let others: Vec<&WorkloadView<'_>> = snapshot
        .workloads
        .iter()
        .filter(|it| found.is_none_or(|found| found.facts.uid != it.facts.uid))
        .collect();
    let Some(found) = found else { return replace_unmatched(snapshot, &others) };
    if others.is_empty() { WorkloadMatch::Found(found) } else { WorkloadMatch::Act(delete(&others)) }
}

/// No Workload is equivalent.
fn replace_unmatched<'a>(
    snapshot: &QueuedJobSnapshot<'a>,
    others: &[&WorkloadView<'a>],
) -> WorkloadMatch<'a> {
    if !snapshot.job.is_suspended() && snapshot.job.outcome().is_none() {
        // The original templates are known only if there is exactly one Workload.
        let (known, message) = match others {
            [one] => {
                (Some(*one), "No matching Workload; restoring pod templates according to existent Workload")
            }
            _ => (None, "Missing Workload; unable to restore pod templates"),
        };
        let infos = known.map(|it| run::infos_of_spec(&it.facts));
        return match stop(snapshot, infos.as_deref(), message) {
            Stopping::Step(steps) => WorkloadMatch::Act(steps),
            Stopping::Still => WorkloadMatch::Missing,
        };
    }
    // Quota is released only once no pod uses it.
    if snapshot.job.is_active() && others.iter().any(|it| it.facts.has_quota()) {
        return WorkloadMatch::Act(Vec::new());
    }
    if let Some(rest) = run::finish_incomplete_stop(snapshot).filter(|_| snapshot.job.outcome().is_none()) {
        return WorkloadMatch::Act(rest);
    }
    match others {
        [] => WorkloadMatch::Missing,
        [one, rest @ ..] if may_be_rewritten(snapshot, one) => {
            let mut steps = delete(rest);
            if steps.is_empty() {
                steps = rewrite(snapshot, one);
            }
            WorkloadMatch::Act(steps)
        }
        all => WorkloadMatch::Act(delete(all)),
    }
}

/// A Workload without quota is updated; one with quota is replaced.
fn may_be_rewritten(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> bool {
    let facts = &workload.facts;
    snapshot.job.is_suspended() && !facts.has_quota() && !facts.deleting && !facts.is_finished()
}

fn rewrite(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Vec<JobReconcilerAction> {
    let new_workload = match run::workload_to_create(snapshot) {
        Ok(new_workload) => new_workload,
        Err(steps) => return steps,
    };
    let message = format!("Updated not matching Workload for suspended job: {}", workload.key());
    // `spec.active` is set by users and is kept.
    let active = workload.facts.active;
    let spec = new_workload.spec().with(&["active"], active);
    let wanted = workload.tree.with(&["spec"], spec);
    match workload.tree.merge_patch_to(&wanted) {
        Some(patch) => {
            vec![
                JobReconcilerAction::PatchWorkload(workload.reference(), patch),
                normal_event(reasons::UPDATED_WORKLOAD, message),
            ]
        }
        None => Vec::new(),
    }
}

fn delete(workloads: &[&WorkloadView<'_>]) -> Vec<JobReconcilerAction> {
    let one = |workload: &&WorkloadView<'_>| {
        // Finalizer first: the delete then takes effect at once.
        let mut steps = super::drop_finalizer(workload);
        if !workload.facts.deleting {
            steps.push(JobReconcilerAction::DeleteWorkload(workload.reference()));
            let message = format!("Deleted not matching Workload: {}", workload.key());
            steps.push(normal_event(reasons::DELETED_WORKLOAD, message));
        }
        steps
    };
    workloads.iter().flat_map(one).collect()
}

/// A prebuilt Workload: adopted if it has no controller, finished if it is not equivalent.
fn prebuilt<'a>(snapshot: &QueuedJobSnapshot<'a>, name: &str, sets: &[PodSet]) -> WorkloadMatch<'a> {
    let Some(workload) = snapshot.prebuilt.filter(|it| it.facts.name == name) else {
        return keep_suspended(snapshot, Vec::new());
    };
    let own = meta::uid(snapshot.job.object());
    match workload.facts.controller() {
        Some(other) if other.uid != own => {
            let words = format!("Workload {} is controlled by {} {}", workload.key(), other.kind, other.name);
            return keep_suspended(snapshot, vec![warning_event(reasons::ERR_WORKLOAD_COMPOSE, words)]);
        }
        Some(_) => {}
        None if workload.facts.deleting => return keep_suspended(snapshot, Vec::new()),
        None => {
            return WorkloadMatch::Act(vec![JobReconcilerAction::PatchWorkload(
                workload.reference(),
                adopt_patch(snapshot, workload),
            )]);
        }
    }
    let extra: Vec<&WorkloadView<'_>> =
        snapshot.workloads.iter().filter(|it| it.facts.uid != workload.facts.uid).collect();
    if !extra.is_empty() && snapshot.job.is_suspended() {
        return WorkloadMatch::Act(delete(&extra));
    }
    let is_like = equivalence::is_equivalent(&compared(snapshot, sets), &workload.facts, snapshot.flavor);
    if workload.facts.is_finished() || workload.facts.deleting || snapshot.job.outcome().is_some() || is_like
    {
        return WorkloadMatch::Found(workload);
    }
    let (reason, message) = (reasons::OUT_OF_SYNC, messages::OUT_OF_SYNC);
    let condition = Condition::new(conditions::FINISHED, true, reason, message, snapshot.now);
    let finish = JobReconcilerAction::SetCondition(
        workload.reference(),
        condition.of_generation(workload.facts.generation),
    );
    match stop(snapshot, Some(&run::infos_of_spec(&workload.facts)), message) {
        Stopping::Step(steps) => WorkloadMatch::Act(steps),
        Stopping::Still => WorkloadMatch::Act(vec![finish]),
    }
}

/// A job does not run without its prebuilt Workload.
fn keep_suspended<'a>(snapshot: &QueuedJobSnapshot<'_>, told: Vec<JobReconcilerAction>) -> WorkloadMatch<'a> {
    if snapshot.job.outcome().is_some() {
        return WorkloadMatch::Act(told);
    }
    match stop(snapshot, None, "Missing Workload; unable to restore pod templates") {
        Stopping::Step(steps) => WorkloadMatch::Act(steps),
        Stopping::Still => WorkloadMatch::Act(told),
    }
}

/// The patch that makes the job the controller of a Workload without one.
fn adopt_patch(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Tree {
    let (object, named) = (snapshot.job.object(), snapshot.job.kind());
    let (name, uid) = (meta::name(object), meta::uid(object));
    let own = OwnerReference::controller_reference(named.api_version, named.kind, &name, &uid);
    let others = workload.tree.items_at(meta_path::OWNERS).iter().filter(|it| it.str_at(owner::UID) != uid);
    let owners = Tree::list(others.cloned().chain([own]));
    let patch = Tree::Null.with(meta_path::OWNERS, owners);
    if is_label_value(&uid) {
        return patch.with(&[meta_path::LABELS, &[labels::JOB_UID]].concat(), uid);
    }
    patch
}
