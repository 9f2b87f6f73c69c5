//! Which Workload is a job's own: exactly one, and like it.

use muster_api::meta;
use muster_api::meta::Owner;
use muster_api::paths::{meta as meta_path, owner};
use muster_api::queue::words::{conditions, labels, messages, reasons};
use muster_api::queue::{Condition, PodSet};
use muster_tree::Tree;

use super::run::{Stopping, stop};
use super::{Action, Observed, Seen, note, prebuilt_of, run, warn};
use crate::jobs::construct::is_label_value;
use crate::jobs::equal::{self, Compared};
use crate::jobs::work::Stop;

/// What is known of a job's own Workload.
pub(super) enum Own<'a> {
    /// This one.
    Found(&'a Seen<'a>),
    /// There is none, and none is in the way.
    Missing,
    /// Something has to be done first.
    Act(Vec<Action>),
}

/// A child waits with whoever is above it; it is only kept from running ahead.
pub(super) fn hold_child(seen: &Observed<'_>, is_admitted: bool) -> Vec<Action> {
    if is_admitted || seen.job.is_suspended() || seen.job.ended().is_some() {
        return Vec::new();
    }
    let Stop::Step(step) = seen.job.stop(None) else { return Vec::new() };
    vec![Action::ChangeJob(step.change), note(SUSPENDED, "Kueue managed child job suspended")]
}

/// Event: a child was kept from running ahead.
const SUSPENDED: &str = "Suspended";

/// The Workload of a job, after whatever is in its way is gone.
pub(super) fn own_workload<'a>(seen: &Observed<'a>) -> Own<'a> {
    let sets = match seen.job.pod_sets() {
        Ok(sets) => sets,
        Err(why) => return unknown(seen, why),
    };
    match prebuilt_of(seen.job.object()) {
        Some(name) => prebuilt(seen, &name, &sets),
        None => made_by_us(seen, &sets),
    }
}

/// Nobody can tell what the job asks for. Whatever Workload it has stays its own: it may have to leave, or end.
fn unknown<'a>(seen: &Observed<'a>, why: String) -> Own<'a> {
    let own = meta::uid(seen.job.object());
    let is_own = |it: &&Seen<'_>| it.facts.controller().is_some_and(|owner| owner.uid == own);
    let holds = seen.workloads.iter().find(|it| it.facts.has_quota()).or(seen.workloads.first());
    match seen.prebuilt.filter(is_own).or(holds) {
        Some(workload) => Own::Found(workload),
        None if seen.job.ended().is_some() => Own::Act(Vec::new()),
        None => hold_still(seen, vec![cannot_tell(why)]),
    }
}

/// What is told of a job of which nobody can tell what it asks for.
pub(super) fn cannot_tell(why: String) -> Action {
    warn(reasons::ERR_WORKLOAD_COMPOSE, why)
}

fn compared<'s>(seen: &'s Observed<'_>, sets: &'s [PodSet]) -> Compared<'s> {
    Compared { object: seen.job.object(), pod_sets: sets, is_suspended: seen.job.is_suspended() }
}

fn made_by_us<'a>(seen: &Observed<'a>, sets: &[PodSet]) -> Own<'a> {
    let (job, has_ended) = (compared(seen, sets), seen.job.ended().is_some());
    // Whatever was changed in a job that has ended, its Workload was its own.
    let is_own = |it: &&Seen<'_>| has_ended || equal::is_of(&job, &it.facts, seen.flavor);
    let found = seen.workloads.iter().find(is_own);
    let others: Vec<&Seen<'_>> = seen
        .workloads
        .iter()
        .filter(|it| found.is_none_or(|found| found.facts.uid != it.facts.uid))
        .collect();
    let Some(found) = found else { return unlike(seen, &others) };
    if others.is_empty() { Own::Found(found) } else { Own::Act(delete(&others)) }
}

