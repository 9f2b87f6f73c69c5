//! What the failure of a pod means, and when enough has succeeded.
//!
//! The rules of a policy are asked in order; the first that matches decides.

use muster_api::job::JobFacts;
use muster_api::job_pod::JobPod;
use muster_api::job_policy::{FailureAction, FailureRule, FailureSign, SuccessRule};

use crate::indexes::Indexes;

/// What the policy says about a failed pod; nothing when no rule matches.
pub fn action(job: &JobFacts, pod: &JobPod) -> Option<FailureAction> {
    matching(job, pod).map(|found| found.rule.action)
}

/// Whether a failure counts towards the limits.
pub fn counts(job: &JobFacts, pod: &JobPod) -> bool {
    action(job, pod) != Some(FailureAction::Ignore)
}

/// Why the whole Job fails because of this pod, if it does.
pub fn fails_job(job: &JobFacts, pod: &JobPod) -> Option<String> {
    let found = matching(job, pod).filter(|found| found.rule.action == FailureAction::FailJob)?;
    let (at, on) = (found.at, format!("{}/{}", pod.namespace, pod.name));
    Some(match found.because {
        Because::Code(container, code) => format!(
            "Container {container} for pod {on} failed with exit code {code} matching FailJob rule at index {at}"
        ),
        Because::Condition(kind) => {
            format!("Pod {on} has condition {kind} matching FailJob rule at index {at}")
        }
    })
}

/// The rule that is met by these indexes, in words.
pub fn success(job: &JobFacts, completed: &Indexes) -> Option<String> {
    let met = |rule: &SuccessRule| match (&rule.indexes, rule.count) {
        (Some(text), count) => {
            let asked = Indexes::parse(text, job.completions.unwrap_or(0));
            let done = asked.shared(completed);
            !asked.is_empty() && (done == asked.len() || count.is_some_and(|count| done >= count))
        }
        (None, Some(count)) => completed.len() >= count,
        (None, None) => false,
    };
    let at = job.success_rules.iter().position(met).filter(|_| !completed.is_empty())?;
    Some(format!("Matched rules at index {at}"))
}

struct Found<'a> {
    at: usize,
    rule: &'a FailureRule,
    because: Because<'a>,
}

enum Because<'a> {
    Code(&'a str, i64),
    Condition(&'a str),
}

fn matching<'a>(job: &'a JobFacts, pod: &'a JobPod) -> Option<Found<'a>> {
    let rules = job.failure_rules.iter().flatten().enumerate();
    rules.filter_map(|(at, rule)| Some(Found { at, rule, because: sign_of(&rule.sign, pod)? })).next()
}

fn sign_of<'a>(sign: &FailureSign, pod: &'a JobPod) -> Option<Because<'a>> {
    match sign {
        FailureSign::ExitCode { container, among, codes } => {
            let fits = |(name, code): &&(muster_tree::Text, i64)| {
                *code != 0
                    && container.as_ref().is_none_or(|wanted| wanted == name)
                    && codes.contains(code) == *among
            };
            pod.ends.iter().find(fits).map(|(name, code)| Because::Code(name, *code))
        }
        FailureSign::Condition(wanted) => {
            let found = pod.conditions.iter().find(|condition| wanted.contains(condition));
            found.map(|(kind, _)| Because::Condition(kind))
        }
        FailureSign::Unknown => None,
    }
}
