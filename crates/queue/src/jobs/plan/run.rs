//! Starting what may run and stopping what may not; making the Workload of a job that has none.

use muster_api::meta;
use muster_api::paths::pod;
use muster_api::queue::paths::workload as path;
use muster_api::queue::words::{conditions, labels, reasons};
use muster_api::queue::{Condition, NewWorkload, State, WorkloadFacts};
use muster_tree::{Text, Tree};

use super::{Action, Observed, POD_SETS_MAX, Seen, note, queue_of, warn};
use crate::jobs::construct::{self, Making};
use crate::jobs::infos::{self, Info, NotYet};
use crate::jobs::naming::{self, Maker};
use crate::jobs::priority::{Asked, Missing, resolve};
use crate::jobs::work::Stop;

/// Event: a job was stopped.
const STOPPED: &str = "Stopped";

/// A job on its way to standing still.
pub(super) enum Stopping {
    /// This comes next.
    Step(Vec<Action>),
    /// It stands still, and is as it should be.
    Still,
}

/// The next step of a stop; the one that keeps the job from running is told.
pub(super) fn stop(seen: &Observed<'_>, infos: Option<&[Info]>, message: &str) -> Stopping {
    match seen.job.stop(infos) {
        Stop::Step(step) => {
            let told = step.is_told.then(|| note(STOPPED, message));
            Stopping::Step([Action::ChangeJob(step.change)].into_iter().chain(told).collect())
        }
        // Whoever has to act first changes the job, and that wakes it.
        Stop::Wait(_) => Stopping::Step(Vec::new()),
        Stop::Still => Stopping::Still,
    }
}

/// What the pods of each set were like before anything was added.
pub(super) fn infos_of_spec(workload: &WorkloadFacts) -> Vec<Info> {
    workload.pod_sets.iter().map(|set| Info::of_template(&set.name, set.count, &set.template)).collect()
}

/// The Workload is being deleted: its job stops first, and its share is free once no pod has it any more.
pub(super) fn stop_for_deleted(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    if seen.job.ended().is_none() {
        match stop(seen, Some(&infos_of_spec(&workload.facts)), "Workload is deleted") {
            Stopping::Step(steps) => return steps,
            Stopping::Still if seen.job.is_active() => return Vec::new(),
            Stopping::Still => {}
        }
    }
    super::drop_finalizer(workload)
}

/// The Workload has ended: it has no share any more. A job that did not end with it, since it could not be started, does not
/// run either, whoever lets it.
pub(super) fn after_the_end(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    if seen.job.ended().is_none() && !seen.job.is_suspended() {
        return stop_at_once(seen, &workload.facts, "The workload is finished");
    }
    super::drop_finalizer(workload)
}

/// What the Workload says about running.
pub(super) fn run_or_stop(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    let facts = &workload.facts;
    let evicted = facts.condition(conditions::EVICTED).filter(|it| it.holds);
    // Once a job stands still and its share is gone it is its user's again, to change as he likes.
    let is_free = seen.job.is_suspended() && !facts.has_quota();
    if let Some(evicted) = evicted.filter(|_| !is_free) {
        match stop(seen, Some(&infos_of_spec(facts)), &evicted.message) {
            Stopping::Step(steps) => return steps,
            Stopping::Still if seen.job.is_active() => return Vec::new(),
            Stopping::Still => return vec![Action::ReleaseQuota(workload.this())],
        }
    }
    match (seen.job.is_suspended(), facts.is_admitted()) {
        (true, true) => start(seen, workload),
        (true, false) => wait(seen, workload),
        (false, true) if seen.job.is_as_started() => Vec::new(),
        // Somebody let it run before it had what admission gives: it begins again.
        (false, true) => stop_at_once(seen, facts, "Not started by its queue"),
        (false, false) => stop_at_once(seen, facts, "Not admitted by cluster queue"),
    }
}

fn stop_at_once(seen: &Observed<'_>, workload: &WorkloadFacts, message: &str) -> Vec<Action> {
    match stop(seen, Some(&infos_of_spec(workload)), message) {
        Stopping::Step(steps) => steps,
        Stopping::Still => Vec::new(),
    }
}

fn start(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    // Whoever suspended it from outside has pods on their way out; templates cannot change before they are gone. What
    // cannot be built now may be later, and waits with its share.
    if seen.job.is_active() || seen.job.pod_sets().is_err() {
        return Vec::new();
    }
    let infos = match infos::of_workload(&workload.facts, seen.flavor) {
        Ok(infos) => infos,
        Err(NotYet::Clash(clash)) => return fail_to_start(seen, workload, &clash.to_string()),
        // A flavor that is not seen yet may come: its arrival reconciles the job.
        Err(NotYet::FlavorMissing(_) | NotYet::NotAdmitted) => return Vec::new(),
    };
    let step = match seen.job.start(&infos) {
        Ok(step) => step,
        Err(why) => return fail_to_start(seen, workload, &why.to_string()),
    };
    let queue = workload.facts.admission.as_ref().map(|it| it.cluster_queue.clone()).unwrap_or_default();
    let told = step.is_told.then(|| note(reasons::STARTED, format!("Admitted by clusterQueue {queue}")));
    [Action::ChangeJob(step.change)].into_iter().chain(told).collect()
}

