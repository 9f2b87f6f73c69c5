//! What controllers count.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use muster_api::ports::Clock;
use muster_control::counters::{GroupNumbers, Scheduling, Waits, Work};
use muster_control::jobsets::JobSetNumbers;
use muster_control::run::Health;
use muster_trainer::life::numbers::Numbers as Trainings;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, family, gauge, gauges, histograms, queueing, seconds, training, waits};
use crate::ports::SystemClock;

/// The controller of TrainJobs, as it is counted.
const TRAIN_JOBS: &str = "trainjob_controller";

/// Tells all of it.
pub fn encode(into: &mut DescriptorEncoder<'_>, health: &Health) -> fmt::Result {
    let all = &health.counters;
    counter(into, "muster_controller_plans", "Keys that controllers looked at", all.plans)?;
    counter(into, "muster_controller_refusals", "Calls that were refused", all.refusals)?;
    let help = "Writes that the API server rejected for what they say: invalid, or forbidden";
    let rejected = all.rejected.iter();
    let rejected =
        rejected.map(|((verb, plural), count)| ([("verb", *verb), ("resource", plural.as_str())], *count));
    family(into, "muster_controller_rejected_writes", help, rejected)?;
    counter(into, "muster_controller_repeats", "Calls sent again after a lost reply", all.repeats)?;
    let help = "Events left out because their object, or the server, had too many waiting";
    counter(into, "muster_controller_events_dropped", help, all.events_dropped)?;
    gauge(into, "muster_controller_queue_length", "Keys that wait to be looked at", all.queue_len)?;
    gauge(into, "muster_controller_calls_in_flight", "Calls without a reply", all.in_flight)?;
    gauge(into, "muster_controller_running", "Whether the controllers run", health.running.into())?;
    gauge(into, "muster_controller_synced", "Whether all caches are filled", health.synced.into())?;
    let help = "Writes of controllers, by the field manager they write as";
    let writers = all.writes_by.iter().map(|(by, count)| ([("manager", by.as_str())], *count));
    family(into, "muster_controller_writes", help, writers)?;
    let kinds = all.calls_by.iter();
    let kinds =
        kinds.map(|((verb, plural), count)| ([("verb", *verb), ("resource", plural.as_str())], *count));
    family(into, "muster_controller_calls", "Calls of controllers", kinds)?;
    worked(into, &all.work)?;
    scheduling(into, &all.scheduling)?;
    jobsets(into, &all.jobsets)?;
    queueing::encode(into, &all.queueing.samples())?;
    match all.work.get(TRAIN_JOBS) {
        Some(work) => trainings(into, work, &all.training),
        None => Ok(()),
    }
}

/// What the TrainJob controller counts, as it is now: what remains until a deadline is nobody's to keep.
fn trainings(into: &mut DescriptorEncoder<'_>, work: &Work, all: &Trainings) -> fmt::Result {
    training::encode(into, &all.samples(SystemClock.now()))?;
    let help = "From looking at a TrainJob until its plan was carried out or refused";
    waits(into, "trainjob_reconcile_duration_seconds", help, &work.times)
}

