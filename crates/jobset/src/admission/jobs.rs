//! Validation of replicatedJobs: generated names, sizes and dependencies.

use muster_api::job::CompletionMode;
use muster_api::jobset::{ReplicatedJob, names};
use muster_api::paths::{jobset as path, replicated_job as job};
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::Tree;

use super::Answer;
use super::create::{NewSet, dns_label_errors};

/// Maximum of pods per replicatedJob.
const PODS_MAX: u64 = i32::MAX as u64;
/// Stands for the suffix that the Job controller adds to pod names.
const POD_SUFFIX: &str = "abcde";
const GROUP_TOO_LONG: &str = ".spec.replicatedJob[].groupName is too long, must be less than 63 characters";
const JOB_TOO_LONG: &str =
    "JobSet name is too long, job names generated for this JobSet will exceed 63 characters";
const POD_TOO_LONG: &str =
    "JobSet name is too long, pod names generated for this JobSet will exceed 63 characters";

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    let trees = set.tree().items_at(path::JOBS);
    if trees.first().and_then(|first| first.at(job::DEPENDS_ON)).is_some_and(|it| !it.is_null()) {
        let why = "DependsOn can't be set for the first ReplicatedJob";
        answer.problems.push(FieldError::internal("spec.replicatedJobs[0].dependsOn", why));
    }
    for (at, (one, tree)) in set.facts.jobs.iter().zip(trees).enumerate() {
        let path = format!("spec.replicatedJobs[{at}]");
        size(one, &path, answer);
        answer.problems.extend(dns_label_errors(&format!("{path}.groupName"), &one.group, GROUP_TOO_LONG));
        made_names(&set.facts.name, one, &path, answer);
        order(one, &set.facts.jobs[..at], &path, answer);
        let pods = format!("{path}.template.spec.template.spec");
        answer.problems.extend(quantities::of_pod_spec(&pods, tree.at(job::POD_SPEC)));
        if set.is_in_place() && set.asked.settings.gates.in_place_restart {
            in_place(one, tree, &path, answer);
        }
    }
}

fn size(one: &ReplicatedJob, path: &str, answer: &mut Answer) {
    if u64::from(one.parallelism.unwrap_or(1)) * u64::from(one.replicas) > PODS_MAX {
        let why = format!(
            "the product of replicas and parallelism must not exceed {PODS_MAX} for replicatedJob '{}'",
            one.name
        );
        answer.problems.push(FieldError::internal(path, why));
    }
}

/// Validates the longest generated names of Jobs and pods.
fn made_names(set: &str, one: &ReplicatedJob, path: &str, answer: &mut Answer) {
    let path = format!("{path}.name");
    let last = names::job(set, &one.name, one.replicas.saturating_sub(1));
    answer.problems.extend(dns_label_errors(&path, &last, JOB_TOO_LONG));
    if let (CompletionMode::Indexed, Some(completions)) = (one.mode, one.completions) {
        let pod = format!("{last}-{}-{POD_SUFFIX}", completions.saturating_sub(1));
        answer.problems.extend(dns_label_errors(&path, &pod, POD_TOO_LONG));
    }
}

/// A replicatedJob may only depend on earlier ones, which excludes cycles.
fn order(one: &ReplicatedJob, before: &[ReplicatedJob], path: &str, answer: &mut Answer) {
    for (at, on) in one.depends_on.iter().map(|it| &it.replicated_job).enumerate() {
        if !before.iter().any(|it| it.name == *on) {
            answer.problems.push(FieldError::internal(
                format!("{path}.dependsOn[{at}].name"),
                format!("replicatedJob: {} cannot depend on replicatedJob: {on}", one.name),
            ));
        }
    }
}

/// With in-place restarts the Job controller must never replace a pod because a container failed.
fn in_place(one: &ReplicatedJob, tree: &Tree, path: &str, answer: &mut Answer) {
    let path = format!("{path}.template.spec");
    let backoff = tree.int_at(job::BACKOFF_LIMIT);
    if backoff != Some(i32::MAX.into()) {
        let why = format!(
            "replicatedJob {}: must be set to 2147483647 (MaxInt32) when in-place restart is enabled",
            one.name
        );
        answer.problems.push(FieldError::invalid(format!("{path}.backoffLimit"), backoff, why));
    }
    let replacement = tree.str_at(job::REPLACEMENT);
    if replacement != "Failed" {
        let why =
            format!("replicatedJob {}: must be set to Failed when in-place restart is enabled", one.name);
        answer.problems.push(FieldError::invalid(format!("{path}.podReplacementPolicy"), replacement, why));
    }
    if one.completions.is_none() || one.completions != one.parallelism {
        let why = format!(
            "replicatedJob {}: completions and parallelism must be set and equal to each other when in-place restart \
             is enabled",
            one.name
        );
        answer.problems.push(FieldError::invalid(format!("{path}.completions"), one.completions, why));
    }
}

#[cfg(test)]
mod tests {
    use muster_api::paths::meta;
    use muster_tree::tree;

    use super::*;
    use crate::FeatureGates;
    use crate::admission::testing::{FakeLister, expect, expect_with, set};

    fn with(job: &Tree) -> Tree {
        set(&tree!({"replicatedJobs": [job]}))
    }

    fn named(name: &str, job: &Tree) -> Tree {
        with(job).with(meta::NAME, name)
    }

    #[test]
    fn sizes() {
        let sized = |replicas: i64, parallelism: i64| {
            with(&tree!({"name": "w", "replicas": replicas,
                "template": {"spec": {"parallelism": parallelism}}}))
        };
        expect(&sized(1, 2_147_483_647), &[]);
        expect(&sized(2, 1_073_741_823), &[]);
        let words = "spec.replicatedJobs[0]: Internal error: the product of replicas and parallelism must not exceed \
                     2147483647 for replicatedJob 'w'";
        expect(&sized(2, 1_073_741_824), &[words]);
        expect(&with(&tree!({"name": "w", "replicas": 2_147_483_647i64})), &[]);
    }

