//! TrainJobs in queues: of which runtime they are counted, what is below them, and what is left alone.

use muster_api::train::kinds::CLUSTER_TRAINING_RUNTIMES;
use muster_api::train::{TrainJobFacts, snapshot};

use super::*;

/// A runtime of so many nodes with a processor each.
fn runtime(nodes: i64) -> Tree {
    let pod = tree!({"spec": {"containers": [{"name": "node", "resources": {"requests": {"cpu": "1"}}}]}});
    let step = tree!({"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}});
    let job = tree!({"name": "node", "template": {"metadata": step, "spec": {"template": pod}}});
    object(
        "r",
        "",
        &tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "ClusterTrainingRuntime",
        "spec": {"mlPolicy": {"numNodes": nodes}, "template": {"spec": {"replicatedJobs": [job]}}}}),
    )
}

fn train_job(name: &str) -> Tree {
    object(
        name,
        "ns",
        &tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}},
        "spec": {"suspend": true, "runtimeRef": {"name": "r"}}}),
    )
}

/// That a TrainJob has something.
fn owned_by(name: &str, kind: &str, api_version: &str) -> Tree {
    tree!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name,
        "uid": format!("{name}-uid"), "controller": true}]}})
}

const TRAINER: &str = "trainer.kubeflow.org/v1alpha1";

impl Bench {
    fn with_runtime(nodes: i64) -> Bench {
        let mut bench = Bench::new();
        bench.put(&CLUSTER_TRAINING_RUNTIMES, runtime(nodes));
        bench
    }

    fn trained(&self, name: &str) -> Tree {
        self.caches.get(&TRAIN_JOBS, &"ns".into(), &name.into()).expect("it is there").tree.clone()
    }

    fn change_trained(&mut self, name: &str, patch: &Tree) {
        let changed = self.trained(name).merge(patch);
        self.put(&TRAIN_JOBS, changed);
    }

    /// Sets of all Workloads, by name and number of pods.
    fn asked_for(&self) -> Vec<(String, u32)> {
        let all = self.caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
        all.flat_map(|it| it.pod_sets).map(|set| (set.name.to_string(), set.count)).collect()
    }

    fn holds_quota(&self) -> bool {
        self.caches.all(&kinds::WORKLOADS).any(|it| WorkloadFacts::of(&it.tree).has_quota())
    }

    /// What was told about TrainJobs, in order.
    fn told_trained(&self) -> Vec<&str> {
        let about = |it: &&Event| it.regarding.kind == "TrainJob";
        self.notes.iter().filter(about).map(|it| it.reason.as_str()).collect()
    }
}

/// Two TrainJobs and room for one. How many writes that took.
fn one_after_the_other(crash_before: Option<usize>) -> usize {
    let mut bench = Bench::with_runtime(CPU);
    bench.put(&TRAIN_JOBS, train_job("a"));
    bench.put(&TRAIN_JOBS, train_job("b"));
    for turn in 0..2 {
        bench.settle(crash_before);
        let runs = bench.running();
        assert_eq!(runs.len(), 1, "crash before {crash_before:?}: turn {turn}");
        let entry = bench.trained(&runs[0]).items_at(&["spec", "runtimePatches"])[0].clone();
        let jobs = entry.items_at(&["trainingRuntimeSpec", "template", "spec", "replicatedJobs"]);
        assert_eq!(jobs[0].str_at(&["name"]), "node", "its entry is written");
        let done =
            tree!({"status": {"conditions": [{"type": "Complete", "status": "True", "message": "m"}]}});
        bench.change_trained(&runs[0], &done);
    }
    bench.settle(crash_before);
    let finished = bench.caches.all(&kinds::WORKLOADS).map(|it| WorkloadFacts::of(&it.tree));
    assert_eq!(finished.filter(WorkloadFacts::is_finished).count(), 2, "crash before {crash_before:?}");
    bench.writes
}

#[test]
fn they_run_one_after_the_other_whenever_it_crashes() {
    for n in 0..one_after_the_other(None) {
        one_after_the_other(Some(n));
    }
}