/// What became of keys, under the names that controllers written in Go have for it.
fn worked(into: &mut DescriptorEncoder<'_>, all: &BTreeMap<&'static str, Work>) -> fmt::Result {
    let results = all.iter().flat_map(|(name, work)| {
        let counts = [("success", work.done), ("requeue_after", work.again), ("error", work.refused)];
        counts.map(|(result, count)| ([("controller", *name), ("result", result)], count))
    });
    family(into, "controller_runtime_reconcile", "Keys that were looked at, by what came of it", results)?;
    let each = |number: fn(&Work) -> u64| {
        all.iter().map(move |(name, work)| ([("controller", *name), ("name", *name)], number(work)))
    };
    let errors = all.iter().map(|(name, work)| ([("controller", *name)], work.refused));
    family(into, "controller_runtime_reconcile_errors", "Keys whose plan was refused", errors)?;
    let help = "From looking at a key until its plan was carried out or refused";
    let times = all.iter().map(|(name, work)| ([("controller", *name)], &work.times));
    histograms(into, "controller_runtime_reconcile_time_seconds", help, times)?;
    let busy = all.iter().map(|(name, work)| ([("controller", *name)], work.under_way));
    gauges(into, "controller_runtime_active_workers", "Keys whose plan is under way", busy)?;
    family(into, "workqueue_adds", "Keys that became ready", each(|work| work.adds))?;
    let help = "Keys to be looked at again after a refusal";
    family(into, "workqueue_retries", help, each(|work| work.refused))?;
    gauges(into, "workqueue_depth", "Keys that wait to be looked at", each(|work| work.ready))?;
    let named = |number: fn(&Work) -> &Waits| {
        all.iter().map(move |(name, work)| ([("controller", *name), ("name", *name)], number(work)))
    };
    let help = "How long keys waited to be looked at";
    histograms(into, "workqueue_queue_duration_seconds", help, named(|work| &work.waits))?;
    let help = "From looking at a key until its plan was carried out or refused";
    histograms(into, "workqueue_work_duration_seconds", help, named(|work| &work.times))?;
    let timed = |number: fn(&Work) -> Duration| {
        all.iter().map(move |(name, work)| ([("controller", *name), ("name", *name)], number(work)))
    };
    let help = "How long plans under way have been so, all together";
    seconds(into, "workqueue_unfinished_work_seconds", help, timed(|work| work.unfinished))?;
    let help = "How long the oldest plan under way has been so";
    seconds(into, "workqueue_longest_running_processor_seconds", help, timed(|work| work.longest))
}

/// What the JobSet controller counts; the first two have the names that dashboards know.
fn jobsets(into: &mut DescriptorEncoder<'_>, all: &JobSetNumbers) -> fmt::Result {
    let ends = [
        ("jobset_failed", "JobSets that failed", &all.failed),
        ("jobset_completed", "JobSets that completed", &all.completed),
    ];
    for (name, help, numbers) in ends {
        let labelled = numbers.iter();
        let labelled = labelled.map(|((namespace, set), count)| {
            ([("jobset_name", set.as_str()), ("namespace", namespace.as_str())], *count)
        });
        family(into, name, help, labelled)?;
    }
    let restarts = all.restarts.iter();
    let restarts = restarts.map(|((namespace, reason), count)| {
        ([("namespace", namespace.as_str()), ("reason", reason.as_str())], *count)
    });
    family(into, "jobset_restarts", "Restarts of whole JobSets", restarts)?;
    let help = "From a restart until all Jobs were ready";
    waits(into, "jobset_restart_duration_seconds", help, &all.restart_times)
}

/// What the scheduler counts, under the names that kube-scheduler has for it.
fn scheduling(into: &mut DescriptorEncoder<'_>, all: &Scheduling) -> fmt::Result {
    let attempts = all.attempts.iter();
    let attempts = attempts
        .map(|((profile, result), count)| ([("profile", profile.as_str()), ("result", *result)], *count));
    family(into, "scheduler_schedule_attempts", "Tries to give a pod a node", attempts)?;
    let help = "Pods without a node, by where they wait";
    let pending = all.pending.iter().map(|(place, count)| ([("queue", *place)], *count));
    gauges(into, "scheduler_pending_pods", help, pending)?;
    let help = "How long pods waited for a node, gates not counted";
    let name = "scheduler_pod_scheduling_sli_duration_seconds";
    waits(into, name, help, &all.waits)?;
    gangs(into, &all.gangs)
}

/// What the scheduler counts of gangs; the last two have no like in kube-scheduler.
fn gangs(into: &mut DescriptorEncoder<'_>, all: &GroupNumbers) -> fmt::Result {
    let attempts = all.attempts.iter().map(|(result, count)| ([("result", *result)], *count));
    family(into, "scheduler_podgroup_schedule_attempts", "Tries to place a group of pods", attempts)?;
    let help = "From finding places for pods of a group until all were bound to them";
    waits(into, "scheduler_podgroup_scheduling_attempt_duration_seconds", help, &all.times)?;
    let help = "From the first pod of a group until enough of them had nodes";
    waits(into, "muster_podgroup_scheduling_duration_seconds", help, &all.waits)?;
    let help = "Groups of pods, by their policy and whether enough pods have nodes";
    let word = |is: bool| if is { "true" } else { "false" };
    let groups = all.groups.iter();
    let groups =
        groups.map(|((policy, is), count)| ([("policy", *policy), ("scheduled", word(*is))], *count));
    gauges(into, "muster_podgroups", help, groups)
}
