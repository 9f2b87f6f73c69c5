//! Starts and stops jobs, and creates missing Workloads.

use muster_api::meta;
use muster_api::paths::pod;
use muster_api::queue::consts::{conditions, labels, reasons};
use muster_api::queue::paths::workload as path;
use muster_api::queue::{CheckState, Condition, NewWorkload, WorkloadFacts};
use muster_tree::{Text, Tree};

use super::{
    JobReconcilerAction, POD_SETS_MAX, QueuedJobSnapshot, WorkloadView, normal_event, queue_of, warning_event,
};
use crate::jobs::construct::{self, WorkloadParams};
use crate::jobs::generic_job::StopProgress;
use crate::jobs::naming::{self, WorkloadOwner};
use crate::jobs::podset_info::{self, PodSetInfo, PodSetInfoError};
use crate::jobs::priority::{PriorityClassNotFound, PrioritySources, resolve};

/// Event reason of a stopped job.
const STOPPED: &str = "Stopped";

/// The progress of a stop as actions.
pub(super) enum Stopping {
    Step(Vec<JobReconcilerAction>),
    Still,
}

/// The next action of a stop, with an event for the write that suspends.
pub(super) fn stop(
    snapshot: &QueuedJobSnapshot<'_>,
    infos: Option<&[PodSetInfo]>,
    message: &str,
) -> Stopping {
    match snapshot.job.stop(infos) {
        StopProgress::Step(step) => {
            let event = step.emits_event.then(|| normal_event(STOPPED, message));
            Stopping::Step([JobReconcilerAction::PatchJob(step.change)].into_iter().chain(event).collect())
        }
        // The other controller's update of the job reconciles it again.
        StopProgress::Wait(_) => Stopping::Step(Vec::new()),
        StopProgress::Stopped => Stopping::Still,
    }
}

/// The original pod template fields of each pod set.
pub(super) fn infos_of_spec(workload: &WorkloadFacts) -> Vec<PodSetInfo> {
    workload.pod_sets.iter().map(|set| PodSetInfo::of_template(&set.name, set.count, &set.template)).collect()
}

/// The Workload is being deleted: stops the job, and removes the finalizer once no pod uses its quota.
pub(super) fn reconcile_deleted_workload(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
) -> Vec<JobReconcilerAction> {
    if snapshot.job.outcome().is_none() {
        match stop(snapshot, Some(&infos_of_spec(&workload.facts)), "Workload is deleted") {
            Stopping::Step(steps) => return steps,
            Stopping::Still if snapshot.job.is_active() => return Vec::new(),
            Stopping::Still => {}
        }
    }
    super::drop_finalizer(workload)
}

/// The Workload is finished and has no quota. A job that did not finish with it (it could not be started) must not
/// run, even if a user unsuspends it.
pub(super) fn reconcile_finished(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
) -> Vec<JobReconcilerAction> {
    if snapshot.job.outcome().is_none() && !snapshot.job.is_suspended() {
        return stop_now(snapshot, &workload.facts, "The workload is finished");
    }
    super::drop_finalizer(workload)
}

/// Starts or stops the job by its Workload's admission.
pub(super) fn run_or_stop(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
) -> Vec<JobReconcilerAction> {
    let facts = &workload.facts;
    let evicted = facts.condition(conditions::EVICTED).filter(|it| it.holds);
    // A suspended job without quota may be changed by its user.
    let is_free = snapshot.job.is_suspended() && !facts.has_quota();
    if let Some(evicted) = evicted.filter(|_| !is_free) {
        match stop(snapshot, Some(&infos_of_spec(facts)), &evicted.message) {
            Stopping::Step(steps) => return steps,
            Stopping::Still if snapshot.job.is_active() => return Vec::new(),
            Stopping::Still => return vec![JobReconcilerAction::ReleaseQuota(workload.reference())],
        }
    }
    match (snapshot.job.is_suspended(), facts.is_admitted()) {
        (true, true) => start(snapshot, workload),
        (true, false) => wait(snapshot, workload),
        (false, true) if snapshot.job.has_podset_info() => Vec::new(),
        // A user unsuspended it before the PodSetInfo was applied: stop it and start over.
        (false, true) => stop_now(snapshot, facts, "Not started by its queue"),
        (false, false) => stop_now(snapshot, facts, "Not admitted by cluster queue"),
    }
}

fn stop_now(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadFacts,
    message: &str,
) -> Vec<JobReconcilerAction> {
    match stop(snapshot, Some(&infos_of_spec(workload)), message) {
        Stopping::Step(steps) => steps,
        Stopping::Still => Vec::new(),
    }
}

