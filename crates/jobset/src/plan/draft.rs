//! The status as it will be, and what is to be told about it.

use std::collections::BTreeMap;

use muster_api::condition::{self, Wanted};
use muster_api::event::Severity;
use muster_api::jobset::{JobSetStatus, ReplicatedStatus};
use muster_api::paths::condition as path;
use muster_api::time::Time;
use muster_api::words::jobset::conditions;
use muster_tree::{Text, Tree};

use super::Observed;
use crate::children::Sorted;

/// Most characters of a message that is repeated in a condition: what a server refuses with may be long.
const MESSAGE_MAX: usize = 1024;

/// An event that follows the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    pub severity: Severity,
    pub reason: Text,
    pub message: String,
}

/// A status that is being written.
pub struct Draft<'a> {
    seen: &'a Observed<'a>,
    /// The status; its replicatedJobs stand as those of the spec do.
    pub status: JobSetStatus,
    /// What is told with it.
    pub said: Vec<Said>,
    /// What only somebody else can mend: told once, and looked at again.
    pub complaints: Vec<(&'static str, String)>,
    now: Time,
}

impl<'a> Draft<'a> {
    /// The status as it was, with the Jobs as they are.
    pub fn new(seen: &'a Observed<'a>, sorted: &Sorted<'_>) -> Draft<'a> {
        let status = JobSetStatus { jobs: tally(seen, sorted), ..seen.set.status.clone() };
        let (said, complaints) = (Vec::new(), Vec::new());
        Draft { seen, status, said, complaints, now: seen.now.whole_seconds() }
    }

    /// Sets a condition, and tells it when that changes anything. What does not hold and never did is not told.
    pub fn set(&mut self, severity: Severity, wanted: &Wanted<'_>) {
        let all = &mut self.status.conditions;
        if !wanted.holds && condition::find(all, wanted.kind).is_none() {
            return;
        }
        if wanted.holds {
            turn_off(all, other_of(wanted.kind));
        }
        if condition::set(all, wanted, self.now) {
            self.say(severity, wanted.reason, wanted.message.to_owned());
        }
    }

    /// Tells something with the status.
    pub fn say(&mut self, severity: Severity, reason: &str, message: String) {
        self.said.push(Said { severity, reason: reason.into(), message });
    }

    /// A restart is over when all Jobs are ready or done.
    pub fn all_ready(&mut self) {
        let ready: u64 =
            self.status.jobs.iter().map(|it| u64::from(it.ready) + u64::from(it.succeeded)).sum();
        if !self.seen.set.suspend && ready == self.seen.set.replicas() {
            self.not_restarting("JobsReady", "all jobs are ready");
        }
    }

    /// Says what keeps the JobSet from making progress, or that nothing does any more. While what was refused is tried again
    /// the condition stays as it is: a status that flaps with each try would hide since when it is so.
    pub fn stalled(&mut self, all: &[(Text, String)], is_trying: bool) {
        let conditions = &mut self.status.conditions;
        let kind = conditions::STALLED;
        if let Some(((reason, message), rest)) = all.split_first() {
            let more = if rest.is_empty() { String::new() } else { format!(" (and {} more)", rest.len()) };
            let message: String = message.chars().take(MESSAGE_MAX).chain(more.chars()).collect();
            let wanted = Wanted { kind, holds: true, reason, message: &message };
            condition::set(conditions, &wanted, self.now);
        } else if condition::holds(conditions, kind) && !is_trying {
            let message = "nothing is in the way of the jobset";
            let wanted = Wanted { kind, holds: false, reason: "Progressing", message };
            condition::set(conditions, &wanted, self.now);
        }
    }

    /// No restart is under way any more.
    pub fn not_restarting(&mut self, reason: &str, message: &str) {
        self.set(Severity::Normal, &Wanted { kind: conditions::RESTARTING, holds: false, reason, message });
    }

    /// It failed.
    pub fn fail(&mut self, reason: &str, message: &str) {
        self.set(Severity::Warning, &Wanted { kind: conditions::FAILED, holds: true, reason, message });
        self.not_restarting("JobSetFailed", "jobset failed");
        self.status.terminal = "Failed".into();
    }

    /// It is complete.
    pub fn complete(&mut self) {
        let message = "jobset completed successfully";
        let wanted = Wanted { kind: conditions::COMPLETED, holds: true, reason: "AllJobsCompleted", message };
        self.set(Severity::Normal, &wanted);
        self.not_restarting("JobSetCompleted", message);
        self.status.terminal = "Completed".into();
    }
}

/// Each replicatedJob, counted by the Jobs of the present attempt.
fn tally(seen: &Observed<'_>, sorted: &Sorted<'_>) -> Vec<ReplicatedStatus> {
    let kept: BTreeMap<&str, &ReplicatedStatus> =
        seen.set.status.jobs.iter().map(|it| (it.name.as_str(), it)).collect();
    let places: BTreeMap<&str, usize> =
        seen.set.jobs.iter().enumerate().map(|(at, it)| (it.name.as_str(), at)).collect();
    let mut all: Vec<ReplicatedStatus> = Vec::with_capacity(seen.set.jobs.len());
    for of in &seen.set.jobs {
        let kept = kept.get(of.name.as_str());
        all.push(ReplicatedStatus {
            name: of.name.clone(),
            restarts: kept.map(|it| it.restarts.clone()).unwrap_or_default(),
            counted: kept.map(|it| it.counted.clone()).unwrap_or_default(),
            ..ReplicatedStatus::default()
        });
    }
    let mut count = |group: Option<&str>, add: &dyn Fn(&mut ReplicatedStatus, u32)| {
        // A Job of no replicatedJob of ours is nobody's business.
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

/// The condition that cannot hold beside this one.
fn other_of(kind: &str) -> &'static str {
    match kind {
        conditions::STARTING => conditions::STARTED,
        conditions::STARTED => conditions::STARTING,
        _ => "",
    }
}

fn turn_off(all: &mut [Tree], kind: &str) {
    for it in all.iter_mut().filter(|it| it.str_at(path::TYPE) == kind) {
        *it = it.with(path::STATUS, "False");
    }
}