    #[test]
    fn groups() {
        let grouped = |group: &str| with(&tree!({"name": "w", "groupName": group}));
        let long = "g".repeat(64);
        expect(&grouped("g-1"), &[]);
        expect(&grouped(&long[1..]), &[]);
        expect(
            &grouped(&long),
            &[".spec.replicatedJob[].groupName is too long, must be less than 63 characters"],
        );
        expect(
            &grouped("1g"),
            &["spec.replicatedJobs[0].groupName: Invalid value: \"1g\": a DNS-1035 label must"],
        );
    }

    /// Shows: 572-44.
    #[test]
    fn names_of_jobs() {
        let job = tree!({"name": "w", "replicas": 10});
        expect(&named("trainjob-qwen2.5", &job), &[]);
        expect(&named(&"a".repeat(59), &job), &[]);
        expect(&named(&"a".repeat(60), &tree!({"name": "w", "replicas": 11})), &[JOB_TOO_LONG]);
        expect(&named(&"a".repeat(60), &job), &[JOB_TOO_LONG]);
        expect(
            &named("1a", &job),
            &["spec.replicatedJobs[0].name: Invalid value: \"1a-w-9\": a DNS-1035 label must consist of"],
        );
        expect(&named("a", &tree!({"name": "W"})), &["\"a-W-0\": a DNS-1035 label must consist of"]);
        expect(&named("a", &tree!({"name": "w", "replicas": 0})), &[]);
    }

    #[test]
    fn names_of_pods() {
        let job = |mode: &str| tree!({"name": "w", "template": {"spec": {"completions": 100, "completionMode": mode}}});
        // The dash, the index and the suffix take nine more.
        expect(&named(&"a".repeat(50), &job("Indexed")), &[]);
        // The name of the pod is what is shown.
        let name = "a".repeat(51);
        let shown =
            format!("spec.replicatedJobs[0].name: Invalid value: \"{name}-w-0-99-abcde\": {POD_TOO_LONG}");
        expect(&named(&name, &job("Indexed")), &[&shown]);
        expect(&named(&"a".repeat(51), &job("NonIndexed")), &[]);
        expect(&named(&"a".repeat(51), &tree!({"name": "w"})), &[]);
    }

    fn waiting(pairs: &[(&str, &[&str])]) -> Tree {
        let job = |(name, on): &(&str, &[&str])| {
            let on = on.iter().map(|on| tree!({"name": *on, "status": "Ready"}));
            let job = tree!({"name": *name});
            if on.len() == 0 { job } else { job.with(job::DEPENDS_ON, Tree::list(on)) }
        };
        set(&tree!({})).with(path::JOBS, Tree::list(pairs.iter().map(job)))
    }

    #[test]
    fn dependencies_must_be_earlier_jobs() {
        expect(&waiting(&[("a", &[]), ("b", &["a"]), ("c", &["a", "b"])]), &[]);
        let at = |i: usize, j: usize, this: &str, that: &str| {
            format!(
                "spec.replicatedJobs[{i}].dependsOn[{j}].name: Internal error: replicatedJob: {this} cannot depend on \
                 replicatedJob: {that}"
            )
        };
        for (says, jobs, words) in [
            ("nobody of that name", waiting(&[("a", &[]), ("b", &["x"])]), at(1, 0, "b", "x")),
            ("itself", waiting(&[("a", &[]), ("b", &["b"])]), at(1, 0, "b", "b")),
            ("a cycle", waiting(&[("a", &[]), ("b", &["a", "c"]), ("c", &["b"])]), at(1, 1, "b", "c")),
        ] {
            println!("{says}");
            expect(&jobs, &[&words]);
        }
        let first = "spec.replicatedJobs[0].dependsOn: Internal error: DependsOn can't be set for the first \
                     ReplicatedJob";
        expect(&waiting(&[("a", &["b"]), ("b", &[])]), &[first, &at(0, 0, "a", "b")]);
        expect(&with(&tree!({"name": "w", "dependsOn": []})), &[first]);
    }

    #[test]
    fn what_restarts_in_place() {
        let on = FakeLister::gated(FeatureGates { in_place_restart: true, ..FeatureGates::default() });
        let made = |spec: &Tree| {
            set(&tree!({"failurePolicy": {"restartStrategy": "InPlaceRestart"},
                "replicatedJobs": [{"name": "w", "template": {"spec": spec}}]}))
        };
        let good = tree!({"backoffLimit": 2_147_483_647i64, "podReplacementPolicy": "Failed", "completions": 2,
            "parallelism": 2});
        let at = "spec.replicatedJobs[0].template.spec";
        let backoff =
            format!("{at}.backoffLimit: Invalid value: 6: replicatedJob w: must be set to 2147483647");
        let policy = "replicatedJob w: must be set to Failed when in-place restart is enabled";
        let both =
            "replicatedJob w: completions and parallelism must be set and equal to each other when in-place";
        expect_with(&made(&good), &on, &[]);
        expect_with(&made(&good.with(&["backoffLimit"], 6)), &on, &[&backoff]);
        expect_with(&made(&good.with(&["podReplacementPolicy"], "TerminatingOrFailed")), &on, &[policy]);
        expect_with(&made(&good.with(&["completions"], 1)), &on, &[both]);
        expect_with(&made(&good.without(&["parallelism"])), &on, &[both]);
        expect_with(&made(&tree!({})), &on, &["(MaxInt32)", policy, both]);
    }
}
