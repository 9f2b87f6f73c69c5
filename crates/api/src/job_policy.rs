//! The policies of a Job: what a pod's failure means, and when enough has succeeded.

use muster_tree::{Text, Tree};

use crate::paths::{failure_condition, failure_rule, job as path, success_rule};

/// What a matching rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureAction {
    /// The whole Job fails.
    FailJob,
    /// The pod's index fails.
    FailIndex,
    /// The failure does not count.
    Ignore,
    /// The failure counts as if there were no rule.
    Count,
}

/// What a rule looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureSign {
    /// A container ended with a code other than 0.
    ExitCode {
        /// Only this container.
        container: Option<Text>,
        /// Whether the code must be among `codes`, or must not.
        among: bool,
        /// The codes.
        codes: Vec<i64>,
    },
    /// The pod has one of these conditions: type and status.
    Condition(Vec<(Text, Text)>),
    /// Nothing we know.
    Unknown,
}

/// One rule of `spec.podFailurePolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRule {
    /// What happens.
    pub action: FailureAction,
    /// When.
    pub sign: FailureSign,
}

/// One rule of `spec.successPolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuccessRule {
    /// The indexes it is about, as text; all when absent.
    pub indexes: Option<Text>,
    /// How many of them are enough; all when absent.
    pub count: Option<u32>,
}

/// Reads the rules of the pod failure policy; none when the Job has no such policy.
#[must_use]
pub fn failure_rules(job: &Tree) -> Option<Vec<FailureRule>> {
    job.at(path::FAILURE_POLICY).filter(|policy| policy.is_map())?;
    Some(job.items_at(path::FAILURE_RULES).iter().map(read_failure_rule).collect())
}

/// A rule whose action we do not know does nothing, but keeps its place in the numbering.
fn read_failure_rule(rule: &Tree) -> FailureRule {
    let (action, sign) = match rule.str_at(failure_rule::ACTION) {
        "FailJob" => (FailureAction::FailJob, sign(rule)),
        "FailIndex" => (FailureAction::FailIndex, sign(rule)),
        "Ignore" => (FailureAction::Ignore, sign(rule)),
        "Count" => (FailureAction::Count, sign(rule)),
        _ => (FailureAction::Count, FailureSign::Unknown),
    };
    FailureRule { action, sign }
}

fn sign(rule: &Tree) -> FailureSign {
    if rule.at(failure_rule::ON_EXIT_CODES).is_some_and(Tree::is_map) {
        let among = match rule.str_at(failure_rule::OPERATOR) {
            "In" => true,
            "NotIn" => false,
            _ => return FailureSign::Unknown,
        };
        let container = rule.at(failure_rule::CONTAINER).and_then(|name| name.as_text().cloned());
        let codes = rule.items_at(failure_rule::CODES).iter().filter_map(Tree::as_int).collect();
        return FailureSign::ExitCode { container, among, codes };
    }
    let pair = |c: &Tree| (c.text_at(failure_condition::TYPE), c.text_at(failure_condition::STATUS));
    match rule.items_at(failure_rule::ON_CONDITIONS) {
        [] => FailureSign::Unknown,
        conditions => FailureSign::Condition(conditions.iter().map(pair).collect()),
    }
}

/// Reads the rules of the success policy.
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
        let code = FailureSign::ExitCode { container: Some("c".into()), among: true, codes: vec![1, 42] };
        assert_eq!(rules[0], FailureRule { action: FailureAction::FailJob, sign: code });
        assert_eq!(rules[1].sign, FailureSign::Unknown, "a rule we do not know matches nothing");
        let condition = FailureSign::Condition(vec![("DisruptionTarget".into(), "True".into())]);
        assert_eq!(rules[2], FailureRule { action: FailureAction::Ignore, sign: condition });
        let first = SuccessRule { indexes: Some("0,2-4".into()), count: Some(2) };
        assert_eq!(success_rules(&job), [first, SuccessRule { indexes: None, count: Some(1) }]);
        assert_eq!(failure_rules(&tree!({"spec": {}})), None);
    }
}
