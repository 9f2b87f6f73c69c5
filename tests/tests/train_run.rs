//! `muster run` and `muster why` with TrainJobs: exit codes, what they say, and what is left behind.

use std::time::Duration;

use muster_tests::embedded_server::{EmbeddedServer, RestartableServer};
use muster_tests::muster_process::until;
use muster_tests::trainjob_fixture::{
    CommandResult, JOB_SETS, PODS, RUNTIMES, TRAIN_JOBS, create, delete, holds, muster, names, run,
};
use muster_tree::{Tree, tree};

/// A runtime whose simulated pods exit with this code.
fn runtime(name: &str, code: i64, seconds: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime\nmetadata: {{name: {name}}}\nspec:
  mlPolicy: {{numNodes: 1}}\n  template:\n    spec:\n      replicatedJobs:\n      - name: node\n        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}\n          spec:
            backoffLimit: 0\n            template:
              metadata: {{annotations: {{muster.dev/sim-exit-code: '{code}', muster.dev/sim-run-seconds: '{seconds}'}}}}
              spec: {{restartPolicy: Never, containers: [{{name: node, image: x}}]}}\n"
    )
}

/// A TrainJob of two nodes.
fn job(name: &str, runtime: &str, more: &str) -> String {
    format!(
        "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {{name: {name}}}
spec: {{runtimeRef: {{name: {runtime}}}, trainer: {{numNodes: 2}}{more}}}\n"
    )
}

fn simulated(text: &str, words: &[&str]) -> CommandResult {
    run(text, &[&["--sim-nodes", "2"], words].concat())
}

#[test]
fn codes_and_summaries() {
    let (good, bad) = (runtime("good", 0, "0.1"), runtime("bad", 3, "0.1"));
    for (says, text, code, words) in [
        (
            "it completes, and its runtime stands below it",
            format!("{}---\n{good}", job("a", "good", "")),
            0,
            vec!["trainjob/a  completed  2"],
        ),
        (
            "it fails",
            format!("{bad}---\n{}", job("b", "bad", "")),
            1,
            vec![
                "trainjob/b  failed",
                "container node exited with code 3",
                "trainjob/b failed: FailedJobs: ",
            ],
        ),
        (
            "its deadline is over",
            format!("{}---\n{}", runtime("slow", 0, "100"), job("c", "slow", ", activeDeadlineSeconds: 2")),
            1,
            vec!["trainjob/c failed: DeadlineExceeded: TrainJob exceeded its active deadline"],
        ),
        (
            "it is gone as soon as it ended",
            format!("{good}---\n{}", job("d", "good", ", ttlSecondsAfterFinished: 0")),
            0,
            vec!["trainjob/d  completed  2"],
        ),
    ] {
        simulated(&text, &[]).assert(says, code, &words);
    }
}

#[test]
fn what_cannot_be_run() {
    let good = runtime("good", 0, "0.1");
    let long = "a".repeat(60);
    for (says, text, words) in [
        ("no runtime", job("a", "nowhere", ""), "must be created before the TrainJob is created"),
        ("no such field", format!("{good}---\n{}", job("a", "good", ", wrong: 1")), "unknown field"),
        (
            "no deadline at all",
            format!("{good}---\n{}", job("a", "good", ", activeDeadlineSeconds: 0")),
            "activeDeadlineSeconds",
        ),
        ("no work", good.clone(), "there is no work in"),
        (
            "no JobSet can be made of it",
            format!("{good}---\n{}", job(&long, "good", "")),
            "TrainJobResourcesCreationFailed: TrainJob resources reconciliation failed: ",
        ),
    ] {
        let ran = simulated(&text, &[]);
        ran.assert(says, 2, &[words]);
        assert_eq!(ran.out, "", "{says}");
    }
    let ran = run(&format!("{good}---\n{}", job("silent", "good", "")), &[]);
    ran.assert("no command on this machine", 2, &["could not be run", "has no command"]);
}

#[test]
fn the_time_is_up() {
    let text = format!("{}---\n{}", runtime("slow", 0, "1000"), job("slow", "slow", ""));
    simulated(&text, &["--timeout", "5s"]).assert("time is up", 124, &["trainjob/slow  timed out"]);
    let text = format!("{}---\n{}", runtime("slow", 0, "1000"), job("held", "slow", ", suspend: true"));
    simulated(&text, &["--timeout", "5s"]).assert("nobody resumes it", 124, &["trainjob/held  timed out"]);
}

