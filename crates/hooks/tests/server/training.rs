//! TrainJobs and runtimes through the whole server: what is filled in, refusals with the words of webhooks, and warnings.

use muster_trainer::kinds::bundled_runtimes::bundled_runtimes;
use muster_tree::{Tree, tree};

use crate::world::{World, Written};

const JOBS: &str = "trainer.kubeflow.org/v1alpha1/default/trainjobs";
const RUNTIMES: &str = "trainer.kubeflow.org/v1alpha1/-/clustertrainingruntimes";

fn world() -> World {
    let world = World::training();
    for runtime in bundled_runtimes("") {
        world.create(RUNTIMES, &runtime).unwrap_or_else(|status| panic!("{}", status.message));
    }
    world
}

fn job(spec: &Tree) -> Tree {
    let usual = tree!({"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2}});
    tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"},
        "spec": usual.merge(spec)})
}

fn done(written: Written) -> (Tree, Vec<String>) {
    written.unwrap_or_else(|status| panic!("{}", status.message))
}

#[test]
fn what_is_missing_is_filled_in() {
    let world = world();
    let patch = tree!({"manager": "example.com/x", "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let (made, warnings) = done(world.create(JOBS, &job(&tree!({"runtimePatches": [patch]}))));
    assert!(warnings.is_empty());
    assert_eq!(made.str_at(&["spec", "runtimeRef", "kind"]), "ClusterTrainingRuntime");
    assert_eq!(made.items_at(&["spec", "runtimePatches"])[0].str_at(&["time"]), "2026-01-02T03:04:05Z");
}

/// Shows: 2899-05.
#[test]
fn a_short_time_to_live_is_warned_about_and_no_more() {
    for (secs, warns) in [(0, true), (59, true), (60, false)] {
        let (made, warnings) = done(world().create(JOBS, &job(&tree!({"ttlSecondsAfterFinished": secs}))));
        assert_eq!(made.int_at(&["spec", "ttlSecondsAfterFinished"]), Some(secs));
        assert_eq!(!warnings.is_empty(), warns, "{secs}: {warnings:?}");
    }
}

#[test]
fn a_refusal_has_the_words_of_a_webhook_and_the_warnings_beside_it() {
    let asked = job(&tree!({"runtimeRef": {"name": "none"}, "ttlSecondsAfterFinished": 5}));
    let status = world().create(JOBS, &asked).expect_err("there is no such runtime");
    assert_eq!((status.code, status.reason), (403, "Forbidden"));
    let begin =
        "admission webhook \"validator.trainjob.trainer.kubeflow.org\" denied the request: spec.RuntimeRef: ";
    assert!(status.message.starts_with(begin), "{}", status.message);
    assert!(status.message.contains("must be created before the TrainJob is created"), "{}", status.message);
    assert_eq!(status.warnings.len(), 1, "{:?}", status.warnings);
}

#[test]
fn what_the_schema_refuses_is_refused_by_it() {
    let world = world();
    let status = world.create(JOBS, &job(&tree!({"activeDeadlineSeconds": 0}))).expect_err("too short");
    assert_eq!((status.code, status.reason), (422, "Invalid"));
    done(world.create(JOBS, &job(&tree!({}))));
    let path = format!("{JOBS}/a");
    let status =
        world.merge(&path, &tree!({"spec": {"ttlSecondsAfterFinished": 9}})).expect_err("it came later");
    assert!(status.message.contains("field is immutable"), "{}", status.message);
}

#[test]
fn a_status_is_written_without_being_asked_about() {
    let world = world();
    done(world.create(JOBS, &job(&tree!({}))));
    let end = tree!({"type": "Complete", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let path = format!("{JOBS}/a/status");
    let (made, _) = done(world.merge(&path, &tree!({"status": {"conditions": [end]}})));
    assert_eq!(made.items_at(&["status", "conditions"]).len(), 1);
}

#[test]
fn a_runtime_is_judged_too() {
    let two = bundled_runtimes("").remove(0).with(&["metadata", "name"], "two");
    let path = ["spec", "template", "spec", "replicatedJobs"];
    let job = two.items_at(&path)[0].with(&["replicas"], 2);
    let status = world().create(RUNTIMES, &two.with(&path, Tree::list([job]))).expect_err("two of them");
    let begin =
        "admission webhook \"validator.clustertrainingruntime.trainer.kubeflow.org\" denied the request: ";
    assert!(status.message.starts_with(begin), "{}", status.message);
}
