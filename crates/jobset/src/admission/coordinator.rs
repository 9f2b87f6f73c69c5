//! Validation of the coordinator pod.

use muster_api::consts::jobset::COORDINATOR;
use muster_api::job::CompletionMode;
use muster_api::jobset::ReplicatedJob;
use muster_api::paths::{jobset as path, jobset_coordinator as coordinator};
use muster_schema::error::FieldError;
use muster_schema::selector::label_value_problems;
use muster_tree::Tree;

use super::Answer;
use super::create::NewSet;

pub(super) fn check(set: &NewSet<'_>, answer: &mut Answer) {
    let Some(said) = set.tree().at(path::COORDINATOR).filter(|it| it.is_map()) else { return };
    let name = said.str_at(coordinator::JOB);
    let wrong = match set.facts.job(name) {
        None => Some((
            "spec.coordinator.replicatedJob",
            format!("coordinator replicatedJob {name} does not exist"),
        )),
        Some(job) => place(said, job),
    };
    if let Some((path, why)) = wrong {
        answer.problems.push(FieldError::internal(path, why));
        return;
    }
    endpoint(set, answer);
}

/// Why the coordinator pod cannot exist.
fn place(said: &Tree, job: &ReplicatedJob) -> Option<(&'static str, String)> {
    let is_below = |index: i64, count: u32| (0..i64::from(count)).contains(&index);
    let at = said.int_at(coordinator::JOB_INDEX).unwrap_or(0);
    if !is_below(at, job.replicas) {
        let why = format!("coordinator job index {at} is invalid for replicatedJob {}", job.name);
        return Some(("spec.coordinator.jobIndex", why));
    }
    let (CompletionMode::Indexed, Some(completions)) = (job.mode, job.completions) else {
        let why =
            "job for coordinator pod must be indexed completion mode, and completions number must be set";
        return Some(("spec.coordinator.replicatedJob", why.to_owned()));
    };
    let pod = said.int_at(coordinator::POD_INDEX).unwrap_or(0);
    let why =
        || format!("coordinator pod index {pod} is invalid for replicatedJob {} job index {at}", job.name);
    (!is_below(pod, completions)).then(|| ("spec.coordinator.podIndex", why()))
}

/// The address of the coordinator becomes a label value.
fn endpoint(set: &NewSet<'_>, answer: &mut Answer) {
    let Some(address) = &set.facts.coordinator else { return };
    for why in label_value_problems(address) {
        let words = format!(
            "spec will lead to invalid label value {address:?} for coordinator label {COORDINATOR}: {why}; most likely \
             the names of the JobSet, the replicatedJob and the subdomain are too long together"
        );
        answer.problems.push(FieldError::internal("spec.coordinator", words));
    }
}

#[cfg(test)]
mod tests {
    use muster_api::paths::meta;
    use muster_tree::tree;

    use super::*;
    use crate::admission::testing::{expect, set};

    fn with(coordinator: &Tree) -> Tree {
        set(&tree!({"coordinator": coordinator, "replicatedJobs": [
            {"name": "w", "replicas": 2, "template": {"spec": {"completions": 3}}},
            {"name": "plain"},
            {"name": "loose", "template": {"spec": {"completions": 3, "completionMode": "NonIndexed"}}}]}))
    }

    #[test]
    fn the_pod_must_be_one_that_will_be() {
        expect(&with(&tree!({"replicatedJob": "w"})), &[]);
        expect(&with(&tree!({"replicatedJob": "w", "jobIndex": 1, "podIndex": 2})), &[]);
        let indexed = "spec.coordinator.replicatedJob: Internal error: job for coordinator pod must be indexed \
                       completion mode, and completions number must be set";
        for (coordinator, words) in [
            (
                tree!({"replicatedJob": "x"}),
                "spec.coordinator.replicatedJob: Internal error: coordinator replicatedJob x does not exist",
            ),
            (
                tree!({"replicatedJob": "w", "jobIndex": 2}),
                "spec.coordinator.jobIndex: Internal error: coordinator job index 2 is invalid for replicatedJob w",
            ),
            (
                tree!({"replicatedJob": "w", "jobIndex": -1}),
                "coordinator job index -1 is invalid for replicatedJob w",
            ),
            (tree!({"replicatedJob": "plain"}), indexed),
            (tree!({"replicatedJob": "loose"}), indexed),
            (
                tree!({"replicatedJob": "w", "jobIndex": 1, "podIndex": 3}),
                "spec.coordinator.podIndex: Internal error: coordinator pod index 3 is invalid for replicatedJob w job \
                 index 1",
            ),
            (
                tree!({"replicatedJob": "w", "podIndex": -1}),
                "coordinator pod index -1 is invalid for replicatedJob w job index 0",
            ),
        ] {
            expect(&with(&coordinator), &[words]);
        }
    }

    #[test]
    fn its_address_must_fit_a_label() {
        let named = |length: usize| with(&tree!({"replicatedJob": "w"})).with(meta::NAME, "a".repeat(length));
        // Twice the name, `-w-0-0` and a dot.
        expect(&named(28), &[]);
        expect(
            &named(29),
            &["spec.coordinator: Internal error: spec will lead to invalid label value \"aaa"],
        );
    }
}
