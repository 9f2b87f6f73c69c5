use muster_api::jobset::FailurePolicyAction;
use muster_tree::{Tree, tree};

use super::super::InPlacePod;
use super::{Played, jobs, spec};
use crate::FeatureGates;

fn policy(max: i64, rules: &[Tree]) -> Tree {
    tree!({"failurePolicy": {"maxRestarts": max, "restartStrategy": "Recreate", "rules": Tree::list(rules.iter().cloned())}})
}

fn rule(action: &str) -> Tree {
    tree!({"name": "r", "action": action})
}

#[test]
fn without_a_policy_the_first_failure_is_the_last() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.settle();
    played.fail("s-a-1");
    played.pass();
    played.now = played.now + std::time::Duration::from_secs(9);
    played.settle();
    assert_eq!((played.terminal(), played.counts("a")), ("Failed", [0, 0, 1, 0, 0]));
    assert_eq!(
        played.said,
        [(
            "FailedJobs".into(),
            "jobset failed due to one or more job failures (first failed job: s-a-1)".to_owned()
        )]
    );
    assert_eq!(played.names("job"), ["s-a-1"], "active ones go, failed ones stay");
}

#[test]
fn restarts_until_there_are_too_many() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &policy(1, &[])));
    played.settle();
    played.fail("s-a-0");
    played.pass();
    assert_eq!(
        played.done.last().map(String::as_str),
        Some("status"),
        "nothing is deleted before the count is written"
    );
    assert_eq!((played.restarts(), played.names("job").len()), ((1, 1), 2));
    played.settle();
    assert_eq!(played.names("job").len(), 2);
    let attempt = ["metadata", "labels", "jobset.sigs.k8s.io/restart-attempt"];
    assert!(played.all("job").all(|it| it.str_at(&attempt) == "1"));
    assert_eq!(played.conditions(), ["RestartingJobSet True DefaultFailurePolicy"]);
    assert_eq!(played.reasons(), ["DefaultFailurePolicy", "RestartJobSetFailurePolicyAction"]);
    played.ready("s-a-0");
    played.ready("s-a-1");
    played.settle();
    assert_eq!(played.conditions(), ["RestartingJobSet False JobsReady"]);
    played.fail("s-a-1");
    played.settle();
    assert_eq!((played.terminal(), played.restarts()), ("Failed", (1, 1)));
    assert_eq!(
        played.conditions(),
        ["RestartingJobSet False JobSetFailed", "Failed True ReachedMaxRestarts"]
    );
    let (_, message) = played.said.iter().find(|(reason, _)| reason == "ReachedMaxRestarts").unwrap();
    assert_eq!(message, "jobset failed due to reaching max number of restarts (first failed job: s-a-1)");
}

#[test]
fn the_first_rule_that_applies_counts() {
    let on = |key: &str, words: &[&str]| rule("FailJobSet").with(&[key], Tree::list(words.iter().copied()));
    let cases = [
        ("no condition at all", rule("FailJobSet"), true),
        ("the reason", on("onJobFailureReasons", &["DeadlineExceeded", "BackoffLimitExceeded"]), true),
        ("another reason", on("onJobFailureReasons", &["DeadlineExceeded"]), false),
        ("a part of the message", on("onJobFailureMessagePatterns", &["^x", "specified back.ff"]), true),
        ("no part of the message", on("onJobFailureMessagePatterns", &["^specified"]), false),
        ("no expression", on("onJobFailureMessagePatterns", &["("]), false),
        ("no expression, and one", on("onJobFailureMessagePatterns", &["(", "limit$"]), true),
        ("the replicatedJob", on("targetReplicatedJobs", &["a"]), true),
        ("another replicatedJob", on("targetReplicatedJobs", &["b"]), false),
        (
            "all of it",
            on("targetReplicatedJobs", &["a"])
                .with(&["onJobFailureReasons"], Tree::list(["DeadlineExceeded"])),
            false,
        ),
    ];
    for (says, rule, applies) in cases {
        let mut played = Played::new(&spec(&[jobs("a", 1), jobs("b", 1)], &policy(3, &[rule])));
        played.settle();
        played.fail("s-a-0");
        played.settle();
        assert_eq!(played.terminal(), if applies { "Failed" } else { "" }, "{says}");
        assert_eq!(played.restarts().0, i64::from(!applies), "{says}");
    }
}

