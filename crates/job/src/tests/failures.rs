//! What failures mean: policies, limits, pauses.

use super::*;

fn policy(rules: Tree) -> Tree {
    tree!({"completions": 2, "parallelism": 2, "backoffLimit": 3, "podFailurePolicy": {"rules": rules},
        "podReplacementPolicy": "Failed"})
}

/// A pod whose container `c` ended with this code, long ago.
fn ended(job: &Tree, name: &str, code: i64) -> Tree {
    let status = tree!([{"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": at(-1000).to_seconds_text()}}}]);
    pod(job, name, if code == 0 { "Succeeded" } else { "Failed" }, None)
        .with(pod_path::CONTAINER_STATUSES, status)
}

fn with_condition(pod: &Tree, kind: &str, status: &str) -> Tree {
    pod.with(pod_path::CONDITIONS, tree!([{"type": kind, "status": status}]))
}

#[test]
fn the_first_rule_that_matches_decides() {
    let codes = |action: &str, operator: &str| tree!({"action": action, "onExitCodes": {"operator": operator, "values": [3, 42]}});
    let condition = |action: &str| tree!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
    let other = tree!({"action": "FailJob", "onExitCodes": {"containerName": "side", "operator": "In", "values": [42]}});
    // Sentence, rules, exit code, condition; whether the Job fails, how many failures are listed.
    let cases = [
        ("no rule matches: it counts", tree!([(codes("FailJob", "In"))]), 1, None, None, 1),
        (
            "a code fails the Job",
            tree!([(codes("FailJob", "In"))]),
            42,
            None,
            Some("Container c for pod ns/a failed with exit code 42 matching FailJob rule at index 0"),
            2,
        ),
        (
            "a code that is not among them fails the Job",
            tree!([(codes("FailJob", "NotIn"))]),
            1,
            None,
            Some("Container c for pod ns/a failed with exit code 1 matching FailJob rule at index 0"),
            2,
        ),
        ("another container is meant", tree!([(other.clone())]), 42, None, None, 1),
        ("ignored", tree!([(codes("Ignore", "In")), (codes("FailJob", "In"))]), 3, None, None, 0),
        ("counted by rule", tree!([(codes("Count", "In")), (codes("FailJob", "In"))]), 3, None, None, 1),
        (
            "a condition ignores",
            tree!([(condition("Ignore")), (codes("FailJob", "In"))]),
            42,
            Some("True"),
            None,
            0,
        ),
        (
            "a condition must have the status asked for",
            tree!([(condition("Ignore"))]),
            1,
            Some("False"),
            None,
            1,
        ),
        (
            "a condition fails the Job",
            tree!([(codes("Ignore", "In")), (condition("FailJob"))]),
            1,
            Some("True"),
            Some("Pod ns/a has condition DisruptionTarget matching FailJob rule at index 1"),
            2,
        ),
    ];
    for (says, rules, code, condition, message, listed) in cases {
        let job = begun(policy(rules));
        let mut failed = ended(&job, "a", code);
        if let Some(status) = condition {
            failed = with_condition(&failed, "DisruptionTarget", status);
        }
        let status = written(&look(&job, &[failed, pod(&job, "b", "Running", None)], at(5)));
        let target = status.items_at(&["conditions"]).first();
        assert_eq!(target.map(|c| c.str_at(&["message"])), message, "{says}");
        assert!(target.is_none_or(
            |c| c.str_at(&["type"]) == "FailureTarget" && c.str_at(&["reason"]) == "PodFailurePolicy"
        ));
        assert_eq!(status.items_at(&["uncountedTerminatedPods", "failed"]).len(), listed, "{says}");
    }
}

#[test]
fn an_ignored_failure_is_replaced_and_reaches_no_limit() {
    let rules = tree!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}]);
    let job = begun(policy(rules).with(&["backoffLimit"], 0));
    let pods = [ended(&job, "a", 9), ended(&job, "b", 9), pod(&job, "c", "Running", None)];
    assert_eq!(short(&look(&job, &pods, at(0))), ["create 1 []", "write", "release a,b"]);
}

#[test]
fn a_job_that_failed_does_not_count_running_pods_that_the_policy_ignores() {
    let rules = tree!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]);
    let job = begun(policy(rules));
    let running = with_condition(&pod(&job, "b", "Running", None), "DisruptionTarget", "True");
    let steps = look(&job, &[ended(&job, "a", 42), running], at(0));
    assert_eq!(short(&steps), ["write", "delete b", "release a,b"]);
    assert_eq!(written(&steps).items_at(&["uncountedTerminatedPods", "failed"]), [Tree::from("uid-a")]);
}

