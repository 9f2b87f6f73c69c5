//! Validation of the failure policy.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::consts::reasons;
use muster_api::jobset::{FailurePolicy, FailurePolicyRule};
use muster_schema::error::FieldError;
use muster_schema::pattern;
use muster_tree::Text;

use super::Answer;
use super::create::NewSet;

/// Maximum of Jobs per replicatedJob with individual restart counts.
const COUNTED_JOBS_MAX: u32 = 1024;
const RULE_NAME_MAX: usize = 128;
/// Maximum of patterns that are compiled: each costs time and memory.
const TRIED_PATTERNS_MAX: usize = 64;
/// Maximum of characters of a pattern in a message.
const SHOWN_PATTERN_MAX: usize = 100;
const RULES: &str = "spec.failurePolicy.rules";
/// The reasons of the `Failed` condition of a Job.
const REASONS: [&str; 5] = [
    reasons::BACKOFF_LIMIT_EXCEEDED,
    reasons::DEADLINE_EXCEEDED,
    reasons::FAILED_INDEXES,
    reasons::MAX_FAILED_INDEXES_EXCEEDED,
    reasons::POD_FAILURE_POLICY,
];

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    let Some(policy) = &set.facts.failure else { return };
    let single = policy.rules.iter().any(|rule| rule.action.is_single());
    if single && !set.asked.settings.gates.restart_job {
        let why = "RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed when \
                   RestartJob feature gate is disabled";
        answer.problems.push(FieldError::internal(RULES, why));
        return;
    }
    if single && set.facts.jobs.iter().any(|job| job.replicas > COUNTED_JOBS_MAX) {
        let why = "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action \
                   and a replicated job with replicas > 1024";
        answer.problems.push(FieldError::internal(RULES, why));
    }
    for (at, rule) in policy.rules.iter().enumerate() {
        let path = format!("{RULES}[{at}]");
        name(rule, &path, answer);
        targets(set, rule, &path, answer);
        causes(rule, &path, answer);
    }
    patterns(policy, answer);
    repeated(policy, answer);
}

fn name(rule: &FailurePolicyRule, path: &str, answer: &mut Answer) {
    let (path, name) = (format!("{path}.name"), &rule.name);
    if name.is_empty() || name.len() > RULE_NAME_MAX {
        let why = format!(
            "invalid failure policy rule name of length {}, the rule name must be at least 1 characters long and at \
             most {RULE_NAME_MAX} characters long",
            name.len()
        );
        answer.problems.push(FieldError::internal(&path, why));
    }
    if !is_rule_name(name) {
        let why = format!(
            "invalid failure policy rule name '{name}', a failure policy rule name must start with an alphabetic \
             character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an \
             alphanumeric character or '_'"
        );
        answer.problems.push(FieldError::internal(path, why));
    }
}

fn is_rule_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(b))
}

fn targets(set: &NewSet<'_>, rule: &FailurePolicyRule, path: &str, answer: &mut Answer) {
    for (at, target) in rule.targets.iter().enumerate().filter(|(_, it)| !set.has_job(it)) {
        answer.problems.push(FieldError::internal(
            format!("{path}.targetReplicatedJobs[{at}]"),
            format!(
                "invalid replicatedJob name '{target}' in failure policy does not appear in .spec.ReplicatedJobs"
            ),
        ));
    }
}

fn causes(rule: &FailurePolicyRule, path: &str, answer: &mut Answer) {
    for (at, reason) in rule.reasons.iter().enumerate().filter(|(_, it)| !REASONS.contains(&it.as_str())) {
        answer.problems.push(FieldError::internal(
            format!("{path}.onJobFailureReasons[{at}]"),
            format!(
                "invalid job failure reason '{reason}' in failure policy is not a recognized job failure reason"
            ),
        ));
    }
}

/// Warns about patterns that do not compile: they never match, and upstream accepts them.
fn patterns(policy: &FailurePolicy, answer: &mut Answer) {
    let mut seen = BTreeSet::new();
    for (rule, text) in policy.rules.iter().flat_map(|rule| rule.patterns.iter().map(move |it| (rule, it))) {
        if !seen.insert(text) || seen.len() > TRIED_PATTERNS_MAX {
            continue;
        }
        if let Err(why) = pattern::compile(text) {
            let shown: String = text.chars().take(SHOWN_PATTERN_MAX).collect();
            answer.warnings.push(format!(
                "failure policy rule {}: message pattern {shown:?} does not compile and never matches: {why}",
                rule.name
            ));
        }
    }
    if seen.len() > TRIED_PATTERNS_MAX {
        answer.warnings.push(format!(
            "failure policy: {} different message patterns, of which only the first {TRIED_PATTERNS_MAX} were tried",
            seen.len()
        ));
    }
}

