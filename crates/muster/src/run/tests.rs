//! Snapshots built from synthetic watch events: progress rows, results and summaries.

use std::collections::BTreeMap;
use std::time::Duration;

use muster_api::client::{ApiObject, WatchBatch, WatchChange};
use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::format;
use super::snapshot::{RunSnapshot, WatchedKind, Work, WorkKind, WorkResult};
use super::summary::{RunResult, Summary};

const BEGAN: Time = Time(0);

fn job_work() -> Work {
    Work { kind: WorkKind::Job, namespace: "n".into(), name: "train".into(), uid: "job".into() }
}

fn pod_work() -> Work {
    Work { kind: WorkKind::Pod, namespace: "n".into(), name: "one".into(), uid: "one".into() }
}

fn object(tree: Tree) -> ApiObject {
    ApiObject { tree, revision: 1 }
}

fn job(uid: &str, status: Tree) -> Tree {
    tree!({"metadata": {"name": "train", "namespace": "n", "uid": uid}, "status": status})
}

fn ended_job(kind: &str, reason: &str) -> Tree {
    job(
        "job",
        tree!({"succeeded": 1, "failed": 1, "conditions": [
        {"type": kind, "status": "True", "reason": reason, "message": "words"}]}),
    )
}

fn pod(uid: &str, owner: &str, phase: &str, code: i64) -> Tree {
    let ended = if matches!(phase, "Succeeded" | "Failed") {
        tree!({"terminated": {"exitCode": code, "reason": "Error"}})
    } else {
        tree!({"running": {}})
    };
    tree!({"metadata": {"name": uid, "namespace": "n", "uid": uid,
            "ownerReferences": [{"kind": "Job", "name": "train", "uid": owner, "controller": true}]},
        "spec": {"nodeName": "local", "containers": [{"name": "c"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "c", "restartCount": 1, "state": ended}]}})
}

fn after(secs: u64) -> Time {
    BEGAN + Duration::from_secs(secs)
}

fn put(picture: &mut RunSnapshot, watch: WatchedKind, tree: Tree) {
    picture.apply_batch(watch, "n", WatchBatch::Changes(vec![WatchChange::Applied(object(tree))]), after(1));
}

fn gone(picture: &mut RunSnapshot, watch: WatchedKind, tree: Tree) {
    picture.apply_batch(watch, "n", WatchBatch::Changes(vec![WatchChange::Deleted(object(tree))]), after(2));
}

#[test]
fn only_the_works_own_pods_count() {
    let mut picture = RunSnapshot::new(vec![job_work()], BEGAN);
    put(&mut picture, WatchedKind::Jobs, job("job", tree!({})));
    put(&mut picture, WatchedKind::Pods, pod("a", "job", "Running", 0));
    put(&mut picture, WatchedKind::Pods, pod("b", "job", "Succeeded", 0));
    put(&mut picture, WatchedKind::Pods, pod("stranger", "other", "Failed", 1));
    let rows = picture.rows();
    assert_eq!(format::counts(&rows[0]), "1 running, 1 finished");
    assert_eq!(picture.result(), None);
    assert_eq!(picture.live_pods().count(), 1);
}

/// A JobSet with a terminal condition, and its pods.
#[test]
fn pods_of_a_jobset_are_those_of_its_jobs() {
    let work =
        Work { kind: WorkKind::JobSet, namespace: "n".into(), name: "train".into(), uid: "set".into() };
    let mut picture = RunSnapshot::new(vec![work.clone()], BEGAN);
    let of_set = |uid: &str, set: &str| {
        pod(uid, "some-job", "Running", 0).with(&["metadata", "labels", "jobset.sigs.k8s.io/jobset-uid"], set)
    };
    put(&mut picture, WatchedKind::Pods, of_set("a", "set"));
    put(&mut picture, WatchedKind::Pods, of_set("b", "other"));
    assert_eq!(
        (picture.rows()[0].title.as_str(), format::counts(&picture.rows()[0])),
        ("jobset/train", "1 running".to_owned())
    );
    assert!(picture.result().is_none() && !picture.is_settled());
    let ended = |kind: &str| {
        job(
            "set",
            tree!({"conditions": [{"type": kind, "status": "True", "reason": "R", "message": "words"}]}),
        )
    };
    put(&mut picture, WatchedKind::JobSets, ended("Suspended"));
    assert_eq!(picture.result(), None);
    put(&mut picture, WatchedKind::JobSets, ended("Completed"));
    assert_eq!(picture.result(), Some(WorkResult::Completed));
    put(&mut picture, WatchedKind::JobSets, ended("Failed"));
    assert!(matches!(picture.result(), Some(WorkResult::Failed(words)) if words.contains("words")));
}

