//! Validation of an update of a JobSet.
//!
//! `replicatedJobs` is immutable, except for scheduling fields of the pod template while the JobSet is suspended, and for
//! parallelism and completions of an elastic JobSet. Fields that the CRD schema makes immutable are not checked again.

use muster_api::job::CompletionMode;
use muster_api::jobset::{JobSetFacts, ReplicatedJob};
use muster_api::paths::{jobset as path, meta, pod, replicated_job as job};
use muster_schema::error::{FieldError, Problem};
use muster_tree::{Text, Tree};

use super::template_diff::difference;
use super::{AdmissionContext, Answer, gang};

const IMMUTABLE: &str = "field is immutable";
/// Fields of the pod template that are mutable while the JobSet is suspended.
const FREE_WHILE_SUSPENDED: [&[&str]; 5] =
    [meta::ANNOTATIONS, meta::LABELS, pod::NODE_SELECTOR, pod::TOLERATIONS, pod::GATES];

pub(super) fn check(asked: &AdmissionContext<'_>, old: &Tree) -> Answer {
    let (new, gates) = (asked.object, &asked.settings.gates);
    let mut answer = Answer::default();
    let is_suspended = [old, new].iter().any(|set| set.bool_at(path::SUSPEND) == Some(true));
    let fixed = |set: &Tree| {
        let jobs = set.items_at(path::JOBS).iter();
        Tree::list(jobs.map(|one| fixed_part(one, is_suspended, gates.elastic)))
    };
    if let Some(what) = difference(&fixed(old), &fixed(new)) {
        answer.problems.push(immutable("spec.replicatedJobs", &format!("{IMMUTABLE}: {what}")));
    }
    if gates.elastic {
        elastic(&JobSetFacts::of(old), new, &mut answer);
    }
    let manager = |set: &Tree| -> Option<Text> { set.at(path::MANAGED_BY)?.as_text().cloned() };
    if manager(old) != manager(new) {
        let why = FieldError::invalid("spec.managedBy", manager(new), IMMUTABLE);
        answer.problems.push(why);
    }
    // The schema makes it immutable once it is set; it does not prevent setting or removing it.
    if old.items_at(path::VOLUMES).is_empty() != new.items_at(path::VOLUMES).is_empty() {
        answer.problems.push(immutable("spec.volumeClaimPolicies", IMMUTABLE));
    }
    gang::check_change(old, new, &mut answer);
    answer
}

/// An immutable field, without its value: a list may be long.
fn immutable(path: &str, why: &str) -> FieldError {
    FieldError {
        path: path.to_owned(),
        problem: Problem::InvalidBranch,
        value: Tree::Null,
        detail: why.to_owned(),
    }
}

/// A replicatedJob without its mutable fields.
fn fixed_part(one: &Tree, is_suspended: bool, is_elastic: bool) -> Tree {
    let mut fixed = one.clone();
    if is_suspended && let Some(pods) = one.at(job::POD_TEMPLATE) {
        let pods = FREE_WHILE_SUSPENDED.iter().fold(pods.clone(), |pods, path| pods.without(path));
        fixed = fixed.with(job::POD_TEMPLATE, pods);
    }
    if is_elastic && is_indexed(one) {
        fixed = fixed.without(job::PARALLELISM).without(job::COMPLETIONS);
    }
    fixed
}

fn is_indexed(one: &Tree) -> bool {
    matches!(one.str_at(job::MODE), "" | "Indexed")
}

/// Validates changed parallelism and completions.
fn elastic(old: &JobSetFacts, new: &Tree, answer: &mut Answer) {
    for (at, one) in new.items_at(path::JOBS).iter().enumerate() {
        let before =
            old.job(one.str_at(job::NAME)).filter(|it| it.mode == CompletionMode::Indexed && is_indexed(one));
        let Some(before) = before else { continue };
        let counts = (one.int_at(job::PARALLELISM), one.int_at(job::COMPLETIONS));
        if counts != counts_of(before) {
            let path = format!("spec.replicatedJobs[{at}].template.spec");
            resized(counts, old.status.terminal_condition().is_some(), &path, answer);
        }
    }
}