#[test]
fn the_runtime_that_one_kept_counts_before_the_one_there_is() {
    let mut bench = Bench::with_runtime(2);
    let job = train_job("a");
    bench.put(&TRAIN_JOBS, job.clone());
    bench.settle(None);
    assert_eq!(bench.asked_for(), [("node".to_owned(), 2)]);
    bench.put(&CLUSTER_TRAINING_RUNTIMES, runtime(1));
    assert!(bench.due.contains(&ObjectKey::of(&TRAIN_JOBS, &job)), "it may be built of that");
    let kept =
        |nodes: i64| snapshot(&TrainJobFacts::of(&job), &runtime(nodes)).with(&["metadata", "uid"], "c");
    let mut bench = Bench::with_runtime(2);
    bench.put(&CONFIG_MAPS, kept(3));
    bench.put(&TRAIN_JOBS, job.clone());
    bench.settle(None);
    assert_eq!(bench.asked_for(), [("node".to_owned(), 3)]);
    assert_eq!(bench.running(), [""; 0], "which is too much");
    bench.put(&CONFIG_MAPS, kept(1));
    bench.settle(None);
    assert_eq!(bench.asked_for(), [("node".to_owned(), 1)], "its Workload follows");
    assert_eq!(bench.running(), ["a"]);
}

#[test]
fn only_config_maps_that_keep_a_runtime_are_kept() {
    let job = train_job("a");
    let kept = snapshot(&TrainJobFacts::of(&job), &runtime(1));
    let it = controller();
    assert!(it.predicate(&CONFIG_MAPS, &kept));
    assert!(!it.predicate(&CONFIG_MAPS, &kept.with(&["metadata", "name"], "a-mpi-hostfile")));
    assert!(!it.predicate(&CONFIG_MAPS, &kept.without(&["metadata", "ownerReferences"])));
    assert!(it.predicate(&TRAIN_JOBS, &job));
}

#[test]
fn a_runtime_that_is_missing_is_told_and_waited_for() {
    let mut bench = Bench::new();
    bench.put(&TRAIN_JOBS, train_job("a"));
    bench.settle(None);
    assert_eq!(bench.told_trained(), ["ErrWorkloadCompose"]);
    assert_eq!(bench.notes.last().unwrap().message, "runtime 'r' not found");
    assert_eq!(bench.asked_for(), []);
    bench.put(&CLUSTER_TRAINING_RUNTIMES, runtime(1));
    bench.settle(None);
    assert_eq!(bench.running(), ["a"]);
}

#[test]
fn a_share_is_given_back_only_when_nothing_below_runs() {
    let mut bench = Bench::with_runtime(CPU);
    bench.put(&TRAIN_JOBS, train_job("a"));
    bench.settle(None);
    let set = object("s", "ns", &owned_by("a", "TrainJob", TRAINER));
    let job = object("j", "ns", &owned_by("s", "JobSet", "jobset.x-k8s.io/v1alpha2"));
    let suspend = |it: &Tree, on: bool| it.with(&["spec", "suspend"], on);
    bench.put(&JOBSETS, suspend(&set, false));
    bench.put(&JOBS, suspend(&job, false).with(&["status", "active"], 1));
    let workload = bench.caches.all(&kinds::WORKLOADS).next().expect("it is there").tree.clone();
    bench.put(&kinds::WORKLOADS, workload.with(&["spec", "active"], false));
    bench.settle(None);
    let entry = |bench: &Bench| {
        let all = bench.trained("a").at(&["spec", "runtimePatches"]).cloned().unwrap_or_default();
        !all.items()[0].items_at(&["trainingRuntimeSpec", "template", "spec", "replicatedJobs"]).is_empty()
    };
    let told = tree!({"status": {"jobsStatus": [{"name": "node", "active": 0}]}});
    bench.change_trained("a", &told);
    for (says, kind, next) in [
        ("its JobSet runs", &JOBSETS, suspend(&set, true)),
        ("its Job runs", &JOBS, suspend(&job, true).with(&["status", "active"], 1)),
        ("its Job has pods", &JOBS, suspend(&job, true)),
    ] {
        bench.settle(None);
        assert_eq!(bench.running(), [""; 0], "it is suspended");
        assert!(bench.holds_quota() && entry(&bench), "{says}");
        bench.put(kind, next);
    }
    bench.settle(None);
    assert!(!bench.holds_quota() && !entry(&bench), "nothing runs any more");
}