fn train_work() -> Work {
    Work { kind: WorkKind::TrainJob, namespace: "n".into(), name: "train".into(), uid: "tj".into() }
}

/// The JobSet of the TrainJob.
fn inner_set(uid: &str, owner: &str) -> Tree {
    tree!({"metadata": {"name": "train", "namespace": "n", "uid": uid,
        "ownerReferences": [{"kind": "TrainJob", "name": "train", "uid": owner, "controller": true}]}})
}

/// A pod of the JobSet with that name.
fn set_pod(uid: &str, set: &str, phase: &str) -> Tree {
    pod(uid, "some-job", phase, 1)
        .with(&["metadata", "labels", "jobset.sigs.k8s.io/jobset-uid"], set)
        .with(&["metadata", "labels", "jobset.sigs.k8s.io/jobset-name"], "train")
}

#[test]
fn pods_of_a_trainjob_are_those_of_the_jobset_made_for_it_whichever_is_told_first() {
    let steps = [
        (WatchedKind::Pods, set_pod("a", "set", "Running")),
        (WatchedKind::Pods, set_pod("b", "other", "Running")),
        (WatchedKind::JobSets, inner_set("set", "tj")),
        (WatchedKind::JobSets, inner_set("other", "somebody")),
    ];
    for order in [[0, 1, 2, 3], [2, 3, 0, 1], [1, 3, 0, 2]] {
        let mut picture = RunSnapshot::new(vec![train_work()], BEGAN);
        for at in order {
            let (watch, tree) = steps[at].clone();
            put(&mut picture, watch, tree);
        }
        assert_eq!(format::counts(&picture.rows()[0]), "1 running", "{order:?}");
        assert_eq!(picture.pods().count(), 1, "{order:?}: of strangers nothing is kept");
        assert!(!picture.is_settled());
    }
    let mut picture = RunSnapshot::new(vec![train_work()], BEGAN);
    put(&mut picture, WatchedKind::Pods, set_pod("a", "set", "Running"));
    gone(&mut picture, WatchedKind::Pods, set_pod("a", "set", "Running"));
    put(&mut picture, WatchedKind::JobSets, inner_set("set", "tj"));
    assert_eq!(picture.pods().count(), 0, "gone before anybody knew whose it was");
}

#[test]
fn a_trainjob_tells_how_far_it_is_and_how_it_ends() {
    let with = |status: Tree| tree!({"metadata": {"name": "train", "namespace": "n", "uid": "tj"}, "status": status});
    let mut picture = RunSnapshot::new(vec![train_work()], BEGAN);
    put(&mut picture, WatchedKind::JobSets, inner_set("set", "tj"));
    put(&mut picture, WatchedKind::Pods, set_pod("a", "set", "Running"));
    put(&mut picture, WatchedKind::TrainJobs, with(tree!({"trainerStatus": {"progressPercentage": 45}})));
    assert_eq!(format::counts(&picture.rows()[0]), "1 running, 45 % done");
    let ended = |kind: &str, reason: &str| {
        with(tree!({"conditions": [{"type": "Suspended", "status": "False", "reason": "Resumed"},
            {"type": kind, "status": "True", "reason": reason, "message": "words"}]}))
    };
    for (kind, reason, want) in [
        ("Complete", "AllJobsCompleted", WorkResult::Completed),
        ("Failed", "DeadlineExceeded", WorkResult::Failed("DeadlineExceeded: words".to_owned())),
    ] {
        let mut picture = RunSnapshot::new(vec![train_work()], BEGAN);
        put(&mut picture, WatchedKind::TrainJobs, ended("Suspended", "Suspended"));
        assert_eq!(picture.result(), None);
        gone(&mut picture, WatchedKind::TrainJobs, ended(kind, reason));
        assert_eq!(picture.result(), Some(want), "its time to live may be nothing");
    }
}

