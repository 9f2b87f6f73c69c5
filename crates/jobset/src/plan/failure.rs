//! What a failed Job means.

use muster_api::condition::Wanted;
use muster_api::event::Severity;
use muster_api::jobset::{FailureAction, Rule};
use muster_api::words::jobset::conditions;
use muster_schema::pattern;
use regex::Regex;

use super::draft::Draft;
use super::{Observed, reasons};
use crate::children::{Child, Ended, Sorted};

/// Decides what becomes of a JobSet with failed Jobs.
pub fn decide(seen: &Observed<'_>, sorted: &Sorted<'_>, draft: &mut Draft<'_>) {
    let Some(first) = earliest(sorted.failed.iter().copied()) else { return };
    let Some(policy) = &seen.set.failure else {
        let message =
            format!("jobset failed due to one or more job failures (first failed job: {})", first.this.name);
        return draft.fail("FailedJobs", &message);
    };
    let applied = policy.rules.iter().find_map(|rule| {
        // What is no expression is passed over.
        let patterns: Vec<Regex> = rule.patterns.iter().filter_map(|it| pattern::compile(it).ok()).collect();
        let those = sorted.failed.iter().copied().filter(|it| applies(rule, &patterns, it));
        earliest(those).map(|job| (rule, job))
    });
    let (action, job, reason) = match applied {
        Some((rule, job)) => (rule.action, job, format!("FailurePolicy_{}", rule.name)),
        None => (FailureAction::RestartJobSet, first, "DefaultFailurePolicy".to_owned()),
    };
    Applied { seen, job, action, reason, max_restarts: policy.max_restarts }.act(draft);
}

/// The one that failed first.
fn earliest<'a>(jobs: impl Iterator<Item = &'a Child<'a>>) -> Option<&'a Child<'a>> {
    let since = |it: &&Child<'_>| (it.ended.as_ref().and_then(|ended| ended.since), it.this.name.clone());
    jobs.min_by_key(since)
}

fn applies(rule: &Rule, patterns: &[Regex], job: &Child<'_>) -> bool {
    let Some(Ended { reason, message, .. }) = &job.ended else { return false };
    let target = || job.group.is_some_and(|name| rule.targets.iter().any(|it| it == name));
    (rule.reasons.is_empty() || rule.reasons.contains(reason))
        && (rule.patterns.is_empty() || patterns.iter().any(|it| it.is_match(message)))
        && (rule.targets.is_empty() || target())
}

/// An action that was chosen, and for which Job.
struct Applied<'a> {
    seen: &'a Observed<'a>,
    job: &'a Child<'a>,
    action: FailureAction,
    reason: String,
    max_restarts: i64,
}

impl Applied<'_> {
    fn act(&self, draft: &mut Draft<'_>) {
        let name = &self.job.this.name;
        let word = self.action.word();
        let message = format!("applying {word} failure policy action (first failed job: {name})");
        if self.action.is_single() && !self.seen.gates.restart_job {
            let message = format!(
                "{word} cannot be applied while the RestartJob feature gate is disabled (first failed job: {name}): enable it to go on"
            );
            return draft.complaints.push((reasons::ACTION_DISABLED, message));
        }
        let counts = matches!(self.action, FailureAction::RestartJobSet | FailureAction::RestartJob);
        if counts && self.counted() >= self.max_restarts {
            let message =
                format!("jobset failed due to reaching max number of restarts (first failed job: {name})");
            return draft.fail("ReachedMaxRestarts", &message);
        }
        match self.action {
            FailureAction::FailJobSet => draft.fail("FailJobSetFailurePolicyAction", &message),
            FailureAction::RestartJobSet | FailureAction::RestartJobSetAndIgnoreMaxRestarts => {
                draft.status.restarts += 1;
                draft.status.counted += u32::from(counts);
                self.restarting(draft, &message);
            }
            FailureAction::RestartJob | FailureAction::RestartJobAndIgnoreMaxRestarts => {
                if self.count_one(draft, counts) {
                    draft.say(Severity::Warning, &format!("{word}FailurePolicyAction"), message);
                } else {
                    let why = format!(
                        "job {:?} failed and is to be restarted, but its labels do not say which one of the jobset it is: delete it to go on",
                        name.as_str()
                    );
                    draft.complaints.push((reasons::LABELS_UNREADABLE, why));
                }
            }
        }
    }

    /// The condition, whose change is told, and the event of the action.
    fn restarting(&self, draft: &mut Draft<'_>, message: &str) {
        let wanted = Wanted { kind: conditions::RESTARTING, holds: true, reason: &self.reason, message };
        draft.set(Severity::Warning, &wanted);
        draft.say(
            Severity::Warning,
            &format!("{}FailurePolicyAction", self.action.word()),
            message.to_owned(),
        );
    }

    /// Restarts that count so far.
    fn counted(&self) -> i64 {
        let status = &self.seen.set.status;
        let single = || status.jobs.iter().flat_map(|it| &it.counted).map(|n| i64::from(*n)).sum();
        i64::from(status.counted) + if self.seen.gates.restart_job { single() } else { 0 }
    }

    /// One more restart of the Job alone; whether it is known which it is.
    fn count_one(&self, draft: &mut Draft<'_>, counts: bool) -> bool {
        let of = self.job.group.and_then(|name| self.seen.set.job(name));
        let (Some(of), Some(index)) = (of, self.job.index()) else { return false };
        let replicas = of.replicas as usize;
        let status = draft.status.jobs.iter_mut().find(|it| it.name == of.name);
        let (Some(status), true) = (status, (index as usize) < replicas) else { return false };
        status.restarts.resize(replicas, 0);
        status.restarts[index as usize] += 1;
        // Absent until the first restart that counts, as existing servers store it.
        if counts {
            status.counted.resize(replicas, 0);
            status.counted[index as usize] += 1;
        }
        true
    }
}
