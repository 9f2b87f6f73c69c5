//! Workload updates that follow from the job: finished, priority, reclaimable pods, readiness.

use std::collections::BTreeMap;

use muster_api::meta;
use muster_api::queue::consts::{conditions, labels, messages, reasons};
use muster_api::queue::paths::workload as path;
use muster_api::queue::{Condition, WorkloadFacts};
use muster_tree::{Text, Tree};

use super::{JobReconcilerAction, QueuedJobSnapshot, WorkloadView, normal_event};
use crate::jobs::generic_job::JobOutcome;
use crate::jobs::priority::{PrioritySources, resolve};

/// Sets `Finished` with the job's outcome.
pub(super) fn finish(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
    end: &JobOutcome,
) -> Vec<JobReconcilerAction> {
    let reason = if end.succeeded { reasons::SUCCEEDED } else { reasons::FAILED };
    let condition = Condition::new(conditions::FINISHED, true, reason, &end.message, snapshot.now);
    let message = format!("Workload '{}' is declared finished", workload.key());
    vec![
        JobReconcilerAction::SetCondition(
            workload.reference(),
            condition.of_generation(workload.facts.generation),
        ),
        normal_event(reasons::FINISHED_WORKLOAD, message),
    ]
}

/// The first outdated field of the Workload; empty if all are up to date.
pub(super) fn sync_workload(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
) -> Vec<JobReconcilerAction> {
    let steps = priority(snapshot, workload);
    if !steps.is_empty() {
        return steps;
    }
    if let Some(step) = reclaimable(snapshot, workload) {
        return vec![step];
    }
    pods_ready(snapshot, workload).into_iter().collect()
}

/// The label's class, if it differs and may be applied.
fn changed_priority_class<'a>(
    snapshot: &'a QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
) -> Option<&'a str> {
    let label = meta::label(snapshot.job.object(), labels::PRIORITY_CLASS).filter(|it| !it.is_empty())?;
    let may_change = match &workload.facts.priority_class {
        Some(class) => class.is_workload() && class.name != label,
        // A class cannot be added once quota is reserved.
        None => !workload.facts.has_quota(),
    };
    may_change.then_some(label)
}

/// Follows a changed priority class label.
fn priority(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Vec<JobReconcilerAction> {
    let Some(label) = changed_priority_class(snapshot, workload) else { return Vec::new() };
    let Ok(resolved) = resolve(PrioritySources { label, of_job: "", of_pods: &[] }, snapshot.classes) else {
        return Vec::new();
    };
    let patch = Tree::Null
        .with(path::PRIORITY, resolved.priority)
        .with_option(path::PRIORITY_CLASS, resolved.class.map(|class| class.tree()));
    let message = format!("Updated workload priority class: {}", workload.key());
    vec![
        JobReconcilerAction::PatchWorkload(workload.reference(), patch),
        normal_event(reasons::UPDATED_WORKLOAD, message),
    ]
}

/// The label's class does not exist: the Workload keeps its class, and an event reports it.
pub(super) fn missing_priority_class_event(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
) -> Option<JobReconcilerAction> {
    let label = changed_priority_class(snapshot, workload)?;
    let missing = resolve(PrioritySources { label, of_job: "", of_pods: &[] }, snapshot.classes).err()?;
    Some(super::run::class_missing(&missing))
}

/// Reclaimable pods; counts never decrease while quota is reserved.
fn reclaimable(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Option<JobReconcilerAction> {
    let facts = &workload.facts;
    let mut free: BTreeMap<Text, u32> = snapshot.job.reclaimable_pods();
    // A job may report a pod set that its Workload does not have yet.
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
    (free != facts.reclaimable).then(|| JobReconcilerAction::SetReclaimablePods(workload.reference(), free))
}

fn pods_ready(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Option<JobReconcilerAction> {
    if !snapshot.settings.reports_pods_ready {
        return None;
    }
    let wanted = readiness(&workload.facts, snapshot.job.pods_ready());
    let old = workload.facts.condition(conditions::PODS_READY);
    let is_told = old.is_some_and(|it| (it.holds, it.reason.as_str()) == (wanted.holds, wanted.reason));
    let condition =
        Condition::new(conditions::PODS_READY, wanted.holds, wanted.reason, wanted.message, snapshot.now);
    (!is_told).then(|| {
        JobReconcilerAction::SetCondition(
            workload.reference(),
            condition.of_generation(workload.facts.generation),
        )
    })
}

/// The desired `PodsReady` condition.
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
