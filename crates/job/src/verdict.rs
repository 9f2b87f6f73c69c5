//! How a Job ends: the reasons, in the order in which they are looked at.

use std::time::Duration;

use muster_api::condition::{self, Wanted};
use muster_api::event::Severity;
use muster_api::job::{JobFacts, JobStatus};
use muster_api::paths::condition as path;
use muster_api::pod::Phase;
use muster_api::time::Time;
use muster_api::words::{conditions, reasons};

use crate::tally::{self, Tally};
use crate::{Action, Observed};

/// A decided end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    success: bool,
    reason: String,
    message: String,
}

impl Verdict {
    /// Enough pods succeeded.
    pub fn completed() -> Verdict {
        let (reason, message) = (reasons::COMPLETIONS_REACHED, "Reached expected number of succeeded pods");
        Verdict { success: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn failed(reason: &str, message: &str) -> Verdict {
        Verdict { success: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Whether the Job reached its goal.
    pub fn is_success(&self) -> bool {
        self.success
    }

    /// Sets the condition that announces the end.
    pub fn set_interim(&self, status: &mut JobStatus, now: Time) {
        let kind = if self.success { conditions::SUCCESS_CRITERIA_MET } else { conditions::FAILURE_TARGET };
        self.set(status, kind, now);
    }

    /// Sets the condition that is the end.
    pub fn set_last(&self, status: &mut JobStatus, now: Time) {
        self.set(status, if self.success { conditions::COMPLETE } else { conditions::FAILED }, now);
        if self.success {
            status.completion_time = Some(now);
        }
    }

    fn set(&self, status: &mut JobStatus, kind: &str, now: Time) {
        let wanted = Wanted { kind, holds: true, reason: &self.reason, message: &self.message };
        let known = condition::find(&status.conditions, kind).is_some();
        condition::set(&mut status.conditions, &wanted, now);
        if let (false, Some(last)) = (known, status.conditions.last_mut()) {
            *last = last.with(path::PROBED, now.to_seconds_text());
        }
    }

    /// The event about the end.
    pub fn note(&self) -> Action {
        match self.success {
            true => Action::Note(Severity::Normal, reasons::COMPLETED.into(), "Job completed".to_owned()),
            false => Action::Note(Severity::Warning, self.reason.as_str().into(), self.message.clone()),
        }
    }
}

/// The end that is already announced, or a failure seen now.
pub fn before_managing(seen: &Observed<'_>) -> Option<Verdict> {
    announced(&seen.job.status).or_else(|| failure(seen))
}

fn announced(status: &JobStatus) -> Option<Verdict> {
    let found = |kind: &str| {
        let condition = condition::find(&status.conditions, kind)?;
        (condition.str_at(path::STATUS) == "True").then_some(condition)
    };
    let (success, condition) = match found(conditions::SUCCESS_CRITERIA_MET) {
        Some(condition) => (true, condition),
        None => (false, found(conditions::FAILURE_TARGET)?),
    };
    let text = |path| condition.str_at(path).to_owned();
    Some(Verdict { success, reason: text(path::REASON), message: text(path::MESSAGE) })
}

fn failure(seen: &Observed<'_>) -> Option<Verdict> {
    let job = seen.job;
    if tally::failures(seen) > job.backoff_limit || restarted_too_often(seen) {
        let message = "Job has reached the specified backoff limit";
        return Some(Verdict::failed(reasons::BACKOFF_LIMIT_EXCEEDED, message));
    }
    if deadline(job).is_some_and(|at| at <= seen.now) {
        let message = "Job was active longer than specified deadline";
        return Some(Verdict::failed(reasons::DEADLINE_EXCEEDED, message));
    }
    None
}

fn restarted_too_often(seen: &Observed<'_>) -> bool {
    let alive = seen.pods.iter().filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = alive.map(|pod| pod.restarts).sum();
    seen.job.restarts_in_place && restarts > 0 && restarts >= i64::from(seen.job.backoff_limit)
}

/// When the Job has run too long; never while it is suspended or has not begun.
pub fn deadline(job: &JobFacts) -> Option<Time> {
    let begun = job.status.start_time.filter(|_| !job.suspend)?;
    Some(begun + Duration::from_secs(job.deadline_secs?.into()))
}

/// Whether the goal is reached, with `active` pods still at work.
pub fn complete(job: &JobFacts, tally: &Tally, active: u32) -> bool {
    let enough = match job.completions {
        // A work queue: any success says that there is no more work.
        None => tally.succeeded > 0,
        Some(wanted) => tally.succeeded >= wanted,
    };
    enough && active == 0
}
