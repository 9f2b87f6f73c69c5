//! `spec.podFailurePolicy` and `spec.successPolicy`. The first rule that matches decides.

use muster_api::job::JobFacts;
use muster_api::job_pod::JobPod;
use muster_api::job_policy::{PodFailureAction, PodFailureMatcher, PodFailureRule, SuccessRule};

use crate::index_set::IndexSet;

/// The action of the pod failure policy for a failed pod; `None` when no rule matches.
pub fn failure_action(job: &JobFacts, pod: &JobPod) -> Option<PodFailureAction> {
    matching(job, pod).map(|found| found.rule.action)
}

/// Whether a failure counts towards the backoff limits: unless the action is Ignore.
pub fn counts_as_failure(job: &JobFacts, pod: &JobPod) -> bool {
    failure_action(job, pod) != Some(PodFailureAction::Ignore)
}

/// The condition message if this pod fails the whole Job.
pub fn fail_job_message(job: &JobFacts, pod: &JobPod) -> Option<String> {
    let found = matching(job, pod).filter(|found| found.rule.action == PodFailureAction::FailJob)?;
    let (at, on) = (found.at, format!("{}/{}", pod.namespace, pod.name));
    Some(match found.cause {
        MatchCause::ExitCode(container, code) => format!(
            "Container {container} for pod {on} failed with exit code {code} matching FailJob rule at index {at}"
        ),
        MatchCause::Condition(kind) => {
            format!("Pod {on} has condition {kind} matching FailJob rule at index {at}")
        }
    })
}

/// The condition message of the first success rule that these indexes meet.
pub fn success_message(job: &JobFacts, completed: &IndexSet) -> Option<String> {
    let met = |rule: &SuccessRule| match (&rule.indexes, rule.count) {
        (Some(text), count) => {
            let asked = IndexSet::parse(text, job.completions.unwrap_or(0));
            let done = asked.intersection_len(completed);
            !asked.is_empty() && (done == asked.len() || count.is_some_and(|count| done >= count))
        }
        (None, Some(count)) => completed.len() >= count,
        (None, None) => false,
    };
    let at = job.success_rules.iter().position(met).filter(|_| !completed.is_empty())?;
    Some(format!("Matched rules at index {at}"))
}

struct RuleMatch<'a> {
    at: usize,
    rule: &'a PodFailureRule,
    cause: MatchCause<'a>,
}

enum MatchCause<'a> {
    ExitCode(&'a str, i64),
    Condition(&'a str),
}

fn matching<'a>(job: &'a JobFacts, pod: &'a JobPod) -> Option<RuleMatch<'a>> {
    let rules = job.failure_rules.iter().flatten().enumerate();
    rules.filter_map(|(at, rule)| Some(RuleMatch { at, rule, cause: match_pod(&rule.matcher, pod)? })).next()
}

fn match_pod<'a>(sign: &PodFailureMatcher, pod: &'a JobPod) -> Option<MatchCause<'a>> {
    match sign {
        PodFailureMatcher::ExitCode { container, among, codes } => {
            let fits = |(name, code): &&(muster_tree::Text, i64)| {
                *code != 0
                    && container.as_ref().is_none_or(|wanted| wanted == name)
                    && codes.contains(code) == *among
            };
            pod.exit_codes.iter().find(fits).map(|(name, code)| MatchCause::ExitCode(name, *code))
        }
        PodFailureMatcher::Condition(wanted) => {
            let found = pod.conditions.iter().find(|condition| wanted.contains(condition));
            found.map(|(kind, _)| MatchCause::Condition(kind))
        }
        PodFailureMatcher::Unknown => None,
    }
}