#[test]
fn summaries_and_plans_for_machines() {
    let text = format!("{}---\n{}", job("b", "bad", ""), runtime("bad", 3, "0.1"));
    let ran = simulated(&text, &["-o", "json"]);
    let summary = Tree::parse(ran.out.as_bytes()).unwrap();
    let work = &summary.items_at(&["work"])[0];
    let (kind, name, result) = (work.str_at(&["kind"]), work.str_at(&["name"]), work.str_at(&["result"]));
    assert_eq!((kind, name, result), ("TrainJob", "b", "failed"));
    assert_eq!(summary.int_at(&["exitCode"]), Some(1));
    let planned = run(&text, &["--dry-run"]);
    let documents = Tree::parse_yaml_documents(&planned.out).unwrap();
    let kinds: Vec<&str> = documents.iter().map(|it| it.str_at(&["kind"])).collect();
    assert_eq!((planned.code, kinds), (0, vec!["ClusterTrainingRuntime", "TrainJob"]), "{}", planned.err);
}

/// On a server that stays nothing stays, neither of what completed nor of what was cut short.
#[test]
fn another_server_is_left_as_it_was() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "2"]).unwrap();
    let server = plane.server().unwrap();
    let kubeconfig = plane.kubeconfig().display().to_string();
    let before = names(&server, RUNTIMES);
    let slow = format!("{}---\n{}", runtime("own", 0, "1000"), job("a", "own", ""));
    let good = format!("{}---\n{}", runtime("own", 0, "0.1"), job("a", "own", ""));
    for (says, text, words, code) in [
        ("it completes", &good, vec![], 0),
        ("it is cut short", &slow, vec!["--timeout", "5s"], 124),
        ("the same again", &good, vec![], 0),
    ] {
        let ran = run(text, &[&["--kubeconfig", &kubeconfig], words.as_slice()].concat());
        ran.assert(says, code, &["trainjob/a"]);
        assert_eq!(names(&server, RUNTIMES), before, "{says}");
        for path in [TRAIN_JOBS, JOB_SETS, PODS] {
            until(&server, path, "nothing is left", |list| {
                list.items_at(&["items"]).is_empty().then_some(())
            });
        }
    }
}