/// It can never be started like this: the Workload ends, and the job stays as it is.
fn fail_to_start(seen: &Observed<'_>, workload: &Seen<'_>, why: &str) -> Vec<Action> {
    let condition = Condition::new(conditions::FINISHED, true, reasons::FAILED_TO_START, why, seen.now);
    let condition = condition.of_generation(workload.facts.generation);
    vec![Action::SetCondition(workload.this(), condition), warn(reasons::FAILED_TO_START, why)]
}

/// The job waits: what checks say is told, and a queue that was changed is followed.
fn wait(seen: &Observed<'_>, workload: &Seen<'_>) -> Vec<Action> {
    let facts = &workload.facts;
    if facts.has_quota() {
        return checks(facts).map(|words| note(reasons::UPDATED_CHECK, words)).into_iter().collect();
    }
    if let Some(rest) = left_over(seen) {
        return rest;
    }
    let queue = queue_of(seen.job.object());
    if queue == facts.queue {
        return Vec::new();
    }
    let value = if queue.is_empty() { Tree::Null } else { Tree::from(&queue) };
    vec![Action::PatchWorkload(workload.this(), Tree::Null.with(path::QUEUE, value))]
}

/// What an earlier start left in a job that stands still and has no share, where a stop takes more than one write.
pub(super) fn left_over(seen: &Observed<'_>) -> Option<Vec<Action>> {
    match seen.job.stop(None) {
        Stop::Step(step) => Some(vec![Action::ChangeJob(step.change)]),
        Stop::Wait(_) => Some(Vec::new()),
        Stop::Still => None,
    }
}

/// What the checks that have not decided say.
fn checks(workload: &WorkloadFacts) -> Option<String> {
    let pending = workload.checks.iter().filter(|it| it.state == State::Pending && !it.message.is_empty());
    let words: Vec<String> = pending.map(|it| format!("{}: {}", it.name, it.message)).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// A job that stands still and has no Workload gets one, once none of its pods is active.
pub(super) fn without_workload(seen: &Observed<'_>) -> Vec<Action> {
    if seen.job.ended().is_some() || seen.job.is_active() || !seen.job.is_suspended() {
        return Vec::new();
    }
    match made(seen) {
        Ok(workload) => {
            let message = format!("Created Workload: {}/{}", workload.namespace, workload.name);
            vec![Action::CreateWorkload(workload.tree()), note(reasons::CREATED_WORKLOAD, message)]
        }
        Err(steps) => steps,
    }
}

/// The Workload of the job as it would be made now, or what is to be told instead.
pub(super) fn made(seen: &Observed<'_>) -> Result<NewWorkload, Vec<Action>> {
    let compose = |why: String| vec![warn(reasons::ERR_WORKLOAD_COMPOSE, why)];
    let (object, named) = (seen.job.object(), seen.job.named());
    let pod_sets = seen.job.pod_sets().map_err(compose)?;
    if pod_sets.is_empty() || pod_sets.len() > POD_SETS_MAX {
        let found = pod_sets.len();
        return Err(compose(format!(
            "a Workload has 1 to {POD_SETS_MAX} pod sets, and this would have {found}"
        )));
    }
    let of_pods: Vec<Text> = pod_sets.iter().map(|set| set.template.text_at(pod::PRIORITY_CLASS)).collect();
    let label = meta::label(object, labels::PRIORITY_CLASS).unwrap_or_default();
    let asked = Asked { label, of_job: seen.job.priority_class(), of_pods: &of_pods };
    let priority = resolve(asked, seen.classes).map_err(|missing| vec![class_missing(&missing)])?;
    let (name, uid) = (meta::name(object), meta::uid(object));
    let maker = Maker { kind: named.kind, group: named.group, name: &name, uid: &uid };
    let making = Making {
        name: naming::workload(maker, seen.settings.room),
        queue: queue_of(object),
        pod_sets,
        priority,
        label_keys: &seen.settings.label_keys,
    };
    Ok(construct::of_object(named.api_version, named.kind, object, making))
}

/// A class that is named is not there.
pub(super) fn class_missing(missing: &Missing) -> Action {
    let Missing(class) = missing;
    let words = format!("{} {:?} not found", class.kind, class.name.as_str());
    warn(reasons::PRIORITY_CLASS_NOT_FOUND, words)
}
