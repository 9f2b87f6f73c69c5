//! Why a Job finishes: the conditions in the order in which upstream evaluates them.

use std::time::Duration;

use muster_api::condition;
use muster_api::consts::{conditions, reasons};
use muster_api::event::EventType;
use muster_api::job::{JobFacts, JobStatus};
use muster_api::paths::condition as path;
use muster_api::pod::PodPhase;
use muster_api::time::Time;

use crate::sync_context::SyncContext;
use crate::{JobAction, conditions as write, policies};

/// The condition with which a Job finishes (upstream's `finishedCondition`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedCondition {
    success: bool,
    reason: String,
    message: String,
}

impl FinishedCondition {
    /// All completions are reached.
    pub fn completed() -> FinishedCondition {
        FinishedCondition::succeeded(
            reasons::COMPLETIONS_REACHED,
            "Reached expected number of succeeded pods",
        )
    }

    fn succeeded(reason: &str, message: &str) -> FinishedCondition {
        FinishedCondition { success: true, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn failed(reason: &str, message: &str) -> FinishedCondition {
        FinishedCondition { success: false, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Whether the Job succeeds.
    pub fn is_success(&self) -> bool {
        self.success
    }

    /// Sets SuccessCriteriaMet or FailureTarget.
    pub fn set_interim(&self, status: &mut JobStatus, now: Time) {
        self.set(status, self.interim(), now);
    }

    fn interim(&self) -> &'static str {
        if self.success { conditions::SUCCESS_CRITERIA_MET } else { conditions::FAILURE_TARGET }
    }

    /// Sets Complete or Failed.
    pub fn set_terminal(&self, status: &mut JobStatus, now: Time) {
        self.set(status, if self.success { conditions::COMPLETE } else { conditions::FAILED }, now);
        if self.success {
            status.completion_time = Some(now);
        }
    }

    fn set(&self, status: &mut JobStatus, kind: &str, now: Time) {
        let wanted = condition::DesiredCondition {
            condition_type: kind,
            status: true,
            reason: &self.reason,
            message: &self.message,
        };
        write::set(&mut status.conditions, &wanted, now);
    }

    pub fn event(&self) -> JobAction {
        match self.success {
            true => {
                JobAction::Event(EventType::Normal, reasons::COMPLETED.into(), "Job completed".to_owned())
            }
            false => JobAction::Event(EventType::Warning, self.reason.as_str().into(), self.message.clone()),
        }
    }
}

/// The interim condition that the status already has, else one that follows from the pods. Failures come before successes.
pub fn find_finished(ctx: &SyncContext<'_>) -> Option<FinishedCondition> {
    let pods = || failure_condition(ctx).or_else(|| indexes_failed(ctx)).or_else(|| success_policy_met(ctx));
    from_interim_condition(&ctx.job.status).or_else(pods)
}

/// Whether the status has SuccessCriteriaMet or FailureTarget.
pub fn has_interim_condition(status: &JobStatus) -> bool {
    from_interim_condition(status).is_some()
}

fn from_interim_condition(status: &JobStatus) -> Option<FinishedCondition> {
    let found = |kind: &str| {
        let condition = condition::find(&status.conditions, kind)?;
        (condition.str_at(path::STATUS) == "True").then_some(condition)
    };
    let (success, condition) = match found(conditions::SUCCESS_CRITERIA_MET) {
        Some(condition) => (true, condition),
        None => (false, found(conditions::FAILURE_TARGET)?),
    };
    let text = |path| condition.str_at(path).to_owned();
    Some(FinishedCondition { success, reason: text(path::REASON), message: text(path::MESSAGE) })
}

fn failure_condition(ctx: &SyncContext<'_>) -> Option<FinishedCondition> {
    let job = ctx.job;
    let mut failed = ctx.pods.iter().filter(|pod| ctx.is_failed(pod));
    if let Some(message) = failed.find_map(|pod| policies::fail_job_message(job, pod)) {
        return Some(FinishedCondition::failed(reasons::POD_FAILURE_POLICY, &message));
    }
    if ctx.failed > job.backoff_limit || past_backoff_limit_in_place(ctx) {
        let message = "Job has reached the specified backoff limit";
        return Some(FinishedCondition::failed(reasons::BACKOFF_LIMIT_EXCEEDED, message));
    }
    if deadline(job).is_some_and(|at| at <= ctx.now) {
        let message = "Job was active longer than specified deadline";
        return Some(FinishedCondition::failed(reasons::DEADLINE_EXCEEDED, message));
    }
    None
}

fn past_backoff_limit_in_place(ctx: &SyncContext<'_>) -> bool {
    if !ctx.job.restart_on_failure {
        return false;
    }
    let alive = ctx.pods.iter().filter(|pod| matches!(pod.phase, PodPhase::Running | PodPhase::Pending));
    let restarts: i64 = alive.map(|pod| pod.restarts).sum();
    restarts >= i64::from(ctx.job.backoff_limit).max(1)
}

/// More indexes than `maxFailedIndexes` failed, or some failed and all others completed.
fn indexes_failed(ctx: &SyncContext<'_>) -> Option<FinishedCondition> {
    let failed = ctx.failed_indexes.as_ref()?.len();
    if ctx.job.max_failed_indexes.is_some_and(|max| failed > max) {
        let message = "Job has exceeded the specified maximal number of failed indexes";
        return Some(FinishedCondition::failed(reasons::MAX_FAILED_INDEXES_EXCEEDED, message));
    }
    let all = failed.saturating_add(ctx.completed.len()) >= ctx.job.completions.unwrap_or(0);
    (failed > 0 && all).then(|| FinishedCondition::failed(reasons::FAILED_INDEXES, "Job has failed indexes"))
}

fn success_policy_met(ctx: &SyncContext<'_>) -> Option<FinishedCondition> {
    let message = policies::success_message(ctx.job, &ctx.completed)?;
    Some(FinishedCondition::succeeded(reasons::SUCCESS_POLICY, &message))
}

/// When `activeDeadlineSeconds` has passed; `None` while the Job is suspended or not started.
pub fn deadline(job: &JobFacts) -> Option<Time> {
    let begun = job.status.start_time.filter(|_| !job.suspend)?;
    Some(begun + Duration::from_secs(job.active_deadline_secs?.into()))
}

/// Whether the completions are reached and none of `active` pods runs any more.
pub fn is_complete(ctx: &SyncContext<'_>, active: u32) -> bool {
    let enough = match ctx.job.completions {
        // A work queue: one success means that the queue is empty.
        None => ctx.succeeded > 0,
        Some(wanted) => ctx.succeeded >= wanted,
    };
    enough && active == 0
}
