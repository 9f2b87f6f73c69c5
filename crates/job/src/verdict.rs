//! How a Job ends: the reasons, in the order in which they are looked at.

use std::time::Duration;

use muster_api::condition;
use muster_api::event::Severity;
use muster_api::job::{JobFacts, JobStatus};
use muster_api::paths::condition as path;
use muster_api::pod::Phase;
use muster_api::time::Time;
use muster_api::words::{conditions, reasons};

use crate::picture::Picture;
use crate::{Action, conditions as write, policy};

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
        Verdict::succeeded(reasons::COMPLETIONS_REACHED, "Reached expected number of succeeded pods")
    }

    fn succeeded(reason: &str, message: &str) -> Verdict {
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
        self.set(status, self.interim(), now);
    }

    fn interim(&self) -> &'static str {
        if self.success { conditions::SUCCESS_CRITERIA_MET } else { conditions::FAILURE_TARGET }
    }

    /// Sets the condition that is the end.
    pub fn set_last(&self, status: &mut JobStatus, now: Time) {
        self.set(status, if self.success { conditions::COMPLETE } else { conditions::FAILED }, now);
        if self.success {
            status.completion_time = Some(now);
        }
    }

    fn set(&self, status: &mut JobStatus, kind: &str, now: Time) {
        let wanted = condition::Wanted { kind, holds: true, reason: &self.reason, message: &self.message };
        write::set(&mut status.conditions, &wanted, now);
    }

    /// The event about the end.
    pub fn note(&self) -> Action {
        match self.success {
            true => Action::Note(Severity::Normal, reasons::COMPLETED.into(), "Job completed".to_owned()),
            false => Action::Note(Severity::Warning, self.reason.as_str().into(), self.message.clone()),
        }
    }
}

/// The end that is already announced, or one that the pods tell of. Failures come before successes.
pub fn before_managing(picture: &Picture<'_>) -> Option<Verdict> {
    let pods = || failure(picture).or_else(|| indexes_failed(picture)).or_else(|| enough(picture));
    announced(&picture.job.status).or_else(pods)
}

/// Whether the end is announced.
pub fn is_announced(status: &JobStatus) -> bool {
    announced(status).is_some()
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

fn failure(picture: &Picture<'_>) -> Option<Verdict> {
    let job = picture.job;
    let mut failed = picture.pods.iter().filter(|pod| picture.is_failed(pod));
    if let Some(message) = failed.find_map(|pod| policy::fails_job(job, pod)) {
        return Some(Verdict::failed(reasons::POD_FAILURE_POLICY, &message));
    }
    if picture.failed > job.backoff_limit || restarted_too_often(picture) {
        let message = "Job has reached the specified backoff limit";
        return Some(Verdict::failed(reasons::BACKOFF_LIMIT_EXCEEDED, message));
    }
    if deadline(job).is_some_and(|at| at <= picture.now) {
        let message = "Job was active longer than specified deadline";
        return Some(Verdict::failed(reasons::DEADLINE_EXCEEDED, message));
    }
    None
}

fn restarted_too_often(picture: &Picture<'_>) -> bool {
    if !picture.job.restarts_in_place {
        return false;
    }
    let alive = picture.pods.iter().filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
    let restarts: i64 = alive.map(|pod| pod.restarts).sum();
    restarts >= i64::from(picture.job.backoff_limit).max(1)
}

/// Too many indexes have failed, or some have and the others are done.
fn indexes_failed(picture: &Picture<'_>) -> Option<Verdict> {
    let failed = picture.failed_indexes.as_ref()?.len();
    if picture.job.max_failed_indexes.is_some_and(|max| failed > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(Verdict::failed(reasons::MAX_FAILED_INDEXES_EXCEEDED, message));
    }
    let all = failed.saturating_add(picture.completed.len()) >= picture.job.completions.unwrap_or(0);
    (failed > 0 && all).then(|| Verdict::failed(reasons::FAILED_INDEXES, "Job has failed indexes"))
}

fn enough(picture: &Picture<'_>) -> Option<Verdict> {
    let message = policy::success(picture.job, &picture.completed)?;
    Some(Verdict::succeeded(reasons::SUCCESS_POLICY, &message))
}

/// When the Job has run too long; never while it is suspended or has not begun.
pub fn deadline(job: &JobFacts) -> Option<Time> {
    let begun = job.status.start_time.filter(|_| !job.suspend)?;
    Some(begun + Duration::from_secs(job.deadline_secs?.into()))
}

/// Whether the goal is reached, with `active` pods still at work.
pub fn complete(picture: &Picture<'_>, active: u32) -> bool {
    let enough = match picture.job.completions {
        // A work queue: any success says that there is no more work.
        None => picture.succeeded > 0,
        Some(wanted) => picture.succeeded >= wanted,
    };
    enough && active == 0
}
