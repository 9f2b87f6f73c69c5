//! Children of TrainJobs, mapped events, and the predicate.

use muster_api::gang_objects::GangSupport;
use muster_api::kinds::{CONFIG_MAPS, JOBSETS, SECRETS};
use muster_api::meta;
use muster_api::train::kinds::{CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS};
use muster_tree::{Tree, tree};

use super::super::TrainJobControllerConfig;
use super::fixture::Fixture;
use crate::controller::Controller;

fn named(name: &str, more: &Tree) -> Tree {
    tree!({"metadata": {"name": name, "namespace": "ns"}}).merge(more)
}

#[test]
fn only_what_has_to_do_with_training_is_kept() {
    let bench = Fixture::new(TrainJobControllerConfig::default());
    let it = bench.training();
    let owned = |kind: &str, group: &str| {
        let owner = tree!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind, "name": "a", "uid": "u", "controller": true});
        tree!({"metadata": {"name": "x", "namespace": "ns", "ownerReferences": [owner]}})
    };
    for (says, object, want) in [
        ("nobody's", named("x", &tree!({})), false),
        ("a TrainJob's", owned("TrainJob", "trainer.kubeflow.org"), true),
        ("a namesake kind's", owned("TrainJob", "other.io"), false),
        ("another's", owned("Deployment", "apps"), false),
        ("in the way of a TrainJob", named("a-runtime-snapshot", &tree!({})), true),
        ("in the way of its keys", named("a-mpi-ssh-auth", &tree!({})), true),
    ] {
        assert_eq!(it.predicate(&CONFIG_MAPS, &object), want, "{says}");
        assert_eq!(it.predicate(&SECRETS, &object), want, "{says}");
        assert!(it.predicate(&TRAIN_JOBS, &object), "TrainJobs are all kept");
    }
}

#[test]
fn a_snapshot_keeps_the_runtime_until_it_is_lost() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"suspend": true}));
    bench.settle();
    let nodes = |bench: &Fixture| {
        let jobs = bench.find(&JOBSETS, "a").unwrap().at(&["spec", "replicatedJobs"]).unwrap().clone();
        jobs.items()[0].str_at(&["template", "metadata", "labels", "color"]).to_owned()
    };
    let runtime = bench.find(&CLUSTER_TRAINING_RUNTIMES, "torch-distributed").unwrap().clone();
    let path = ["spec", "template", "spec", "replicatedJobs"];
    let job = runtime.items_at(&path)[0].with(&["template", "metadata", "labels", "color"], "red");
    bench.put(&CLUSTER_TRAINING_RUNTIMES, &runtime.with(&path, Tree::list([job])));
    bench.put(&TRAIN_JOBS, &named("a", &tree!({"spec": {"suspend": false}})));
    bench.settle();
    assert_eq!(nodes(&bench), "", "what it found first counts");
    bench.put(&TRAIN_JOBS, &named("a", &tree!({"spec": {"suspend": true}})));
    bench.settle();
    bench.remove(&CONFIG_MAPS, "a-runtime-snapshot");
    bench.settle();
    assert_eq!(nodes(&bench), "red", "made anew of what there is now");
    assert!(bench.find(&CONFIG_MAPS, "a-runtime-snapshot").is_some());
}

#[test]
fn a_snapshot_of_another_is_told_and_left_alone() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.put(&CONFIG_MAPS, &named("a-runtime-snapshot", &tree!({"data": {"runtime": "mine"}})));
    bench.submit("a", &tree!({}));
    bench.settle();
    assert_eq!(bench.counted(), [""; 0]);
    assert!(bench.told[0].2.contains("owned by another object"), "{:?}", bench.told);
}

#[test]
fn runtimes_are_let_go() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    let finalizers = tree!(["trainer.kubeflow.org/resource-in-use", "other.io/x"]);
    let held = tree!({"metadata": {"name": "torch-distributed", "finalizers": finalizers}});
    bench.put(&CLUSTER_TRAINING_RUNTIMES, &held);
    bench.settle();
    assert_eq!(bench.counted(), ["patch clustertrainingruntimes 1"]);
    let runtime = bench.find(&CLUSTER_TRAINING_RUNTIMES, "torch-distributed").unwrap();
    assert_eq!(runtime.items_at(&["metadata", "finalizers"]), [Tree::from("other.io/x")]);
}

#[test]
fn keys_are_made_once() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.submit("a", &tree!({"runtimeRef": {"name": "deepspeed-distributed"}}));
    bench.settle();
    let order: Vec<String> = bench.calls.iter().map(|(_, call)| call.target.name.to_string()).collect();
    assert_eq!(order, ["a-runtime-snapshot", "a-mpi-ssh-auth", "a-mpi-hostfile", "a"]);
    let secret = bench.find(&SECRETS, "a-mpi-ssh-auth").unwrap().clone();
    assert!(!secret.str_at(&["data", "ssh-privatekey"]).is_empty());
    assert_eq!(secret.bool_at(&["immutable"]), Some(true));
    bench.counted();
    bench.put(&TRAIN_JOBS, &named("a", &tree!({"metadata": {"labels": {"x": "y"}}})));
    bench.settle();
    assert_eq!(bench.counted(), [""; 0], "what is there is there");
    bench.crash();
    bench.settle();
    assert_eq!(bench.counted(), ["apply configmaps 1"], "only what may have changed is said again");
    assert_eq!(bench.find(&SECRETS, "a-mpi-ssh-auth"), Some(&secret));
}

#[test]
fn a_gang_comes_after_its_workload_and_before_its_pods() {
    let gangs = GangSupport::default();
    let mut bench =
        Fixture::new(TrainJobControllerConfig { gangs: Some(gangs), ..TrainJobControllerConfig::default() });
    let runtime = bench.find(&CLUSTER_TRAINING_RUNTIMES, "torch-distributed").unwrap().clone();
    let runtime = runtime.with(&["spec", "podGroupPolicy"], tree!({"workload": {}}));
    bench.put(&CLUSTER_TRAINING_RUNTIMES, &runtime);
    bench.submit("a", &tree!({}));
    bench.settle();
    let order: Vec<&str> = bench.calls.iter().map(|(_, call)| call.target.kind.plural.as_str()).collect();
    assert_eq!(order, ["configmaps", "workloads", "podgroups", "jobsets"]);
    let group = bench.find(gangs.api.groups().unwrap(), "a").unwrap().clone();
    assert!(meta::controller_of(&group).is_some_and(|owner| owner.kind == "TrainJob"));
    bench.counted();
    bench.put(gangs.api.groups().unwrap(), &group.with(&["status"], tree!({"scheduledPods": 2})));
    bench.settle();
    assert_eq!(bench.counted(), [""; 0], "how it fares concerns nobody here");
    bench.remove(gangs.api.groups().unwrap(), "a");
    bench.settle();
    assert_eq!(bench.counted(), ["apply podgroups 1"]);
}

#[test]
fn a_jobset_of_another_is_left_alone() {
    let mut bench = Fixture::new(TrainJobControllerConfig::default());
    bench.put(&JOBSETS, &named("a", &tree!({"spec": {"replicatedJobs": []}})));
    bench.submit("a", &tree!({"activeDeadlineSeconds": 60}));
    bench.run(std::time::Duration::from_secs(120));
    assert_eq!(bench.counted(), ["status trainjobs 1"], "it fails in time, and the stranger stays");
    assert!(bench.told[0].2.contains("not this TrainJob's"), "{:?}", bench.told);
}