#[test]
fn a_trainjob_of_which_nothing_can_be_made_waits_for_others() {
    let event = tree!({"involvedObject": {"uid": "tj"}, "type": "Warning",
        "reason": "TrainJobResourcesCreationFailed", "message": "no"});
    let mut picture = RunSnapshot::new(vec![train_work()], BEGAN);
    assert!(!picture.is_blocked());
    put(&mut picture, WatchedKind::Events, event);
    assert_eq!(format::reasons(&picture.rows()[0]), ["train: TrainJobResourcesCreationFailed: no"]);
    assert!(picture.is_blocked());
    put(&mut picture, WatchedKind::JobSets, inner_set("set", "tj"));
    assert!(!picture.is_blocked(), "the next try went well");
    let refused = tree!({"involvedObject": {"uid": "set"}, "type": "Warning", "reason": "FailedCreatePVC",
        "message": "quota"});
    put(&mut picture, WatchedKind::Events, refused);
    let told = format::reasons(&picture.rows()[0]);
    assert!(told.contains(&"train: FailedCreatePVC: quota".to_owned()), "{told:?}");
}

#[test]
fn a_warning_tells_why_a_pod_does_not_start_whichever_comes_first() {
    let event =
        tree!({"involvedObject": {"uid": "a"}, "type": "Warning", "reason": "FailedMount", "message": "m"});
    let starting = pod("a", "job", "Pending", 0).with(
        &["status", "containerStatuses"],
        tree!([{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]),
    );
    for order in [[0, 1], [1, 0]] {
        let mut picture = RunSnapshot::new(vec![job_work()], BEGAN);
        for which in order {
            match which {
                0 => put(&mut picture, WatchedKind::Events, event.clone()),
                _ => put(&mut picture, WatchedKind::Pods, starting.clone()),
            }
        }
        assert_eq!(format::reasons(&picture.rows()[0]), ["a: FailedMount: m"]);
    }
}

#[test]
fn verdicts() {
    let failed = |why: &str| Some(WorkResult::Failed(why.to_owned()));
    let deleted = || failed("it was deleted before it finished");
    let ended = |phase: &str| pod("one", "", phase, 0);
    type Step = fn(&mut RunSnapshot, WatchedKind, Tree);
    let (put, gone): (Step, Step) = (put, gone);
    for (says, work, steps, want) in [
        ("nothing is known", job_work(), vec![], None),
        ("it goes on", job_work(), vec![(put, WatchedKind::Jobs, job("job", tree!({})))], None),
        (
            "it completed",
            job_work(),
            vec![(put, WatchedKind::Jobs, ended_job("Complete", ""))],
            Some(WorkResult::Completed),
        ),
        (
            "it failed",
            job_work(),
            vec![(put, WatchedKind::Jobs, ended_job("Failed", "BackoffLimitExceeded"))],
            failed("BackoffLimitExceeded: words"),
        ),
        (
            "it will fail, but its pods have not ended",
            job_work(),
            vec![(put, WatchedKind::Jobs, ended_job("FailureTarget", "x"))],
            None,
        ),
        ("it was deleted", job_work(), vec![(gone, WatchedKind::Jobs, job("job", tree!({})))], deleted()),
        (
            "its time to live was over before we saw the end",
            job_work(),
            vec![
                (put, WatchedKind::Jobs, job("job", tree!({}))),
                (gone, WatchedKind::Jobs, ended_job("Complete", "")),
            ],
            Some(WorkResult::Completed),
        ),
        (
            "a namesake says nothing",
            job_work(),
            vec![(put, WatchedKind::Jobs, ended_job("Complete", "").with(&["metadata", "uid"], "other"))],
            None,
        ),
        ("a pod runs", pod_work(), vec![(put, WatchedKind::Pods, ended("Running"))], None),
        (
            "a pod ended",
            pod_work(),
            vec![(put, WatchedKind::Pods, ended("Succeeded"))],
            Some(WorkResult::Completed),
        ),
        ("a pod failed", pod_work(), vec![(put, WatchedKind::Pods, ended("Failed"))], failed("")),
        ("a pod was deleted", pod_work(), vec![(gone, WatchedKind::Pods, ended("Running"))], deleted()),
    ] {
        let mut picture = RunSnapshot::new(vec![work], BEGAN);
        for (step, watch, tree) in steps {
            step(&mut picture, watch, tree);
        }
        assert_eq!(picture.result(), want, "{says}");
    }
}

#[test]
fn one_failure_among_several_is_a_failure_once_all_have_ended() {
    let mut picture = RunSnapshot::new(vec![job_work(), pod_work()], BEGAN);
    put(&mut picture, WatchedKind::Jobs, ended_job("Failed", "x"));
    assert_eq!(picture.result(), None, "the pod still runs");
    put(&mut picture, WatchedKind::Pods, pod("one", "", "Succeeded", 0));
    assert!(matches!(picture.result(), Some(WorkResult::Failed(_))));
}

#[test]
fn a_new_listing_shows_what_went_away_meanwhile() {
    let mut picture = RunSnapshot::new(vec![job_work(), pod_work()], BEGAN);
    put(&mut picture, WatchedKind::Pods, pod("one", "", "Running", 0));
    put(&mut picture, WatchedKind::Pods, pod("a", "job", "Succeeded", 0));
    picture.apply_batch(WatchedKind::Pods, "other", WatchBatch::Restarted(Vec::new()), after(3));
    assert_eq!(picture.live_pods().count(), 1, "another namespace");
    picture.apply_batch(WatchedKind::Pods, "n", WatchBatch::Restarted(Vec::new()), after(3));
    assert_eq!(picture.live_pods().count(), 0);
    assert!(matches!(picture.result_of(&pod_work()), Some(WorkResult::Failed(_))));
    assert_eq!(format::counts(&picture.rows()[0]), "1 finished", "what ended stays");
}

fn failed_picture() -> RunSnapshot {
    let mut picture = RunSnapshot::new(vec![job_work(), pod_work()], BEGAN);
    put(&mut picture, WatchedKind::Pods, pod("train-0-aaaaa", "job", "Succeeded", 0));
    put(&mut picture, WatchedKind::Pods, pod("train-1-bbbbb", "job", "Failed", 3));
    put(&mut picture, WatchedKind::Pods, pod("one", "", "Succeeded", 0));
    put(&mut picture, WatchedKind::Jobs, ended_job("Failed", "BackoffLimitExceeded"));
    picture
}

#[test]
fn the_summary_tells_what_failed_and_its_last_lines() {
    let lines = |uid: &str| vec![format!("last words of {uid}")];
    let summary = Summary::of(&failed_picture(), RunResult::Failed, after(90), &BTreeMap::new(), lines);
    insta::assert_snapshot!(summary.text());
    insta::assert_snapshot!(summary.tree().to_yaml());
}

#[test]
fn what_was_ended_did_not_fail_by_itself() {
    let held_up = [("job".into(), vec!["train-2: Unschedulable: no room".to_owned()])].into();
    let summary = Summary::of(&failed_picture(), RunResult::Interrupted, after(90), &held_up, |_| Vec::new());
    let text = summary.text();
    assert!(
        text.contains("job/train interrupted before all its pods started\n  train-2: Unschedulable: no room"),
        "{text}"
    );
    assert!(text.contains("job/train  interrupted"), "{text}");
    assert!(text.contains("pod/one    completed"), "{text}");
}

#[test]
fn codes_are_those_of_the_contract() {
    let codes = [
        RunResult::Completed,
        RunResult::Failed,
        RunResult::TimedOut,
        RunResult::Interrupted,
        RunResult::Terminated,
    ];
    assert_eq!(codes.map(RunResult::code), [0, 1, 124, 130, 143]);
}

/// A rank that failed at one second and was deleted at another.
fn rank(at: &str, code: i64, ended: u64, stopped: Option<u64>) -> Tree {
    let time = |secs: u64| after(secs).to_seconds_text();
    let name = format!("train-{at}-aaaaa");
    let pod = pod(&name, "job", "Failed", code)
        .with(&["metadata", "annotations", "batch.kubernetes.io/job-completion-index"], at);
    let status = tree!({"name": "c", "state": {"terminated": {"exitCode": code, "reason": "Error",
        "finishedAt": time(ended)}}});
    let pod = pod.with(&["status", "containerStatuses"], tree!([status]));
    match stopped {
        Some(asked) => pod
            .with(&["metadata", "deletionTimestamp"], time(asked + 30))
            .with(&["metadata", "deletionGracePeriodSeconds"], 30_i64),
        None => pod,
    }
}

#[test]
fn the_first_failure_is_told_apart_from_what_was_stopped_because_of_it() {
    let mut picture = RunSnapshot::new(vec![job_work()], BEGAN);
    put(&mut picture, WatchedKind::Jobs, ended_job("Failed", "BackoffLimitExceeded"));
    for pod in [
        rank("2", 1, 7, None),
        rank("1", 3, 5, None),
        // Failed in the same second, but observed later.
        rank("3", 4, 5, None),
        rank("0", 143, 6, Some(5)),
    ] {
        put(&mut picture, WatchedKind::Pods, pod);
    }
    let summary = Summary::of(&picture, RunResult::Failed, after(90), &BTreeMap::new(), |_| Vec::new());
    let text = summary.text();
    let lines: Vec<&str> = text.lines().skip(4).collect();
    assert_eq!(
        lines,
        [
            "  rank 1 (train-1-aaaaa) failed first: container c exited with code 3 (Error)",
            "  rank 3 (train-3-aaaaa) failed after it: container c exited with code 4 (Error)",
            "  rank 2 (train-2-aaaaa) failed after it: container c exited with code 1 (Error)",
            "  stopped because of it: rank 0 (train-0-aaaaa)",
        ],
        "{text}"
    );
    let work = summary.tree().items_at(&["work"])[0].clone();
    assert_eq!(work.items_at(&["failedPods"])[0].str_at(&["rank"]), "1");
    assert_eq!(work.items_at(&["stopped"])[0].as_str(), Some("train-0-aaaaa"));
}

#[test]
fn what_can_never_run_is_not_waited_for() {
    let mut picture = RunSnapshot::new(vec![job_work(), pod_work()], BEGAN);
    put(&mut picture, WatchedKind::Jobs, job("job", tree!({})));
    let waits = pod("a", "job", "Pending", 0).with(&["spec", "nodeName"], "");
    put(&mut picture, WatchedKind::Pods, waits);
    put(&mut picture, WatchedKind::Pods, pod("one", "", "Running", 0));
    let waiting = |picture: &RunSnapshot| picture.waiting().map(Work::title).collect::<Vec<_>>();
    assert_eq!(waiting(&picture), ["job/train"]);
    picture.set_impossible(&"job".into(), Some("too large".to_owned()));
    assert!(!picture.is_impossible(), "other work goes on");
    put(&mut picture, WatchedKind::Pods, pod("one", "", "Succeeded", 0));
    assert!(picture.is_impossible());
    assert_eq!(format::reasons(&picture.rows()[0]), ["train: too large"]);
    picture.set_impossible(&"job".into(), None);
    assert!(!picture.is_impossible());
}
