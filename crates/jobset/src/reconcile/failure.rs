//! The failure policy.

use muster_api::condition::DesiredCondition;
use muster_api::consts::jobset::conditions;
use muster_api::event::EventType;
use muster_api::jobset::{FailurePolicyAction, FailurePolicyRule};
use muster_schema::pattern;
use regex::Regex;

use super::status_update::StatusUpdate;
use super::{JobSetSnapshot, reasons};
use crate::child_jobs::{ChildJob, ChildJobs, JobFinish};

/// Applies the first matching failure policy rule to a JobSet with failed Jobs.
pub fn apply_policy(seen: &JobSetSnapshot<'_>, sorted: &ChildJobs<'_>, draft: &mut StatusUpdate<'_>) {
    let Some(first) = earliest(sorted.failed.iter().copied()) else { return };
    let Some(policy) = &seen.set.failure else {
        let message = format!(
            "jobset failed due to one or more job failures (first failed job: {})",
            first.object_ref.name
        );
        return draft.fail("FailedJobs", &message);
    };
    let applied = policy.rules.iter().find_map(|rule| {
        // An invalid pattern matches nothing; admission warned about it.
        let patterns: Vec<Regex> = rule.patterns.iter().filter_map(|it| pattern::compile(it).ok()).collect();
        let those = sorted.failed.iter().copied().filter(|it| applies(rule, &patterns, it));
        earliest(those).map(|job| (rule, job))
    });
    let (action, job, reason) = match applied {
        Some((rule, job)) => (rule.action, job, format!("FailurePolicy_{}", rule.name)),
        None => (FailurePolicyAction::RestartJobSet, first, "DefaultFailurePolicy".to_owned()),
    };
    Applied { seen, job, action, reason, max_restarts: policy.max_restarts }.act(draft);
}

/// The Job that failed first.
fn earliest<'a>(jobs: impl Iterator<Item = &'a ChildJob<'a>>) -> Option<&'a ChildJob<'a>> {
    let since =
        |it: &&ChildJob<'_>| (it.ended.as_ref().and_then(|ended| ended.since), it.object_ref.name.clone());
    jobs.min_by_key(since)
}

fn applies(rule: &FailurePolicyRule, patterns: &[Regex], job: &ChildJob<'_>) -> bool {
    let Some(JobFinish { reason, message, .. }) = &job.ended else { return false };
    let target = || job.group.is_some_and(|name| rule.targets.iter().any(|it| it == name));
    (rule.reasons.is_empty() || rule.reasons.contains(reason))
        && (rule.patterns.is_empty() || patterns.iter().any(|it| it.is_match(message)))
        && (rule.targets.is_empty() || target())
}

/// The action of the matching rule, and the Job it applies to.
struct Applied<'a> {
    seen: &'a JobSetSnapshot<'a>,
    job: &'a ChildJob<'a>,
    action: FailurePolicyAction,
    reason: String,
    max_restarts: i64,
}

impl Applied<'_> {
    fn act(&self, draft: &mut StatusUpdate<'_>) {
        let name = &self.job.object_ref.name;
        let word = self.action.word();
        let message = format!("applying {word} failure policy action (first failed job: {name})");
        if self.action.is_single() && !self.seen.gates.restart_job {
            let message = format!(
                "{word} cannot be applied while the RestartJob feature gate is disabled (first failed job: {name}): enable it to go on"
            );
            return draft.stalls.push((reasons::ACTION_DISABLED, message));
        }
        // `...AndIgnoreMaxRestarts` and `FailJobSet` do not count towards `maxRestarts`.
        let counts =
            matches!(self.action, FailurePolicyAction::RestartJobSet | FailurePolicyAction::RestartJob);
        if counts && self.counted() >= self.max_restarts {
            let message =
                format!("jobset failed due to reaching max number of restarts (first failed job: {name})");
            return draft.fail("ReachedMaxRestarts", &message);
        }
        match self.action {
            FailurePolicyAction::FailJobSet => draft.fail("FailJobSetFailurePolicyAction", &message),
            FailurePolicyAction::RestartJobSet | FailurePolicyAction::RestartJobSetAndIgnoreMaxRestarts => {
                draft.status.restarts += 1;
                draft.status.counted += u32::from(counts);
                self.restarting(draft, &message);
            }
            FailurePolicyAction::RestartJob | FailurePolicyAction::RestartJobAndIgnoreMaxRestarts => {
                if self.count_one(draft, counts) {
                    draft.emit(EventType::Warning, &format!("{word}FailurePolicyAction"), message);
                } else {
                    let why = format!(
                        "job {:?} failed and is to be restarted, but its labels do not say which one of the jobset it is: delete it to go on",
                        name.as_str()
                    );
                    draft.stalls.push((reasons::LABELS_UNREADABLE, why));
                }
            }
        }
    }

    /// Sets `Restarting` and emits the event of the action.
    fn restarting(&self, draft: &mut StatusUpdate<'_>, message: &str) {
        let wanted = DesiredCondition {
            condition_type: conditions::RESTARTING,
            status: true,
            reason: &self.reason,
            message,
        };
        draft.set(EventType::Warning, &wanted);
        draft.emit(
            EventType::Warning,
            &format!("{}FailurePolicyAction", self.action.word()),
            message.to_owned(),
        );
    }

    /// Restarts counted towards `maxRestarts`.
    fn counted(&self) -> i64 {
        let status = &self.seen.set.status;
        let single = || status.jobs.iter().flat_map(|it| &it.counted).map(|n| i64::from(*n)).sum();
        i64::from(status.counted) + if self.seen.gates.restart_job { single() } else { 0 }
    }

    /// Counts a restart of one Job; `false` if its index is unknown.
    fn count_one(&self, draft: &mut StatusUpdate<'_>, counts: bool) -> bool {
        let of = self.job.group.and_then(|name| self.seen.set.job(name));
        let (Some(of), Some(index)) = (of, self.job.index()) else { return false };
        let replicas = of.replicas as usize;
        let status = draft.status.jobs.iter_mut().find(|it| it.name == of.name);
        let (Some(status), true) = (status, (index as usize) < replicas) else { return false };
        status.restarts.resize(replicas, 0);
        status.restarts[index as usize] += 1;
        // The list stays absent until the first counted restart: existing JobSets are stored without it.
        if counts {
            status.counted.resize(replicas, 0);
            status.counted[index as usize] += 1;
        }
        true
    }
}