/// What `muster why` says of a TrainJob of the default namespace.
fn why(kubeconfig: &str, name: &str, words: &[&str]) -> CommandResult {
    let name = format!("trainjob/{name}");
    let ran = muster(&[&["why", &name, "-n", "default", "--kubeconfig", kubeconfig], words].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    ran
}

fn document(text: &str) -> Tree {
    Tree::parse_yaml_documents(text).unwrap().remove(0)
}

#[test]
fn why_it_waits() {
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "2"]).unwrap();
    let server = plane.server().unwrap();
    let kubeconfig = plane.kubeconfig().display().to_string();
    let why = |name: &str| why(&kubeconfig, name, &[]).out;
    for (name, seconds) in [("slow", "1000"), ("good", "0.1")] {
        create(&server, &document(&runtime(name, 0, seconds)));
    }
    let make = |name: &str, runtime: &str, more: &str| create(&server, &document(&job(name, runtime, more)));
    let ended = |name: &str, kind: &str| {
        until(&server, &format!("{TRAIN_JOBS}/{name}"), kind, |job| holds(job, kind).map(drop));
    };
    let said = |name: &str, words: &[&str]| {
        let mut last = String::new();
        for _ in 0..300 {
            last = why(name);
            if words.iter().all(|word| last.contains(word)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{name}: {words:?} are not all in:\n{last}");
    };
    make("held", "slow", ", suspend: true, activeDeadlineSeconds: 7200");
    said(
        "held",
        &["TrainJob default/held: Suspended", "7200s from its creation; time passes while it is suspended"],
    );
    make("runs", "slow", ", activeDeadlineSeconds: 7200, ttlSecondsAfterFinished: 3600");
    said("runs", &["TrainJob default/runs: Running", "  deadline: ", "it is deleted 3600s after its end"]);
    let long = "a".repeat(60);
    make(&long, "good", "");
    said(&long, &["Pending\n  TrainJobResourcesCreationFailed: TrainJob resources reconciliation failed: "]);
    make(
        "large",
        "good",
        ", runtimePatches: [{manager: a.dev/b, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, \
        template: {spec: {template: {spec: {nodeSelector: {never: there}}}}}}]}}}}]",
    );
    said(
        "large",
        &["large: Pending", "Unschedulable: 0/2 nodes are available", "2 of 2 pods are not scheduled:"],
    );
    make("done", "good", ", ttlSecondsAfterFinished: 3600");
    ended("done", "Complete");
    said(
        "done",
        &[
            "TrainJob default/done: Finished\n  AllJobsCompleted: ",
            "it is deleted at 2",
            "with its pods and their logs",
        ],
    );
    make("late", "slow", ", activeDeadlineSeconds: 1");
    ended("late", "Failed");
    said(
        "late",
        &["TrainJob default/late: Failed\n  DeadlineExceeded: TrainJob exceeded its active deadline"],
    );
}

/// The controller that enforces deadlines does not run: `muster why` reports it. Another cause is reported likewise: the
/// runtime is deleted before a controller adds its finalizer.
///
/// Shows: 2899-52.
#[test]
fn a_missed_deadline_and_a_missing_runtime_show() {
    let mut mortal = RestartableServer::with_args(&["--sim-nodes", "1"]).unwrap();
    let server = mortal.server().unwrap();
    for (name, seconds) in [("slow", "1000"), ("gone", "1")] {
        create(&server, &document(&runtime(name, 0, seconds)));
    }
    create(&server, &document(&job("early", "slow", ", activeDeadlineSeconds: 7200")));
    until(&server, &format!("{JOB_SETS}/early"), "it is made", |it| {
        (it.str_at(&["kind"]) == "JobSet").then_some(())
    });
    mortal.kill();
    mortal.set_args(&["--sim-nodes", "1", "--controllers", "*,-trainer"]);
    mortal.restart().unwrap();
    let server = mortal.server().unwrap();
    let kubeconfig = mortal.kubeconfig().display().to_string();
    create(&server, &document(&job("late", "slow", ", activeDeadlineSeconds: 1")));
    create(&server, &document(&job("bare", "gone", "")));
    delete(&server, &format!("{RUNTIMES}/gone"));
    std::thread::sleep(Duration::from_secs(3));
    why(&kubeconfig, "late", &[]).assert(
        "nobody acts",
        0,
        &[
            "TrainJob default/late: Overdue",
            "DeadlineMissed: its deadline was ",
            "check that the trainer controller runs",
        ],
    );
    let data = Tree::parse(why(&kubeconfig, "late", &["-o", "json"]).out.as_bytes()).unwrap();
    assert_eq!((data.str_at(&["state"]), data.str_at(&["reason"])), ("Overdue", "DeadlineMissed"));
    assert!(
        data.int_at(&["deadline", "remainingSeconds"]).is_some_and(|left| left < 0),
        "{}",
        data.to_json()
    );
    let early = why(&kubeconfig, "early", &[]);
    assert!(!early.out.contains("Overdue"), "{}", early.out);
    why(&kubeconfig, "bare", &[]).assert(
        "no runtime",
        0,
        &[
            "TrainJob default/bare: Pending",
            "RuntimeMissing: there is no ClusterTrainingRuntime gone: create it",
        ],
    );
}

/// A pod of a TrainJob is part of it, and one that cannot start says why.
#[test]
fn why_pods_of_this_machine_wait() {
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let kubeconfig = plane.kubeconfig().display().to_string();
    create(
        &server,
        &tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "silent"},
        "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1}}}),
    );
    let pod = until(&server, PODS, "its pod says why", |list| {
        let pod = list.items_at(&["items"]).first()?;
        let waits =
            pod.items_at(&["status", "containerStatuses"]).first()?.at(&["state", "waiting"])?.clone();
        (waits.str_at(&["reason"]) == "CreateContainerConfigError").then(|| pod.clone())
    });
    why(&kubeconfig, "silent", &[]).assert(
        "no command",
        0,
        &["silent: Pending", "CreateContainerConfigError: ", "1 of 1 pods are scheduled but not running:"],
    );
    let name = format!("pod/{}", pod.str_at(&["metadata", "name"]));
    muster(&["why", &name, "-n", "default", "--kubeconfig", &kubeconfig]).assert(
        "of which TrainJob",
        0,
        &["it is part of TrainJob silent"],
    );
}