#[test]
fn actions() {
    // Restarts, counted restarts, terminal state, and event reasons with `maxRestarts: 0`.
    let cases = [
        ("FailJobSet", (0, 0), "Failed", vec!["FailJobSetFailurePolicyAction"]),
        ("RestartJobSet", (0, 0), "Failed", vec!["ReachedMaxRestarts"]),
        (
            "RestartJobSetAndIgnoreMaxRestarts",
            (1, 0),
            "",
            vec!["FailurePolicy_r", "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction"],
        ),
        ("RestartJob", (0, 0), "Failed", vec!["ReachedMaxRestarts"]),
        (
            "RestartJobAndIgnoreMaxRestarts",
            (0, 0),
            "",
            vec!["RestartJobAndIgnoreMaxRestartsFailurePolicyAction"],
        ),
    ];
    assert_eq!(cases.len(), FailurePolicyAction::ALL.len());
    for (action, restarts, terminal, reasons) in cases {
        let mut played = Played::new(&spec(&[jobs("a", 2)], &policy(0, &[rule(action)])));
        played.gates = FeatureGates { restart_job: true, ..FeatureGates::default() };
        played.settle();
        played.fail("s-a-1");
        played.settle();
        assert_eq!(
            (played.restarts(), played.terminal(), played.reasons()),
            (restarts, terminal, reasons),
            "{action}"
        );
    }
}

#[test]
fn a_list_of_counted_restarts_is_absent_until_one_counts() {
    let mut ignoring = rule("RestartJobAndIgnoreMaxRestarts");
    ignoring = ignoring.with(&["targetReplicatedJobs"], Tree::list(["a"]));
    let rules = [ignoring, rule("RestartJob").with(&["name"], "other")];
    let mut played = Played::new(&spec(&[jobs("a", 2), jobs("b", 2)], &policy(5, &rules)));
    played.gates = FeatureGates { restart_job: true, ..FeatureGates::default() };
    played.settle();
    for job in ["s-a-0", "s-b-1"] {
        played.fail(job);
        played.settle();
    }
    let all = played.set.items_at(&["status", "replicatedJobsStatus"]);
    let of = |name: &str| all.iter().find(|it| it.str_at(&["name"]) == name).unwrap();
    let lists = |name: &str| ["jobRestarts", "jobRestartsCountTowardsMax"].map(|key| of(name).get(key));
    assert_eq!(lists("a"), [Some(&Tree::list([1, 0])), None]);
    assert_eq!(lists("b"), [Some(&Tree::list([0, 1])); 2]);
}

#[test]
fn one_job_alone() {
    let mut played = Played::new(&spec(&[jobs("a", 3)], &policy(2, &[rule("RestartJob")])));
    played.gates = FeatureGates { restart_job: true, ..FeatureGates::default() };
    played.settle();
    let uid = |played: &Played, job: &str| muster_api::meta::uid(played.one("job", job));
    let (first, neighbour) = (uid(&played, "s-a-1"), uid(&played, "s-a-0"));
    played.fail("s-a-1");
    played.fail("s-a-2");
    played.pass();
    let status = |played: &Played| played.set.items_at(&["status", "replicatedJobsStatus"])[0].clone();
    assert_eq!(status(&played).at(&["jobRestarts"]), Some(&Tree::list([0, 1, 0])), "one after the other");
    played.settle();
    assert_eq!(status(&played).at(&["jobRestarts"]), Some(&Tree::list([0, 1, 1])));
    assert_eq!(status(&played).at(&["jobRestartsCountTowardsMax"]), Some(&Tree::list([0, 1, 1])));
    assert!(uid(&played, "s-a-1") != first && uid(&played, "s-a-0") == neighbour);
    assert_eq!(played.conditions(), Vec::<String>::new());
    let label = ["metadata", "labels", "jobset.sigs.k8s.io/job-restart-attempt"];
    assert_eq!(played.one("job", "s-a-2").str_at(&label), "1");
    played.fail("s-a-0");
    played.settle();
    assert_eq!(played.terminal(), "Failed", "two restarts of single Jobs are as many as are allowed");
}

