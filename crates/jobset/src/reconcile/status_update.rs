//! Builds the status update of a JobSet and the events that follow it.

use std::collections::BTreeMap;

use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::jobset::conditions;
use muster_api::event::EventType;
use muster_api::jobset::{JobSetStatus, ReplicatedJobStatus};
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::JobSetSnapshot;
use crate::child_jobs::ChildJobs;

/// Characters of an error message that a condition repeats, at most.
const MESSAGE_MAX: usize = 1024;

/// An event that follows the status update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventToEmit {
    pub severity: EventType,
    pub reason: Text,
    pub message: String,
}

/// A status under construction.
pub struct StatusUpdate<'a> {
    seen: &'a JobSetSnapshot<'a>,
    /// The status, with `replicatedJobsStatus` in the order of the spec.
    pub status: JobSetStatus,
    /// Emitted with the status update.
    pub events: Vec<EventToEmit>,
    /// Stalls that only a user or another controller can resolve.
    pub stalls: Vec<(&'static str, String)>,
    now: Time,
}

impl<'a> StatusUpdate<'a> {
    /// Starts from the old status with the current counts of Jobs.
    pub fn new(seen: &'a JobSetSnapshot<'a>, sorted: &ChildJobs<'_>) -> StatusUpdate<'a> {
        let status = JobSetStatus { jobs: tally(seen, sorted), ..seen.set.status.clone() };
        let (said, complaints) = (Vec::new(), Vec::new());
        StatusUpdate { seen, status, events: said, stalls: complaints, now: seen.now.whole_seconds() }
    }

    /// Sets a condition and emits an event if it changed. A `False` condition that was never set is not added.
    pub fn set(&mut self, severity: EventType, wanted: &DesiredCondition<'_>) {
        let all = &mut self.status.conditions;
        if !wanted.status && condition::find(all, wanted.condition_type).is_none() {
            return;
        }
        if wanted.status {
            set_false(all, opposite_of(wanted.condition_type));
        }
        if condition::set(all, wanted, self.now) {
            self.emit(severity, wanted.reason, wanted.message.to_owned());
        }
    }

    /// Emits an event with the status update.
    pub fn emit(&mut self, severity: EventType, reason: &str, message: String) {
        self.events.push(EventToEmit { severity, reason: reason.into(), message });
    }

    /// Ends a restart when all Jobs are ready or succeeded.
    pub fn all_ready(&mut self) {
        let ready: u64 =
            self.status.jobs.iter().map(|it| u64::from(it.ready) + u64::from(it.succeeded)).sum();
        if !self.seen.set.suspend && ready == self.seen.set.replicas() {
            self.not_restarting("JobsReady", "all jobs are ready");
        }
    }

    /// Sets the `Stalled` condition. While a failed create is retried the condition stays: flapping with each retry would
    /// lose its `lastTransitionTime`.
    pub fn stalled(&mut self, all: &[(Text, String)], is_trying: bool) {
        let conditions = &mut self.status.conditions;
        let kind = conditions::STALLED;
        if let Some(((reason, message), rest)) = all.split_first() {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            let message: String = message.chars().take(MESSAGE_MAX).chain(more.chars()).collect();
            let wanted = DesiredCondition { condition_type: kind, status: true, reason, message: &message };
            condition::set(conditions, &wanted, self.now);
        } else if condition::is_true(conditions, kind) && !is_trying {
            let message = "nothing is in the way of the jobset";
            let wanted =
                DesiredCondition { condition_type: kind, status: false, reason: "Progressing", message };
            condition::set(conditions, &wanted, self.now);
        }
    }

    /// Sets `Restarting` to false.
    pub fn not_restarting(&mut self, reason: &str, message: &str) {
        self.set(
            EventType::Normal,
            &DesiredCondition { condition_type: conditions::RESTARTING, status: false, reason, message },
        );
    }

    pub fn fail(&mut self, reason: &str, message: &str) {
        self.set(
            EventType::Warning,
            &DesiredCondition { condition_type: conditions::FAILED, status: true, reason, message },
        );
        self.not_restarting("JobSetFailed", "jobset failed");
        self.status.terminal = "Failed".into();
    }

    pub fn complete(&mut self) {
        let message = "jobset completed successfully";
        let wanted = DesiredCondition {
            condition_type: conditions::COMPLETED,
            status: true,
            reason: "AllJobsCompleted",
            message,
        };
        self.set(EventType::Normal, &wanted);
        self.not_restarting("JobSetCompleted", message);
        self.status.terminal = "Completed".into();
    }
}

/// `replicatedJobsStatus`, counted over the Jobs of the current attempt.
fn tally(seen: &JobSetSnapshot<'_>, sorted: &ChildJobs<'_>) -> Vec<ReplicatedJobStatus> {
    let kept: BTreeMap<&str, &ReplicatedJobStatus> =
        seen.set.status.jobs.iter().map(|it| (it.name.as_str(), it)).collect();
    let places: BTreeMap<&str, usize> =
        seen.set.jobs.iter().enumerate().map(|(at, it)| (it.name.as_str(), at)).collect();
    let mut all: Vec<ReplicatedJobStatus> = Vec::with_capacity(seen.set.jobs.len());
    for of in &seen.set.jobs {
        let kept = kept.get(of.name.as_str());
        all.push(ReplicatedJobStatus {
            name: of.name.clone(),
            restarts: kept.map(|it| it.restarts.clone()).unwrap_or_default(),
            counted: kept.map(|it| it.counted.clone()).unwrap_or_default(),
            ..ReplicatedJobStatus::default()
        });
    }
    let mut count = |group: Option<&str>, add: &dyn Fn(&mut ReplicatedJobStatus, u32)| {
        // A Job whose replicatedJob was removed is not counted.
        if let Some(at) = group.and_then(|name| places.get(name)) {
            add(&mut all[*at], seen.set.jobs[*at].pods());
        }
    };
    for child in &sorted.active {
        count(child.group, &|it, pods| {
            it.ready += u32::from(child.ready_or_succeeded >= pods);
            it.active += u32::from(child.active > 0);
            it.suspended += u32::from(child.suspend);
        });
    }
    sorted.successful.iter().for_each(|child| count(child.group, &|it, _| it.succeeded += 1));
    sorted.failed.iter().for_each(|child| count(child.group, &|it, _| it.failed += 1));
    all
}

/// The condition that excludes this one.
fn opposite_of(kind: &str) -> &'static str {
    match kind {
        conditions::STARTING => conditions::STARTED,
        conditions::STARTED => conditions::STARTING,
        _ => "",
    }
}

fn set_false(all: &mut [Tree], kind: &str) {
    for it in all.iter_mut().filter(|it| it.str_at(path::TYPE) == kind) {
        *it = it.with(path::STATUS, "False");
    }
}
