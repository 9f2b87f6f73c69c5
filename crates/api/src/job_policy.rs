//! The pod failure policy and the success policy of a Job.

use muster_tree::{Text, Tree};

use crate::paths::{failure_condition, failure_rule, job as path, success_rule};

/// `action` of a pod failure policy rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodFailureAction {
    /// The whole Job fails at once.
    FailJob,
    /// The index of the pod fails without further retries.
    FailIndex,
    /// The failure does not count against `backoffLimit`.
    Ignore,
    /// The failure counts as without a policy.
    Count,
}

/// The requirement of a pod failure policy rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodFailureMatcher {
    /// `onExitCodes`: a container terminated with a matching code other than 0.
    ExitCode {
        /// `containerName`; `None` matches any container.
        container: Option<Text>,
        /// Operator `In`; otherwise `NotIn`.
        among: bool,
        /// Exit codes of the operator.
        codes: Vec<i64>,
    },
    /// `onPodConditions`: the pod has one of these conditions, as type and status.
    Condition(Vec<(Text, Text)>),
    /// A requirement of a later version: matches nothing.
    Unknown,
}

/// One rule of `spec.podFailurePolicy`; the first that matches decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFailureRule {
    /// What a match does.
    pub action: PodFailureAction,
    /// What the rule matches.
    pub matcher: PodFailureMatcher,
}

/// One rule of `spec.successPolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessRule {
    /// `succeededIndexes` as text, for example `0,2-4`; `None` means all.
    pub indexes: Option<Text>,
    /// `succeededCount`; `None` means all of `indexes`.
    pub count: Option<u32>,
}

/// Reads the rules of the pod failure policy; `None` for a Job without one.
#[must_use]
pub fn failure_rules(job: &Tree) -> Option<Vec<PodFailureRule>> {
    job.at(path::FAILURE_POLICY).filter(|policy| policy.is_map())?;
    Some(job.items_at(path::FAILURE_RULES).iter().map(read_failure_rule).collect())
}

/// A rule with an unknown action matches nothing but keeps its index, which the failure message quotes.
fn read_failure_rule(rule: &Tree) -> PodFailureRule {
    let (action, sign) = match rule.str_at(failure_rule::ACTION) {
        "FailJob" => (PodFailureAction::FailJob, sign(rule)),
        "FailIndex" => (PodFailureAction::FailIndex, sign(rule)),
        "Ignore" => (PodFailureAction::Ignore, sign(rule)),
        "Count" => (PodFailureAction::Count, sign(rule)),
        _ => (PodFailureAction::Count, PodFailureMatcher::Unknown),
    };
    PodFailureRule { action, matcher: sign }
}

fn sign(rule: &Tree) -> PodFailureMatcher {
    if rule.at(failure_rule::ON_EXIT_CODES).is_some_and(Tree::is_map) {
        let among = match rule.str_at(failure_rule::OPERATOR) {
            "In" => true,
            "NotIn" => false,
            _ => return PodFailureMatcher::Unknown,
        };
        let container = rule.at(failure_rule::CONTAINER).and_then(|name| name.as_text().cloned());
        let codes = rule.items_at(failure_rule::CODES).iter().filter_map(Tree::as_int).collect();
        return PodFailureMatcher::ExitCode { container, among, codes };
    }
    let pair = |c: &Tree| (c.text_at(failure_condition::TYPE), c.text_at(failure_condition::STATUS));
    match rule.items_at(failure_rule::ON_CONDITIONS) {
        [] => PodFailureMatcher::Unknown,
        conditions => PodFailureMatcher::Condition(conditions.iter().map(pair).collect()),
    }
}

/// Reads the rules of the success policy; empty for a Job without one.
#[must_use]
pub fn success_rules(job: &Tree) -> Vec<SuccessRule> {
    let read = |rule: &Tree| SuccessRule {
        indexes: rule.at(success_rule::INDEXES).and_then(|text| text.as_text().cloned()),
        count: rule.int_at(success_rule::COUNT).and_then(|n| u32::try_from(n).ok()),
    };
    job.items_at(path::SUCCESS_RULES).iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn rules_are_read_in_their_order() {
        let job = tree!({"spec": {"podFailurePolicy": {"rules": [
            {"action": "FailJob", "onExitCodes": {"containerName": "c", "operator": "In", "values": [1, 42]}},
            {"action": "Surprise", "onExitCodes": {"operator": "In", "values": [1]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]},
            "successPolicy": {"rules": [{"succeededIndexes": "0,2-4", "succeededCount": 2}, {"succeededCount": 1}]}}});
        let rules = failure_rules(&job).unwrap();
        let code =
            PodFailureMatcher::ExitCode { container: Some("c".into()), among: true, codes: vec![1, 42] };
        assert_eq!(rules[0], PodFailureRule { action: PodFailureAction::FailJob, matcher: code });
        assert_eq!(rules[1].matcher, PodFailureMatcher::Unknown, "a rule we do not know matches nothing");
        let condition = PodFailureMatcher::Condition(vec![("DisruptionTarget".into(), "True".into())]);
        assert_eq!(rules[2], PodFailureRule { action: PodFailureAction::Ignore, matcher: condition });
        let first = SuccessRule { indexes: Some("0,2-4".into()), count: Some(2) };
        assert_eq!(success_rules(&job), [first, SuccessRule { indexes: None, count: Some(1) }]);
        assert_eq!(failure_rules(&tree!({"spec": {}})), None);
    }
}