/// No Workload is like the job.
fn unlike<'a>(seen: &Observed<'a>, others: &[&Seen<'a>]) -> Own<'a> {
    if !seen.job.is_suspended() && seen.job.ended().is_none() {
        // What the job was like is known only if there is one Workload to tell it.
        let (known, message) = match others {
            [one] => {
                (Some(*one), "No matching Workload; restoring pod templates according to existent Workload")
            }
            _ => (None, "Missing Workload; unable to restore pod templates"),
        };
        let infos = known.map(|it| run::infos_of_spec(&it.facts));
        return match stop(seen, infos.as_deref(), message) {
            Stopping::Step(steps) => Own::Act(steps),
            Stopping::Still => Own::Missing,
        };
    }
    // A share is given back only once no pod has it any more.
    if seen.job.is_active() && others.iter().any(|it| it.facts.has_quota()) {
        return Own::Act(Vec::new());
    }
    if let Some(rest) = run::left_over(seen).filter(|_| seen.job.ended().is_none()) {
        return Own::Act(rest);
    }
    match others {
        [] => Own::Missing,
        [one, rest @ ..] if may_be_rewritten(seen, one) => {
            let mut steps = delete(rest);
            if steps.is_empty() {
                steps = rewrite(seen, one);
            }
            Own::Act(steps)
        }
        all => Own::Act(delete(all)),
    }
}

/// A Workload that holds nothing may follow its job; one that does is replaced.
fn may_be_rewritten(seen: &Observed<'_>, workload: &Seen<'_>) -> bool {
    let facts = &workload.facts;
    seen.job.is_suspended() && !facts.has_quota() && !facts.deleting && !facts.is_finished()
}

fn rewrite(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    let made = match run::made(seen) {
        Ok(made) => made,
        Err(steps) => return steps,
    };
    let message = format!("Updated not matching Workload for suspended job: {}", workload.key());
    // Whether it is to run at all is its user's word, and stays.
    let active = workload.facts.active;
    let spec = made.spec().with(&["active"], active);
    let wanted = workload.tree.with(&["spec"], spec);
    match workload.tree.merge_patch_to(&wanted) {
        Some(patch) => {
            vec![Action::PatchWorkload(workload.this(), patch), note(reasons::UPDATED_WORKLOAD, message)]
        }
        None => Vec::new(),
    }
}

fn delete(workloads: &[&Seen<'_>]) -> Vec<Action> {
    let one = |workload: &&Seen<'_>| {
        let mut steps = super::drop_finalizer(workload);
        if !workload.facts.deleting {
            steps.push(Action::DeleteWorkload(workload.this()));
            let message = format!("Deleted not matching Workload: {}", workload.key());
            steps.push(note(reasons::DELETED_WORKLOAD, message));
        }
        steps
    };
    workloads.iter().flat_map(one).collect()
}

/// A Workload that the user made: taken over if it is free, ended if it is not like the job.
fn prebuilt<'a>(seen: &Observed<'a>, name: &str, sets: &[PodSet]) -> Own<'a> {
    let Some(workload) = seen.prebuilt.filter(|it| it.facts.name == name) else {
        return hold_still(seen, Vec::new());
    };
    let own = meta::uid(seen.job.object());
    match workload.facts.controller() {
        Some(other) if other.uid != own => {
            let words = format!("Workload {} is controlled by {} {}", workload.key(), other.kind, other.name);
            return hold_still(seen, vec![warn(reasons::ERR_WORKLOAD_COMPOSE, words)]);
        }
        Some(_) => {}
        None if workload.facts.deleting => return hold_still(seen, Vec::new()),
        None => return Own::Act(vec![Action::PatchWorkload(workload.this(), taken(seen, workload))]),
    }
    let extra: Vec<&Seen<'_>> =
        seen.workloads.iter().filter(|it| it.facts.uid != workload.facts.uid).collect();
    if !extra.is_empty() && seen.job.is_suspended() {
        return Own::Act(delete(&extra));
    }
    let is_like = equal::is_like(&compared(seen, sets), &workload.facts, seen.flavor);
    if workload.facts.is_finished() || workload.facts.deleting || seen.job.ended().is_some() || is_like {
        return Own::Found(workload);
    }
    let (reason, message) = (reasons::OUT_OF_SYNC, messages::OUT_OF_SYNC);
    let condition = Condition::new(conditions::FINISHED, true, reason, message, seen.now);
    let finish = Action::SetCondition(workload.this(), condition.of_generation(workload.facts.generation));
    match stop(seen, Some(&run::infos_of_spec(&workload.facts)), message) {
        Stopping::Step(steps) => Own::Act(steps),
        Stopping::Still => Own::Act(vec![finish]),
    }
}

/// Without the Workload that it names, a job does not run.
fn hold_still<'a>(seen: &Observed<'_>, told: Vec<Action>) -> Own<'a> {
    if seen.job.ended().is_some() {
        return Own::Act(told);
    }
    match stop(seen, None, "Missing Workload; unable to restore pod templates") {
        Stopping::Step(steps) => Own::Act(steps),
        Stopping::Still => Own::Act(told),
    }
}

/// A patch that makes the job the owner of a Workload that has none.
fn taken(seen: &Observed<'_>, workload: &Seen<'_>) -> Tree {
    let (object, named) = (seen.job.object(), seen.job.named());
    let (name, uid) = (meta::name(object), meta::uid(object));
    let own = Owner::controller_tree(named.api_version, named.kind, &name, &uid);
    let others = workload.tree.items_at(meta_path::OWNERS).iter().filter(|it| it.str_at(owner::UID) != uid);
    let owners = Tree::list(others.cloned().chain([own]));
    let patch = Tree::Null.with(meta_path::OWNERS, owners);
    if is_label_value(&uid) {
        return patch.with(&[meta_path::LABELS, &[labels::JOB_UID]].concat(), uid);
    }
    patch
}
