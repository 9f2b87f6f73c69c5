//! Metrics of the controller runtime, the scheduler and the JobSet controller.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use muster_api::environment::Clock;
use muster_control::driver::RuntimeHealth;
use muster_control::jobsets::JobSetMetrics;
use muster_control::metrics::{DurationHistogram, PodGroupMetrics, SchedulerMetrics, WorkqueueMetrics};
use muster_trainer::controller::metrics::TrainJobMetrics as Trainings;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, family, gauge, gauges, histograms, queueing, seconds, training, waits};
use crate::ports::SystemClock;

/// The `controller` label of the TrainJob controller.
const TRAIN_JOBS: &str = "trainjob_controller";

/// Encodes all of them.
pub fn encode(into: &mut DescriptorEncoder<'_>, health: &RuntimeHealth) -> fmt::Result {
    let all = &health.metrics;
    counter(into, "muster_controller_plans", "Reconciliations", all.reconciles)?;
    counter(into, "muster_controller_refusals", "Requests that failed", all.request_errors)?;
    let help = "Writes that the API server rejected as invalid or forbidden";
    let rejected = all.rejected.iter();
    let rejected =
        rejected.map(|((verb, plural), count)| ([("verb", *verb), ("resource", plural.as_str())], *count));
    family(into, "muster_controller_rejected_writes", help, rejected)?;
    counter(into, "muster_controller_repeats", "Requests sent again after a lost reply", all.retries)?;
    let help = "Events dropped because too many were pending for their object or in total";
    counter(into, "muster_controller_events_dropped", help, all.events_dropped)?;
    gauge(into, "muster_controller_queue_length", "Keys in the workqueue", all.queue_len)?;
    gauge(into, "muster_controller_calls_in_flight", "Requests in flight", all.in_flight)?;
    gauge(into, "muster_controller_running", "Whether the controllers are running", health.running.into())?;
    gauge(into, "muster_controller_synced", "Whether all caches are synced", health.synced.into())?;
    let help = "Writes of controllers, by field manager";
    let writers = all.writes_by_manager.iter().map(|(by, count)| ([("manager", by.as_str())], *count));
    family(into, "muster_controller_writes", help, writers)?;
    let kinds = all.requests_by_verb.iter();
    let kinds =
        kinds.map(|((verb, plural), count)| ([("verb", *verb), ("resource", plural.as_str())], *count));
    family(into, "muster_controller_calls", "Requests of controllers, by verb and resource", kinds)?;
    workqueues(into, &all.workqueues)?;
    scheduling(into, &all.scheduling)?;
    jobsets(into, &all.jobsets)?;
    queueing::encode(into, &all.queueing.samples())?;
    match all.workqueues.get(TRAIN_JOBS) {
        Some(work) => trainjobs(into, work, &all.training),
        None => Ok(()),
    }
}

/// TrainJob metrics at this instant: the time left until a deadline changes without an event.
fn trainjobs(into: &mut DescriptorEncoder<'_>, work: &WorkqueueMetrics, all: &Trainings) -> fmt::Result {
    training::encode(into, &all.samples(SystemClock.now()))?;
    let help = "Duration of a TrainJob reconciliation, its requests included";
    waits(into, "trainjob_reconcile_duration_seconds", help, &work.work_duration)
}

