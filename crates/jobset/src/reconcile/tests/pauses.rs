use muster_tree::{Tree, tree};

use super::{Played, jobs, spec};
use crate::FeatureGates;

fn suspended(played: &mut Played, suspend: bool) {
    played.set = played.set.with(&["spec", "suspend"], suspend);
}

/// The Job controller has seen to it that nothing runs.
fn paused(played: &mut Played, job: &str) {
    played.change(
        "job",
        job,
        &tree!({"status": {"active": Tree::Null, "ready": 0, "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{"type": "Suspended", "status": "True"}]}}),
    );
}

#[test]
fn made_suspended_and_resumed() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({"suspend": true})));
    played.settle();
    assert_eq!(played.conditions(), ["Suspended True SuspendedJobs"]);
    assert_eq!(played.counts("a"), [0, 0, 0, 0, 2]);
    assert!(played.all("job").all(|it| it.bool_at(&["spec", "suspend"]) == Some(true)));
    suspended(&mut played, false);
    played.settle();
    assert_eq!(played.conditions(), ["Suspended False ResumeJobs"]);
    assert!(played.all("job").all(|it| it.bool_at(&["spec", "suspend"]) == Some(false)));
    assert_eq!(played.reasons(), ["SuspendedJobs", "ResumeJobs"]);
}

#[test]
fn a_restart_that_is_suspended_is_none() {
    let mut played = Played::new(&spec(&[jobs("a", 1)], &tree!({"failurePolicy": {"maxRestarts": 2}})));
    played.settle();
    played.fail("s-a-0");
    played.settle();
    suspended(&mut played, true);
    played.settle();
    assert_eq!(
        played.conditions(),
        ["RestartingJobSet False JobSetSuspended", "Suspended True SuspendedJobs"]
    );
}

/// On resume the scheduling fields of a Job are those of the template; nothing of an earlier admission remains.
#[test]
fn scheduling_fields_are_replaced_and_labels_are_merged() {
    let job = |selector: Tree, labels: Tree| {
        jobs("a", 1)
            .with(&["template", "spec", "template", "spec", "nodeSelector"], selector)
            .with(&["template", "spec", "template", "metadata"], tree!({"labels": labels}))
    };
    let before = job(tree!({"flavor": "old", "disk": "ssd"}), tree!({"was": "1"}));
    let mut played = Played::new(&spec(&[before], &tree!({})));
    played.settle();
    suspended(&mut played, true);
    played.settle();
    let after = job(tree!({"flavor": "new"}), tree!({"is": "1"}));
    let tolerated = after.with(
        &["template", "spec", "template", "spec", "tolerations"],
        Tree::list([tree!({"key": "k", "operator": "Exists"})]),
    );
    played.set = played.set.with(&["spec", "replicatedJobs"], Tree::list([tolerated]));
    suspended(&mut played, false);
    played.settle();
    assert_eq!(
        played.one("job", "s-a-0").bool_at(&["spec", "suspend"]),
        Some(true),
        "not before its controller has suspended it"
    );
    assert_eq!(played.conditions(), ["Suspended True SuspendedJobs"]);
    paused(&mut played, "s-a-0");
    played.settle();
    let job = played.one("job", "s-a-0");
    let pod = job.at(&["spec", "template"]).unwrap();
    assert_eq!(job.bool_at(&["spec", "suspend"]), Some(false));
    assert_eq!(job.at(&["status", "startTime"]), None, "a start would forbid the change");
    assert_eq!(pod.at(&["spec", "nodeSelector"]), Some(&tree!({"flavor": "new"})));
    assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 1);
    assert_eq!(
        (pod.str_at(&["metadata", "labels", "was"]), pod.str_at(&["metadata", "labels", "is"])),
        ("1", "1")
    );
    assert_eq!(played.conditions(), ["Suspended False ResumeJobs"]);
}

#[test]
fn in_order_they_go_on_one_after_the_other() {
    let policy = tree!({"startupPolicy": {"startupPolicyOrder": "InOrder"}, "suspend": true});
    let mut played = Played::new(&spec(&[jobs("a", 1), jobs("b", 1)], &policy));
    played.settle();
    assert_eq!(played.names("job").len(), 2, "all are made, suspended");
    assert_eq!(played.conditions(), ["Suspended True SuspendedJobs"]);
    suspended(&mut played, false);
    played.settle();
    let runs =
        |played: &Played, job: &str| played.one("job", job).bool_at(&["spec", "suspend"]) == Some(false);
    assert!(runs(&played, "s-a-0") && !runs(&played, "s-b-0"));
    assert_eq!(
        played.conditions(),
        ["Suspended True SuspendedJobs", "StartupPolicyInProgress True InOrderStartupPolicyInProgress"]
    );
    played.ready("s-a-0");
    played.settle();
    assert!(runs(&played, "s-b-0"));
    played.ready("s-b-0");
    played.settle();
    assert_eq!(played.conditions()[0], "Suspended False ResumeJobs");
}

#[test]
fn dependents_resume_when_their_dependencies_complete() {
    let after = jobs("b", 1).with(&["dependsOn"], Tree::list([tree!({"name": "a", "status": "Complete"})]));
    let mut played = Played::new(&spec(&[jobs("a", 1), after], &tree!({"suspend": true})));
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0"], "only those whose turn it is");
    suspended(&mut played, false);
    played.settle();
    played.succeed("s-a-0");
    suspended(&mut played, true);
    played.settle();
    assert_eq!(played.names("job"), ["s-a-0", "s-b-0"]);
    assert_eq!(played.counts("b"), [0, 0, 0, 0, 1]);
    suspended(&mut played, false);
    played.settle();
    assert_eq!(played.counts("b"), [0, 0, 0, 0, 0]);
}

#[test]
fn elastic() {
    let wide = |n: u32| {
        jobs("a", 2)
            .with(&["template", "spec", "parallelism"], n)
            .with(&["template", "spec", "completions"], n)
    };
    for on in [false, true] {
        let mut played = Played::new(&spec(&[wide(2)], &tree!({})));
        played.gates = FeatureGates { elastic: on, ..FeatureGates::default() };
        played.settle();
        played.set = played.set.with(&["spec", "replicatedJobs"], Tree::list([wide(5)]));
        played.settle();
        let want = if on { 5 } else { 2 };
        for job in played.all("job") {
            assert_eq!(
                (job.int_at(&["spec", "parallelism"]), job.int_at(&["spec", "completions"])),
                (Some(want), Some(want))
            );
        }
    }
}