fn start(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Vec<JobReconcilerAction> {
    // Suspended externally: its pods are terminating, and templates are immutable until they are gone. Pod sets
    // that are not known yet may be later; the quota stays reserved.
    if snapshot.job.is_active() || snapshot.job.pod_sets().is_err() {
        return Vec::new();
    }
    let infos = match podset_info::of_workload(&workload.facts, snapshot.flavor) {
        Ok(infos) => infos,
        Err(PodSetInfoError::Clash(clash)) => return fail_to_start(snapshot, workload, &clash.to_string()),
        // The flavor may not be observed yet: its watch event reconciles the job.
        Err(PodSetInfoError::FlavorMissing(_) | PodSetInfoError::NotAdmitted) => return Vec::new(),
    };
    let step = match snapshot.job.start(&infos) {
        Ok(step) => step,
        Err(why) => return fail_to_start(snapshot, workload, &why.to_string()),
    };
    let queue = workload.facts.admission.as_ref().map(|it| it.cluster_queue.clone()).unwrap_or_default();
    let told =
        step.emits_event.then(|| normal_event(reasons::STARTED, format!("Admitted by clusterQueue {queue}")));
    [JobReconcilerAction::PatchJob(step.change)].into_iter().chain(told).collect()
}

/// The job can never be started: the Workload fails, and the job is not changed.
fn fail_to_start(
    snapshot: &QueuedJobSnapshot<'_>,
    workload: &WorkloadView<'_>,
    why: &str,
) -> Vec<JobReconcilerAction> {
    let condition = Condition::new(conditions::FINISHED, true, reasons::FAILED_TO_START, why, snapshot.now);
    let condition = condition.of_generation(workload.facts.generation);
    vec![
        JobReconcilerAction::SetCondition(workload.reference(), condition),
        warning_event(reasons::FAILED_TO_START, why),
    ]
}

/// The job is pending: reports check messages and follows a changed queue name.
fn wait(snapshot: &QueuedJobSnapshot<'_>, workload: &WorkloadView<'_>) -> Vec<JobReconcilerAction> {
    let facts = &workload.facts;
    if facts.has_quota() {
        return checks(facts).map(|words| normal_event(reasons::UPDATED_CHECK, words)).into_iter().collect();
    }
    if let Some(rest) = finish_incomplete_stop(snapshot) {
        return rest;
    }
    let queue = queue_of(snapshot.job.object());
    if queue == facts.queue {
        return Vec::new();
    }
    let value = if queue.is_empty() { Tree::Null } else { Tree::from(&queue) };
    vec![JobReconcilerAction::PatchWorkload(workload.reference(), Tree::Null.with(path::QUEUE, value))]
}

/// Completes a stop that takes several writes, on a suspended job without quota.
pub(super) fn finish_incomplete_stop(snapshot: &QueuedJobSnapshot<'_>) -> Option<Vec<JobReconcilerAction>> {
    match snapshot.job.stop(None) {
        StopProgress::Step(step) => Some(vec![JobReconcilerAction::PatchJob(step.change)]),
        StopProgress::Wait(_) => Some(Vec::new()),
        StopProgress::Stopped => None,
    }
}

/// The messages of pending checks.
fn checks(workload: &WorkloadFacts) -> Option<String> {
    let pending =
        workload.checks.iter().filter(|it| it.state == CheckState::Pending && !it.message.is_empty());
    let words: Vec<String> = pending.map(|it| format!("{}: {}", it.name, it.message)).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// Creates the Workload of a suspended job once none of its pods is active.
pub(super) fn without_workload(snapshot: &QueuedJobSnapshot<'_>) -> Vec<JobReconcilerAction> {
    if snapshot.job.outcome().is_some() || snapshot.job.is_active() || !snapshot.job.is_suspended() {
        return Vec::new();
    }
    match workload_to_create(snapshot) {
        Ok(workload) => {
            let message = format!("Created Workload: {}/{}", workload.namespace, workload.name);
            vec![
                JobReconcilerAction::CreateWorkload(workload.tree()),
                normal_event(reasons::CREATED_WORKLOAD, message),
            ]
        }
        Err(steps) => steps,
    }
}

/// The Workload to create, or the events that report why there is none.
pub(super) fn workload_to_create(
    snapshot: &QueuedJobSnapshot<'_>,
) -> Result<NewWorkload, Vec<JobReconcilerAction>> {
    let compose = |why: String| vec![warning_event(reasons::ERR_WORKLOAD_COMPOSE, why)];
    let (object, named) = (snapshot.job.object(), snapshot.job.kind());
    let pod_sets = snapshot.job.pod_sets().map_err(compose)?;
    if pod_sets.is_empty() || pod_sets.len() > POD_SETS_MAX {
        let found = pod_sets.len();
        return Err(compose(format!(
            "a Workload has 1 to {POD_SETS_MAX} pod sets, and this would have {found}"
        )));
    }
    let of_pods: Vec<Text> = pod_sets.iter().map(|set| set.template.text_at(pod::PRIORITY_CLASS)).collect();
    let label = meta::label(object, labels::PRIORITY_CLASS).unwrap_or_default();
    let sources = PrioritySources { label, of_job: snapshot.job.priority_class(), of_pods: &of_pods };
    let priority = resolve(sources, snapshot.classes).map_err(|missing| vec![class_missing(&missing)])?;
    let (name, uid) = (meta::name(object), meta::uid(object));
    // The name includes the UID: a recreated job gets another Workload.
    let maker = WorkloadOwner { kind: named.kind, group: named.group, name: &name, uid: &uid };
    let making = WorkloadParams {
        name: naming::workload_name(maker, snapshot.settings.name_limit),
        queue: queue_of(object),
        pod_sets,
        priority,
        label_keys: &snapshot.settings.label_keys,
    };
    Ok(construct::of_object(named.api_version, named.kind, object, making))
}

pub(super) fn class_missing(missing: &PriorityClassNotFound) -> JobReconcilerAction {
    let PriorityClassNotFound(class) = missing;
    let words = format!("{} {:?} not found", class.kind, class.name.as_str());
    warning_event(reasons::PRIORITY_CLASS_NOT_FOUND, words)
}
