//! Indexed Jobs: limits per index, elastic sizes.

use super::*;

fn indexed(more: &Tree) -> Tree {
    begun(tree!({"completionMode": "Indexed", "completions": 3, "parallelism": 3}).merge(more))
}

fn per_index(more: &Tree) -> Tree {
    indexed(&tree!({"backoffLimitPerIndex": 1, "backoffLimit": 2147483647}).merge(more))
}

/// A pod of an index that ended at `secs`, after so many failures of its index.
fn failed(job: &Tree, name: &str, index: u32, before: (u32, u32), secs: i64) -> Tree {
    let notes = tree!({"batch.kubernetes.io/job-completion-index": (index.to_string()),
        "batch.kubernetes.io/job-index-failure-count": (before.0.to_string()),
        "batch.kubernetes.io/job-index-ignored-failure-count": (before.1.to_string())});
    let status = tree!([{"name": "c", "state": {"terminated": {"exitCode": 1, "finishedAt": at(secs).to_seconds_text()}}}]);
    pod(job, name, "Failed", Some(index))
        .with(meta_path::ANNOTATIONS, notes)
        .with(pod_path::CONTAINER_STATUSES, status)
}

fn running(job: &Tree, index: u32) -> Tree {
    pod(job, &format!("r{index}"), "Running", Some(index))
}

/// The index of a new pod, and the failures it is told of: those that count and those that do not.
type Made = (Option<u32>, Option<(u32, u32)>);

fn created(steps: &[JobAction]) -> Vec<Made> {
    let pods = steps.iter().find_map(|step| match step {
        JobAction::CreatePods(pods) => Some(pods),
        _ => None,
    });
    let one = |pod: &NewPod| (pod.index, pod.index_failures.map(|before| (before.counted, before.ignored)));
    pods.into_iter().flatten().map(one).collect()
}

#[test]
fn an_index_pauses_for_itself_and_hands_its_failures_on() {
    let job = per_index(&tree!({}));
    let pods = [failed(&job, "a", 0, (0, 0), 0), running(&job, 1), running(&job, 2)];
    let early = look(&job, &pods, at(9));
    assert_eq!(short(&early), ["write", "again 10"], "the failed pod stays until it is replaced");
    let status = written(&early);
    assert_eq!((status.int_at(&["active"]), status.str_at(&["failedIndexes"])), (Some(2), ""));
    let due = look(&job, &pods, at(10));
    assert_eq!(short(&due), ["create 1 [0]", "write"]);
    assert_eq!(created(&due), [(Some(0), Some((1, 0)))]);
    let replaced = [pods[0].clone(), running(&job, 0), running(&job, 1), running(&job, 2)];
    let after = look(&job, &replaced, at(11));
    assert_eq!(short(&after), ["write", "release a"], "now it may go");
    assert_eq!(written(&after).items_at(&["uncountedTerminatedPods", "failed"]).len(), 1);
}

#[test]
fn a_new_index_begins_with_no_failures() {
    let job = per_index(&tree!({"completions": 1, "parallelism": 1}));
    assert_eq!(created(&look(&job, &[], at(0))), [(Some(0), Some((0, 0)))]);
    let plain = indexed(&tree!({"completions": 1, "parallelism": 1}));
    assert_eq!(created(&look(&plain, &[], at(0))), [(Some(0), None)], "no limits per index, no count");
}

#[test]
fn the_pause_of_an_index_grows_with_its_failures_ignored_ones_included() {
    let job = per_index(&tree!({"backoffLimitPerIndex": 99}));
    for (before, pause) in [((0, 0), 10), ((1, 0), 20), ((1, 1), 40), ((0, 9), 600)] {
        let pods = [failed(&job, "a", 0, before, 0), running(&job, 1), running(&job, 2)];
        let steps = short(&look(&job, &pods, at(1)));
        assert_eq!(steps.last().unwrap(), &format!("again {pause}"), "{before:?}");
    }
}

#[test]
fn one_index_waits_while_another_begins() {
    let job = per_index(&tree!({}));
    let pods = [failed(&job, "a", 0, (0, 0), 0), running(&job, 1)];
    let steps = look(&job, &pods, at(1));
    assert_eq!(short(&steps), ["create 1 [2]", "write", "again 10"]);
}

#[test]
fn the_last_of_several_failed_pods_of_an_index_hands_on() {
    let job = per_index(&tree!({"backoffLimitPerIndex": 9}));
    let pods = [
        failed(&job, "a", 0, (0, 0), 0),
        failed(&job, "b", 0, (1, 0), 50),
        running(&job, 1),
        running(&job, 2),
    ];
    let steps = look(&job, &pods, at(100));
    assert_eq!(created(&steps), [(Some(0), Some((2, 0)))]);
    assert_eq!(short(&steps), ["create 1 [0]", "write", "release a"], "the earlier one may go at once");
}