/// Workqueue and reconcile metrics, under the names of controller-runtime and client-go.
fn workqueues(
    into: &mut DescriptorEncoder<'_>,
    all: &BTreeMap<&'static str, WorkqueueMetrics>,
) -> fmt::Result {
    let results = all.iter().flat_map(|(name, work)| {
        let counts = [("success", work.done), ("requeue_after", work.requeues), ("error", work.errors)];
        counts.map(|(result, count)| ([("controller", *name), ("result", result)], count))
    });
    family(into, "controller_runtime_reconcile", "Reconciliations, by result", results)?;
    let each = |number: fn(&WorkqueueMetrics) -> u64| {
        all.iter().map(move |(name, work)| ([("controller", *name), ("name", *name)], number(work)))
    };
    let errors = all.iter().map(|(name, work)| ([("controller", *name)], work.errors));
    family(into, "controller_runtime_reconcile_errors", "Reconciliations that failed", errors)?;
    let help = "Duration of a reconciliation, its requests included";
    let times = all.iter().map(|(name, work)| ([("controller", *name)], &work.work_duration));
    histograms(into, "controller_runtime_reconcile_time_seconds", help, times)?;
    let busy = all.iter().map(|(name, work)| ([("controller", *name)], work.active_workers));
    gauges(into, "controller_runtime_active_workers", "Reconciliations in progress", busy)?;
    family(into, "workqueue_adds", "Keys added to the workqueue", each(|work| work.adds))?;
    let help = "Keys requeued after a failure";
    family(into, "workqueue_retries", help, each(|work| work.errors))?;
    gauges(into, "workqueue_depth", "Keys in the workqueue", each(|work| work.depth))?;
    let named = |number: fn(&WorkqueueMetrics) -> &DurationHistogram| {
        all.iter().map(move |(name, work)| ([("controller", *name), ("name", *name)], number(work)))
    };
    let help = "Time of keys in the workqueue";
    histograms(into, "workqueue_queue_duration_seconds", help, named(|work| &work.queue_duration))?;
    let help = "Duration of a reconciliation, its requests included";
    histograms(into, "workqueue_work_duration_seconds", help, named(|work| &work.work_duration))?;
    let timed = |number: fn(&WorkqueueMetrics) -> Duration| {
        all.iter().map(move |(name, work)| ([("controller", *name), ("name", *name)], number(work)))
    };
    let help = "Duration of all reconciliations in progress together";
    seconds(into, "workqueue_unfinished_work_seconds", help, timed(|work| work.unfinished_work))?;
    let help = "Duration of the longest reconciliation in progress";
    seconds(into, "workqueue_longest_running_processor_seconds", help, timed(|work| work.longest_running))
}

/// JobSet metrics; the first two have the names of the upstream controller.
fn jobsets(into: &mut DescriptorEncoder<'_>, all: &JobSetMetrics) -> fmt::Result {
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
    let help = "Time from a restart until all Jobs were ready";
    waits(into, "jobset_restart_duration_seconds", help, &all.restart_times)
}

/// Scheduler metrics, under the names of kube-scheduler.
fn scheduling(into: &mut DescriptorEncoder<'_>, all: &SchedulerMetrics) -> fmt::Result {
    let attempts = all.attempts.iter();
    let attempts = attempts
        .map(|((profile, result), count)| ([("profile", profile.as_str()), ("result", *result)], *count));
    family(into, "scheduler_schedule_attempts", "Attempts to schedule pods, by result", attempts)?;
    let help = "Pending pods, by queue";
    let pending = all.pending.iter().map(|(place, count)| ([("queue", *place)], *count));
    gauges(into, "scheduler_pending_pods", help, pending)?;
    let help = "Time until pods were scheduled, scheduling gates excluded";
    let name = "scheduler_pod_scheduling_sli_duration_seconds";
    waits(into, name, help, &all.waits)?;
    gangs(into, &all.gangs)
}

/// Gang metrics; the last two have no counterpart in kube-scheduler.
fn gangs(into: &mut DescriptorEncoder<'_>, all: &PodGroupMetrics) -> fmt::Result {
    let attempts = all.attempts.iter().map(|(result, count)| ([("result", *result)], *count));
    family(
        into,
        "scheduler_podgroup_schedule_attempts",
        "Attempts to schedule pod groups, by result",
        attempts,
    )?;
    let help = "Time from the placement of a pod group until all its pods were bound";
    waits(into, "scheduler_podgroup_scheduling_attempt_duration_seconds", help, &all.times)?;
    let help = "Time from the first pod of a group until its minimum was scheduled";
    waits(into, "muster_podgroup_scheduling_duration_seconds", help, &all.waits)?;
    let help = "Pod groups, by policy and whether their minimum is scheduled";
    let word = |is: bool| if is { "true" } else { "false" };
    let groups = all.groups.iter();
    let groups =
        groups.map(|((policy, is), count)| ([("policy", *policy), ("scheduled", word(*is))], *count));
    gauges(into, "muster_podgroups", help, groups)
}