#[test]
fn the_pause_doubles_with_each_failure_and_ends_with_a_success() {
    let job = begun(tree!({"completions": 9, "parallelism": 1, "backoffLimit": 99}));
    let failed_at = |n: usize, secs: i64| {
        let status = tree!([{"state": {"terminated": {"finishedAt": at(secs).to_seconds_text()}}}]);
        pod(&job, &format!("f{n}"), "Failed", None).with(pod_path::CONTAINER_STATUSES, status)
    };
    for (failures, pause) in [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (20, 600)] {
        let pods: Vec<Tree> = (0..failures).map(|n| failed_at(n, 0)).collect();
        let again = short(&look(&job, &pods, at(1)));
        assert_eq!(again.last().unwrap(), &format!("again {pause}"), "after {failures}");
        let over = short(&look(&job, &pods, at(pause)));
        assert_eq!(over[0], "create 1 []", "after {failures}");
    }
    let success = |secs: i64| failed_at(99, secs).with(pod_path::PHASE, "Succeeded");
    let steps = short(&look(&job, &[failed_at(0, 0), failed_at(1, 1), success(2)], at(3)));
    assert_eq!(steps[0], "create 1 []", "a success after the failures");
    let steps = short(&look(&job, &[failed_at(0, 0), success(1), failed_at(1, 2)], at(3)));
    assert_eq!(steps.last().unwrap(), "again 12", "only the failure after the success counts");
}

#[test]
fn a_failure_is_remembered_when_its_pod_is_gone_but_pods_we_took_away_are_no_failures() {
    let job = begun(tree!({"completions": 1, "parallelism": 1, "backoffLimit": 9}));
    let facts = JobFacts::of(&job);
    let deleted = pod(&job, "a", "Running", None).with(meta_path::DELETED, at(5).to_seconds_text());
    let read = |pod: &Tree| JobPod::of(pod, &facts);
    let first = decide(&facts, &[read(&deleted)], &[], &BackoffRecord::default(), at(6));
    assert_eq!(short(&first.steps), ["write", "release a", "again 15"], "deleted by hand: a failure");
    let later = decide(&facts, &[], &[], &first.backoff_record, at(7));
    assert_eq!(short(&later.steps), ["write", "again 15"], "it is gone, the pause is not over");
    let over = decide(&facts, &[], &[], &later.backoff_record, at(15));
    assert_eq!(short(&over.steps), ["create 1 []", "write"]);
    let ours = deleted.without(meta_path::FINALIZERS);
    assert_eq!(short(&look(&job, &[ours], at(6))), ["create 1 []", "write"], "taken away by us: no pause");
}

#[test]
fn replacements_wait_for_the_end_where_the_policy_says_so() {
    for (policy, deleted_phase, want) in [
        ("TerminatingOrFailed", "Running", &["write", "release a", "again 15"] as &[&str]),
        ("Failed", "Running", &["write"]),
        ("Failed", "Failed", &["write", "release a", "again 15"]),
    ] {
        let job = begun(tree!({"completions": 1, "parallelism": 1, "podReplacementPolicy": policy}));
        let gone = pod(&job, "a", deleted_phase, None).with(meta_path::DELETED, at(5).to_seconds_text());
        let steps = look(&job, &[gone], at(6));
        assert_eq!(short(&steps), want, "{policy} {deleted_phase}");
        let terminating = i64::from(deleted_phase == "Running");
        assert_eq!(written(&steps).int_at(&["terminating"]), Some(terminating), "{policy} {deleted_phase}");
    }
}

#[test]
fn any_restart_is_too_many_where_no_failure_is_tolerated() {
    let job = begun(
        tree!({"completions": 1, "parallelism": 1, "backoffLimit": 0, "template": {"spec": {"restartPolicy": "OnFailure"}}}),
    );
    let restarted = |n: i64| {
        [pod(&job, "a", "Running", None).with(pod_path::CONTAINER_STATUSES, tree!([{"restartCount": n}]))]
    };
    assert_eq!(short(&look(&job, &restarted(0), at(0))), ["write"]);
    assert_eq!(short(&look(&job, &restarted(1), at(0))), ["write", "delete a", "release a"]);
}

#[test]
fn after_refused_creates_the_status_is_told_first() {
    let facts = JobFacts::of(&job(tree!({"completions": 1})));
    let snapshot = JobSnapshot {
        job: &facts,
        pods: &[],
        orphans: &[],
        backoff_record: &BackoffRecord::default(),
        name_in_use: &|_| false,
        groups: None,
        create_failed: true,
        now: at(0),
    };
    let steps = reconcile(&snapshot).steps;
    assert_eq!(short(&steps), ["write", "create 1 []"]);
    assert_eq!(
        written(&steps),
        tree!({"startTime": at(0).to_seconds_text(), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}})
    );
}