#[test]
fn indexes_fail_and_the_job_with_them() {
    let rules = tree!({"podFailurePolicy": {"rules": [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}]}, "podReplacementPolicy": "Failed"});
    let none = tree!({});
    // Sentence, spec, failures before, pods running; failed indexes, condition.
    let cases = [
        ("one more try", &none, 0, 2, "", None),
        ("its tries are used up", &none, 1, 2, "0", None),
        ("a rule fails the index at its first try", &rules, 0, 2, "0", None),
        ("no index is left", &none, 1, 0, "0", Some(("FailedIndexes", "Job has failed indexes"))),
        (
            "more failed than allowed",
            &tree!({"maxFailedIndexes": 0}),
            1,
            2,
            "0",
            Some((
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )),
        ),
        ("as many failed as allowed", &tree!({"maxFailedIndexes": 1}), 1, 2, "0", None),
    ];
    for (says, more, before, alive, failed_indexes, condition) in cases {
        let mut job = per_index(more);
        let mut pods = vec![failed(&job, "a", 0, (before, 0), 0)];
        pods.extend((1..=alive).map(|index| running(&job, index)));
        if alive == 0 {
            job = job.with(&["status", "completedIndexes"], "1,2").with(&["status", "succeeded"], 2);
        }
        let status = written(&look(&job, &pods, at(1)));
        assert_eq!(status.str_at(&["failedIndexes"]), failed_indexes, "{says}");
        let found = status.items_at(&["conditions"]).first();
        let found = found.map(|c| (c.str_at(&["reason"]), c.str_at(&["message"])));
        assert_eq!(found, condition, "{says}");
    }
}

#[test]
fn an_ignored_failure_does_not_use_up_the_tries_of_its_index() {
    let rules = tree!({"backoffLimitPerIndex": 0, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]}});
    let job = per_index(&rules);
    let pods = [failed(&job, "a", 0, (0, 2), 0), running(&job, 1), running(&job, 2)];
    let steps = look(&job, &pods, at(1000));
    assert_eq!(created(&steps), [(Some(0), Some((0, 3)))]);
    assert_eq!(written(&steps).str_at(&["failedIndexes"]), "");
}

#[test]
fn a_failed_index_is_not_tried_again() {
    let job = per_index(&tree!({})).with(&["status", "failedIndexes"], "0");
    assert_eq!(created(&look(&job, &[running(&job, 1)], at(0))), [(Some(2), Some((0, 0)))]);
}

#[test]
fn a_smaller_job_forgets_what_is_out_of_range() {
    let job = per_index(&tree!({"completions": 2, "parallelism": 2}))
        .with(&["status", "completedIndexes"], "0,3-5")
        .with(&["status", "succeeded"], 4)
        .with(&["status", "failedIndexes"], "2,6");
    let pods = [running(&job, 1), running(&job, 7)];
    let steps = look(&job, &pods, at(0));
    assert_eq!(short(&steps), ["discard r7", "write"]);
    let status = written(&steps);
    let texts = (status.str_at(&["completedIndexes"]), status.str_at(&["failedIndexes"]));
    assert_eq!((texts, status.int_at(&["succeeded"])), (("0", ""), Some(1)));
    let smaller =
        indexed(&tree!({"completions": 1, "parallelism": 1})).with(&["status", "completedIndexes"], "0");
    let steps = look(&smaller, &[running(&smaller, 1)], at(0));
    assert_eq!(
        short(&steps),
        ["write", "release r1", "delete r1"],
        "enough is done: the rest goes, uncounted"
    );
    assert_eq!(condition_types(&written(&steps)), ["SuccessCriteriaMet"]);
}

#[test]
fn an_index_out_of_range_is_never_counted() {
    let job = indexed(&tree!({"completions": 2, "parallelism": 2, "backoffLimit": 0}));
    let pods = [
        running(&job, 0),
        running(&job, 1),
        pod(&job, "a", "Succeeded", Some(5)),
        pod(&job, "b", "Failed", Some(6)),
        pod(&job, "c", "Failed", None),
    ];
    let steps = look(&job, &pods, at(0));
    assert_eq!(short(&steps), ["write", "release c,a,b"], "they may go");
    assert_eq!(written(&steps).at(&["uncountedTerminatedPods"]), Some(&tree!({})));
}

#[test]
fn pods_that_go_because_the_job_failed_fail_no_more_indexes() {
    let announced =
        tree!([{"type": "FailureTarget", "status": "True", "reason": "MaxFailedIndexesExceeded"}]);
    let job = per_index(&tree!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}))
        .with(&["status", "failedIndexes"], "2")
        .with(&["status", "conditions"], announced);
    let deleted = running(&job, 0).with(meta_path::DELETED, at(1).to_seconds_text());
    let status = written(&look(&job, &[deleted], at(2)));
    assert_eq!(status.str_at(&["failedIndexes"]), "2");
    assert_eq!(status.items_at(&["uncountedTerminatedPods", "failed"]).len(), 1, "though the pod counts");
}