#[test]
fn a_rule_with_a_disabled_feature_gate_is_reported() {
    let mut played = Played::new(&spec(&[jobs("a", 1)], &policy(2, &[rule("RestartJob")])));
    played.settle();
    played.fail("s-a-0");
    played.settle();
    assert_eq!(
        (played.reasons()[0], played.terminal(), played.restarts()),
        ("FailurePolicyActionDisabled", "", (0, 0))
    );
}

#[test]
fn strategies() {
    for (strategy, made) in [("Recreate", 1), ("BlockingRecreate", 0)] {
        let policy = tree!({"failurePolicy": {"maxRestarts": 1, "restartStrategy": strategy}});
        let mut played = Played::new(&spec(&[jobs("a", 2)], &policy));
        played.settle();
        played.lingers = true;
        played.fail("s-a-0");
        played.settle();
        let deletes = played.done.iter().filter(|it| it.starts_with("-job")).count();
        assert_eq!(deletes, 2, "{strategy}: each is deleted once");
        played.done.clear();
        played.gone("s-a-0");
        played.settle();
        assert_eq!(played.done.iter().filter(|it| it.starts_with("+job")).count(), made, "{strategy}");
        played.gone("s-a-1");
        played.settle();
        assert_eq!(played.done.iter().filter(|it| it.starts_with("+job")).count(), 2, "{strategy}");
    }
}

#[test]
fn the_one_that_failed_first_is_named() {
    let mut played = Played::new(&spec(&[jobs("a", 2)], &tree!({})));
    played.settle();
    played.fail("s-a-1");
    played.now = played.now + std::time::Duration::from_secs(10);
    played.fail("s-a-0");
    played.settle();
    assert!(played.said[0].1.ends_with("(first failed job: s-a-1)"), "{:?}", played.said);
}

#[test]
fn in_place() {
    let pod = |attempt: &str| InPlacePod { restarts: 0, failed: false, attempt: Some(attempt.into()) };
    // What the pods say, and the attempts that are over and reached afterwards.
    let cases = [
        ("none says anything", vec![], (None, None), ""),
        ("all at the start", vec![pod("0"), pod("0")], (None, Some(0)), ""),
        ("one is missing", vec![pod("0")], (None, None), ""),
        ("one goes on", vec![pod("0"), pod("1")], (Some(0), None), ""),
        ("all went on", vec![pod("1"), pod("1")], (None, Some(1)), ""),
        ("too often", vec![pod("3"), pod("3")], (None, None), "Failed"),
        (
            "a container too often",
            vec![InPlacePod { restarts: 3, ..pod("0") }, pod("0")],
            (None, None),
            "Failed",
        ),
        (
            "failed pods do not count",
            vec![pod("1"), InPlacePod { failed: true, ..pod("9") }, pod("1")],
            (None, Some(1)),
            "",
        ),
        ("no number", vec![pod("many"), pod("0")], (None, None), ""),
    ];
    for (says, pods, want, terminal) in cases {
        let policy = tree!({"failurePolicy": {"maxRestarts": 2, "restartStrategy": "InPlaceRestart"}});
        let mut played = Played::new(&spec(&[jobs("a", 2)], &policy));
        played.gates = FeatureGates { in_place_restart: true, ..FeatureGates::default() };
        played.settle();
        played.pods = pods;
        played.pass();
        let number = |key| played.set.int_at(&["status", key]);
        let found = (number("previousInPlaceRestartAttempt"), number("currentInPlaceRestartAttempt"));
        assert_eq!((found, played.terminal()), (want, terminal), "{says}");
    }
}