fn repeated(policy: &FailurePolicy, answer: &mut Answer) {
    let mut places: BTreeMap<&Text, Vec<String>> = BTreeMap::new();
    for (at, rule) in policy.rules.iter().enumerate() {
        places.entry(&rule.name).or_default().push(at.to_string());
    }
    for (name, places) in places.into_iter().filter(|(_, places)| places.len() > 1) {
        let why = format!(
            "rule names are not unique, rules with indices [{}] all have the same name '{name}'",
            places.join(" ")
        );
        answer.problems.push(FieldError::internal(RULES, why));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::{Tree, tree};

    use super::*;
    use crate::FeatureGates;
    use crate::admission::testing::{FakeLister, asked, expect, expect_with, set};
    use crate::admission::validate_jobset;

    fn with(rules: &Tree) -> Tree {
        set(&tree!({"failurePolicy": {"rules": rules}}))
    }

    fn named(name: &str) -> Tree {
        with(&tree!([{"name": name, "action": "FailJobSet"}]))
    }

    #[test]
    fn restarts_of_single_jobs_need_their_gate() {
        let on = FakeLister::gated(FeatureGates { restart_job: true, ..FeatureGates::default() });
        for action in ["RestartJob", "RestartJobAndIgnoreMaxRestarts"] {
            let rules = with(&tree!([{"name": "r", "action": action, "targetReplicatedJobs": ["x"]}]));
            let words = "spec.failurePolicy.rules: Internal error: RestartJob and RestartJobAndIgnoreMaxRestarts \
                         failure policy actions are not allowed when RestartJob feature gate is disabled";
            expect(&rules, &[words]);
            expect_with(&rules, &on, &["invalid replicatedJob name 'x' in failure policy"]);
        }
    }

    #[test]
    fn jobs_that_are_counted_one_by_one() {
        let on = FakeLister::gated(FeatureGates { restart_job: true, ..FeatureGates::default() });
        let sized = |replicas: i64, action: &str| {
            set(&tree!({"failurePolicy": {"rules": [{"name": "r", "action": action}]},
                "replicatedJobs": [{"name": "w", "replicas": replicas}]}))
        };
        expect_with(&sized(1024, "RestartJob"), &on, &[]);
        expect_with(&sized(1025, "RestartJobSet"), &on, &[]);
        let words = "JobSet cannot have a failure policy rule with RestartJob or RestartJobAndIgnoreMaxRestarts action \
                     and a replicated job with replicas > 1024";
        expect_with(&sized(1025, "RestartJob"), &on, &[words]);
    }

    #[test]
    fn names_of_rules() {
        let long = "a".repeat(129);
        for good in ["a", "failurePolicyRule0", "a_,:b_", &long[1..]] {
            expect(&named(good), &[]);
        }
        let form = "spec.failurePolicy.rules[0].name: Internal error: invalid failure policy rule name '";
        for bad in ["1a", "a:", "a,", "a b", "_a", "a-b", "ä"] {
            expect(&named(bad), &[&format!("{form}{bad}', a failure policy rule name must start with")]);
        }
        expect(
            &named(&long),
            &["invalid failure policy rule name of length 129, the rule name must be at least 1"],
        );
        expect(&named(""), &["rule name of length 0", "rule name '', a failure policy"]);
    }

    #[test]
    fn duplicate_names_are_reported_with_their_indices() {
        let rule = |name: &str| tree!({"name": name, "action": "FailJobSet"});
        let rules = Tree::list([rule("a"), rule("b"), rule("a"), rule("a")]);
        expect(
            &with(&rules),
            &["rule names are not unique, rules with indices [0 2 3] all have the same name 'a'"],
        );
        expect(&with(&Tree::list([rule("a"), rule("b")])), &[]);
    }

    #[test]
    fn targets_and_reasons() {
        let rules = |target: &str, reason: &str| {
            with(&tree!([{"name": "r", "action": "FailJobSet",
                "targetReplicatedJobs": [target], "onJobFailureReasons": [reason]}]))
        };
        for reason in REASONS {
            expect(&rules("w", reason), &[]);
        }
        expect(
            &rules("x", "Because"),
            &[
                "spec.failurePolicy.rules[0].targetReplicatedJobs[0]: Internal error: invalid replicatedJob name 'x' in \
                 failure policy does not appear in .spec.ReplicatedJobs",
                "spec.failurePolicy.rules[0].onJobFailureReasons[0]: Internal error: invalid job failure reason \
                 'Because' in failure policy is not a recognized job failure reason",
            ],
        );
    }

    #[test]
    fn a_pattern_that_does_not_compile_is_a_warning() {
        let rules = with(&tree!([{"name": "r", "action": "FailJobSet",
            "onJobFailureMessagePatterns": ["^ok.*[0-9]+$", "(open"]}]));
        let nothing = FakeLister::default();
        let answer = validate_jobset(&asked(&rules, None, &nothing));
        assert!(answer.problems.is_empty());
        assert_eq!(answer.warnings.len(), 1);
        assert!(answer.warnings[0].contains("\"(open\" does not compile"), "{:?}", answer.warnings);
    }

    /// The warnings for rules with these patterns.
    fn warnings(rules: &[Vec<String>]) -> Vec<String> {
        let rule = |(at, patterns): (usize, &Vec<String>)| {
            tree!({"name": format!("r{at}"), "action": "FailJobSet",
                "onJobFailureMessagePatterns": Tree::list(patterns.iter().map(String::as_str))})
        };
        let set = with(&Tree::list(rules.iter().enumerate().map(rule)));
        let nothing = FakeLister::default();
        let answer = validate_jobset(&asked(&set, None, &nothing));
        assert!(answer.problems.is_empty(), "{:?}", answer.problems);
        answer.warnings
    }

    #[test]
    fn the_number_of_compiled_and_reported_patterns_is_bounded() {
        let broken = |count: usize| (0..count).map(|at| format!("({at}")).collect::<Vec<_>>();
        let good = |count: usize| (0..count).map(|at| format!("a{at}")).collect::<Vec<_>>();
        assert_eq!(warnings(&[broken(1), broken(1)]).len(), 1, "the same twice");
        assert_eq!(warnings(&[broken(16)]).len(), 16);
        let many = warnings(&[broken(10), broken(20)]);
        assert_eq!((many.len(), many[16].as_str()), (17, "and 4 more warnings"));
        assert_eq!(warnings(&[good(64)]), Vec::<String>::new());
        let rest = warnings(&[[good(64), broken(3)].concat()]);
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert!(rest[0].contains("67 different message patterns, of which only the first 64"), "{rest:?}");
        let long = warnings(&[vec!["(".repeat(10_000)]]);
        assert!(long[0].len() < 500, "{} bytes", long[0].len());
    }
}