#[test]
fn what_others_run_is_left_alone() {
    let mut bench = Bench::with_runtime(1);
    let elsewhere = train_job("a").with(&["spec", "managedBy"], "kueue.x-k8s.io/multikueue");
    bench.put(&TRAIN_JOBS, elsewhere.with(&["spec", "suspend"], false));
    let before = bench.trained("a");
    bench.settle(None);
    assert_eq!((bench.trained("a"), bench.asked_for()), (before, Vec::new()));
    assert!(bench.told_trained().is_empty());
}

#[test]
fn what_is_below_one_is_not_queued_again_and_does_not_run_ahead() {
    let mut bench = Bench::with_runtime(CPU + 1);
    bench.put(&TRAIN_JOBS, train_job("a"));
    bench.settle(None);
    let labels = tree!({"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "lq"}}});
    let jobs = tree!({"spec": {"suspend": false, "replicatedJobs": [{"name": "node", "template": {}}]}});
    let set = object("s", "ns", &owned_by("a", "TrainJob", TRAINER).merge(&labels).merge(&jobs));
    bench.put(&JOBSETS, set.clone());
    bench.settle(None);
    assert_eq!(bench.asked_for(), [("node".to_owned(), 3)], "one Workload, of the TrainJob");
    let find =
        |bench: &Bench| bench.caches.get(&JOBSETS, &"ns".into(), &"s".into()).expect("it is there").clone();
    assert_eq!(find(&bench).tree.bool_at(&["spec", "suspend"]), Some(true), "it waits with its TrainJob");
    let ended = tree!({"status": {"conditions": [{"type": "Completed", "status": "True"}]}});
    bench.put(&JOBSETS, set.merge(&ended));
    bench.settle(None);
    assert_eq!(find(&bench).tree.bool_at(&["spec", "suspend"]), Some(false), "what has ended is left alone");
}

#[test]
fn a_manifest_of_one_is_tried() {
    let mut bench = Bench::with_runtime(1);
    bench.it.set_trigger(std::sync::Arc::new(|_| {}));
    let manifest = train_job("a").merge(&tree!({"apiVersion": TRAINER, "kind": "TrainJob"}));
    let ask = |bench: &mut Bench, manifest: &Tree| {
        asked(bench, VisibilityQuery::DryRun("ns".into(), manifest.clone()))
    };
    assert_eq!(explained(ask(&mut bench, &manifest)).state, ExplanationState::WouldStart);
    let wide = manifest.with(&["spec", "trainer", "numNodes"], CPU + 1);
    let why = explained(ask(&mut bench, &wide));
    assert_eq!((why.state, why.sets[0].count), (ExplanationState::WouldWait, 3), "{why:#?}");
    let lost = manifest.with(&["spec", "runtimeRef", "name"], "missing");
    let VisibilityResult::Invalid(words) = ask(&mut bench, &lost) else { panic!() };
    assert_eq!(words, "runtime 'missing' not found");
}

#[test]
fn a_start_that_is_refused_is_told() {
    let mut bench = Bench::with_runtime(1);
    bench.put(&TRAIN_JOBS, train_job("a"));
    let key = ObjectKey::of(&TRAIN_JOBS, &train_job("a"));
    let call = |key: &ObjectKey| {
        requests::merge(&key.kind, bench.caches.find(key).expect("it is there"), Subresource::Main, tree!({}))
    };
    let Step::Request(call) = call(&key) else { panic!() };
    let no = ApiError::Forbidden("no such job in the runtime".to_owned());
    let told = bench.it.on_request_error(&key, &call, &no, &bench.caches).expect("its user should know");
    assert_eq!(
        (told.reason.as_str(), told.message.as_str()),
        ("UpdateRefused", "no such job in the runtime")
    );
    let late = ApiError::Conflict("somebody was quicker".to_owned());
    assert!(
        bench.it.on_request_error(&key, &call, &late, &bench.caches).is_none(),
        "it is tried again at once"
    );
}
