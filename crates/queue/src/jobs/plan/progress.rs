//! What a Workload is told of its job: its end, its importance, shares that are free, and pods that are ready.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::queue::paths::workload as path;
use muster_api::queue::words::{conditions, labels, messages, reasons};
use muster_api::queue::{Condition, WorkloadFacts};
use muster_tree::{Text, Tree};

use super::{Action, Observed, Seen, note};
use crate::jobs::priority::{Asked, resolve};
use crate::jobs::work::Ended;

/// The job has ended, and so has its Workload.
pub(super) fn finish(seen: &Observed<'_>, workload: &Seen<'_>, end: &Ended) -> Vec<Action> {
    let reason = if end.succeeded { reasons::SUCCEEDED } else { reasons::FAILED };
    let condition = Condition::new(conditions::FINISHED, true, reason, &end.message, seen.now);
    let message = format!("Workload '{}' is declared finished", workload.key());
    vec![
        Action::SetCondition(workload.this(), condition.of_generation(workload.facts.generation)),
        note(reasons::FINISHED_WORKLOAD, message),
    ]
}

/// The first thing that the Workload does not know yet; nothing when it knows all.
pub(super) fn tell(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    let steps = priority(seen, workload);
    if !steps.is_empty() {
        return steps;
    }
    if let Some(step) = reclaimable(seen, workload) {
        return vec![step];
    }
    pods_ready(seen, workload).into_iter().collect()
}

/// The class in the label, if it may become that of the Workload and is another.
fn other_class<'a>(seen: &'a Observed<'_>, workload: &Seen<'_>) -> Option<&'a str> {
    let label = meta::label(seen.job.object(), labels::PRIORITY_CLASS).filter(|it| !it.is_empty())?;
    let may_change = match &workload.facts.priority_class {
        Some(class) => class.is_workload() && class.name != label,
        // Whether there is a class at all may not change once there is a share.
        None => !workload.facts.has_quota(),
    };
    may_change.then_some(label)
}

/// The label names another class than the Workload has.
fn priority(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    let Some(label) = other_class(seen, workload) else { return Vec::new() };
    let Ok(resolved) = resolve(Asked { label, of_job: "", of_pods: &[] }, seen.classes) else {
        return Vec::new();
    };
    let patch = Tree::Null
        .with(path::PRIORITY, resolved.priority)
        .with_option(path::PRIORITY_CLASS, resolved.class.map(|class| class.tree()));
    let message = format!("Updated workload priority class: {}", workload.key());
    vec![Action::PatchWorkload(workload.this(), patch), note(reasons::UPDATED_WORKLOAD, message)]
}

/// The label names a class that is not there. The Workload keeps the one it has, and goes on.
pub(super) fn complaint(seen: &Observed<'_>, workload: &Seen<'_>) -> Option<Action> {
    let label = other_class(seen, workload)?;
    let missing = resolve(Asked { label, of_job: "", of_pods: &[] }, seen.classes).err()?;
    Some(super::run::class_missing(&missing))
}

/// Pods that need their share no more. While the Workload has one, what was given back stays given back.
fn reclaimable(seen: &Observed<'_>, workload: &Seen<'_>) -> Option<Action> {
    let facts = &workload.facts;
    let mut free: BTreeMap<Text, u32> = seen.job.reclaimable();
    free.retain(|name, _| facts.pod_set(name).is_some());
    for (name, count) in &mut free {
        *count = (*count).min(facts.pod_set(name).map_or(0, |set| set.count));
    }
    if facts.has_quota() {
        for (name, before) in &facts.reclaimable {
            let count = free.entry(name.clone()).or_default();
            *count = (*count).max(*before);
        }
    }
    (free != facts.reclaimable).then(|| Action::SetReclaimable(workload.this(), free))
}

fn pods_ready(seen: &Observed<'_>, workload: &Seen<'_>) -> Option<Action> {
    if !seen.settings.tells_pods_ready {
        return None;
    }
    let wanted = readiness(&workload.facts, seen.job.pods_ready());
    let old = workload.facts.condition(conditions::PODS_READY);
    let is_told = old.is_some_and(|it| (it.holds, it.reason.as_str()) == (wanted.holds, wanted.reason));
    let condition =
        Condition::new(conditions::PODS_READY, wanted.holds, wanted.reason, wanted.message, seen.now);
    (!is_told)
        .then(|| Action::SetCondition(workload.this(), condition.of_generation(workload.facts.generation)))
}

/// What is to be said of readiness.
struct Readiness {
    holds: bool,
    reason: &'static str,
    message: &'static str,
}

fn readiness(workload: &WorkloadFacts, are_ready: bool) -> Readiness {
    let old = workload.condition(conditions::PODS_READY);
    let was = |reason: &str| old.is_some_and(|it| it.reason == reason);
    if !workload.is_admitted() {
        return Readiness {
            holds: false,
            reason: reasons::WAIT_FOR_START,
            message: messages::PODS_NOT_READY,
        };
    }
    let has_been_ready = was(reasons::STARTED) || was(reasons::RECOVERED) || was(reasons::WAIT_FOR_RECOVERY);
    match (are_ready, has_been_ready) {
        (true, true) if was(reasons::STARTED) => {
            Readiness { holds: true, reason: reasons::STARTED, message: messages::PODS_READY }
        }
        (true, true) => Readiness { holds: true, reason: reasons::RECOVERED, message: messages::PODS_READY },
        (true, false) => Readiness { holds: true, reason: reasons::STARTED, message: messages::PODS_READY },
        (false, true) => {
            Readiness { holds: false, reason: reasons::WAIT_FOR_RECOVERY, message: messages::PODS_LOST }
        }
        (false, false) => {
            Readiness { holds: false, reason: reasons::WAIT_FOR_START, message: messages::PODS_NOT_READY }
        }
    }
}