fn counts_of(one: &ReplicatedJob) -> (Option<i64>, Option<i64>) {
    (one.parallelism.map(i64::from), one.completions.map(i64::from))
}

fn resized(counts: (Option<i64>, Option<i64>), is_finished: bool, path: &str, answer: &mut Answer) {
    if is_finished {
        let why = "Cannot mutate parallelism or completions when JobSet is in a terminal state (Completed or Failed)";
        answer.problems.push(FieldError::forbidden(path, why));
        return;
    }
    for (field, count) in [("parallelism", counts.0), ("completions", counts.1)] {
        if let Some(count) = count.filter(|count| *count < 1) {
            let why = format!("{field} must be >= 1");
            answer.problems.push(FieldError::invalid(format!("{path}.{field}"), count, why));
        }
    }
    if let (Some(parallelism), Some(completions)) = counts
        && parallelism != completions
    {
        let why = "completions must be equal to parallelism for Elastic Indexed Jobs";
        answer.problems.push(FieldError::invalid(format!("{path}.completions"), completions, why));
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;
    use crate::FeatureGates;
    use crate::admission::testing::{FakeLister, expect_update, set};

    const JOBS: &str = "spec.replicatedJobs: Invalid value: field is immutable: replicatedJob";

    /// The set with its first replicatedJob changed.
    fn first(set: &Tree, path: &[&str], value: impl Into<Tree>) -> Tree {
        let value = value.into();
        let jobs = set.at(path::JOBS).unwrap().map_items(|at, job| match at {
            0 => job.with(path, value.clone()),
            _ => job.clone(),
        });
        set.with(path::JOBS, jobs)
    }

    fn usual() -> Tree {
        set(&tree!({"replicatedJobs": [
            {"name": "w", "replicas": 1, "template": {"spec": {"parallelism": 2, "completions": 2,
                "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}},
            {"name": "v", "replicas": 1, "template": {"spec": {"completionMode": "NonIndexed", "parallelism": 2,
                "template": {"spec": {}}}}}]}))
    }

    fn expect(old: &Tree, new: &Tree, want: &[&str]) {
        expect_update(old, new, &FakeLister::default(), want);
    }

    #[test]
    fn replicated_jobs_stay_as_they_are() {
        let old = usual();
        let jobs = old.items_at(path::JOBS).to_vec();
        let listed = |jobs: Vec<Tree>| old.with(path::JOBS, Tree::list(jobs));
        expect(&old, &old, &[]);
        for (says, new) in [
            ("more replicas", first(&old, job::REPLICAS, 2)),
            (
                "another image",
                first(&old, job::POD_SPEC, tree!({"containers": [{"name": "c", "image": "j"}]})),
            ),
            ("more pods", first(&old, job::PARALLELISM, 3)),
            ("another name", first(&old, job::NAME, "x")),
            ("one less", listed(jobs[..1].to_vec())),
            ("one more", listed([&jobs[..], &[tree!({"name": "y"})]].concat())),
            ("another order", listed(jobs.into_iter().rev().collect())),
            (
                "a label of pods",
                first(&old, &["template", "spec", "template", "metadata", "labels"], tree!({"a": "b"})),
            ),
        ] {
            println!("{says}");
            expect(&old, &new, &[JOBS]);
        }
    }

    /// Shows: 762-34.
    #[test]
    fn claim_templates_are_part_of_them() {
        let templates = |name: &str| tree!([{"metadata": {"name": name}}]);
        let (without, with) = (usual(), first(&usual(), job::CLAIMS, templates("a")));
        for is_suspended in [false, true] {
            let held = |set: &Tree| set.with(path::SUSPEND, is_suspended);
            expect(&held(&with), &held(&first(&with, job::CLAIMS, templates("b"))), &[JOBS]);
            expect(&held(&without), &held(&with), &[JOBS]);
            expect(&held(&with), &held(&without), &[JOBS]);
            expect(&held(&with), &held(&with), &[]);
        }
    }

    #[test]
    fn where_pods_run_is_free_while_suspended() {
        let old = usual();
        let pods = |rest: &[&'static str]| [job::POD_TEMPLATE, rest].concat();
        for (path, value) in [
            (pods(meta::ANNOTATIONS), tree!({"a": "b"})),
            (pods(meta::LABELS), tree!({"a": "b"})),
            (pods(pod::NODE_SELECTOR), tree!({"a": "b"})),
            (pods(pod::TOLERATIONS), tree!([{"operator": "Exists"}])),
            (pods(pod::GATES), tree!([{"name": "a/b"}])),
        ] {
            let new = first(&old, &path, value);
            let held = |set: &Tree| set.with(path::SUSPEND, true);
            expect(&held(&old), &held(&new), &[]);
            expect(&held(&old), &new, &[]);
            expect(&old, &held(&new), &[]);
            expect(&held(&new), &held(&old), &[]);
            expect(&old, &new, &[JOBS]);
        }
        let held = old.with(path::SUSPEND, true);
        expect(&held, &first(&held, job::REPLICAS, 2), &[JOBS]);
        expect(&held, &first(&held, job::RESTART_POLICY, "Never"), &[JOBS]);
        expect(&held, &first(&held, job::JOB_LABELS, tree!({"a": "b"})), &[JOBS]);
    }

    #[test]
    fn what_else_may_and_may_not_change() {
        let old = usual();
        for (path, value) in [
            (path::SUSPEND, Tree::from(true)),
            (path::TTL, 5.into()),
            (path::COORDINATOR, tree!({"replicatedJob": "nobody"})),
            (meta::LABELS, tree!({"a": "b"})),
        ] {
            expect(&old, &old.with(path, value), &[]);
        }
        let managed = old.with(path::MANAGED_BY, "a.b/c");
        let words = |value: &str| format!("spec.managedBy: Invalid value: {value}: field is immutable");
        expect(&old, &managed, &[&words("\"a.b/c\"")]);
        expect(&managed, &old, &[&words("null")]);
        expect(&managed, &managed.with(path::MANAGED_BY, "a.b/d"), &[&words("\"a.b/d\"")]);
    }

    /// Shows: 572-39.
    #[test]
    fn shared_volumes_come_and_go_with_the_set() {
        let (none, empty) = (usual(), usual().with(path::VOLUMES, tree!([])));
        let some = usual().with(path::VOLUMES, tree!([{"templates": []}]));
        let words = "spec.volumeClaimPolicies: Invalid value: field is immutable";
        expect(&none, &empty, &[]);
        expect(&none, &some, &[words]);
        expect(&some, &none, &[words]);
        expect(&some.with(path::SUSPEND, true), &empty, &[words]);
    }

    #[test]
    fn numbers_of_pods_may_change_when_that_is_on() {
        let on = FakeLister::gated(FeatureGates { elastic: true, ..FeatureGates::default() });
        let old = usual();
        let sized = |set: &Tree, parallelism: i64, completions: i64| {
            first(&first(set, job::PARALLELISM, parallelism), job::COMPLETIONS, completions)
        };
        let at = "spec.replicatedJobs[0].template.spec";
        expect_update(&old, &sized(&old, 4, 4), &on, &[]);
        expect_update(&old, &sized(&old, 1, 1), &on, &[]);
        expect_update(
            &old,
            &sized(&old, 4, 3),
            &on,
            &[&format!(
                "{at}.completions: Invalid value: 3: completions must be equal to parallelism for Elastic \
                        Indexed Jobs"
            )],
        );
        expect_update(
            &old,
            &sized(&old, 0, 0),
            &on,
            &[
                &format!("{at}.parallelism: Invalid value: 0: parallelism must be >= 1"),
                &format!("{at}.completions: Invalid value: 0: completions must be >= 1"),
            ],
        );
        expect_update(&old, &first(&old, job::REPLICAS, 2), &on, &[JOBS]);
        let loose = first(&old, job::MODE, "NonIndexed");
        expect_update(&loose, &first(&loose, job::PARALLELISM, 3), &on, &[JOBS]);
        let ended = tree!([{"type": "Completed", "status": "True"}]);
        let done = old.with(&["status", "conditions"], ended);
        expect_update(
            &done,
            &sized(&done, 4, 4),
            &on,
            &[&format!(
                "{at}: Forbidden: Cannot mutate parallelism or completions when JobSet is in a terminal state \
                        (Completed or Failed)"
            )],
        );
        expect_update(&done, &done, &on, &[]);
    }
}
