//! The shipped runtimes pass our own admission, and so do TrainJobs of them.

use muster_trainer::build::{Asked, build};
use muster_trainer::kinds::shipped::{LOCAL, public, shipped};
use muster_tree::{Tree, tree};

use super::server::Server;

#[test]
fn every_shipped_runtime_is_kept_as_it_is() {
    let server = Server::of(&Tree::empty_map());
    let all = shipped("");
    assert_eq!(all.len(), 10);
    for runtime in &all {
        let name = runtime.str_at(&["metadata", "name"]);
        let answer = server.judge("ClusterTrainingRuntime", runtime, None);
        assert_eq!(answer.lines, ["201"], "{name}");
        assert!(super::holds(&answer.stored, runtime), "{name}: a field is unknown");
        let framework = runtime.at(&["metadata", "labels", "trainer.kubeflow.org/framework"]);
        assert!(framework.is_some(), "{name}: clients hide it");
        let job = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": {"name": "train", "namespace": "ns"}, "spec": {"runtimeRef": {"name": name}}});
        assert_eq!(server.judge("TrainJob", &job, None).lines, ["201"], "{name}");
        let built = build(&Asked::new(&job, &answer.stored)).unwrap();
        assert_eq!(built.jobset().map(|it| it.str_at(&["kind"])), Some("JobSet"), "{name}");
    }
}

#[test]
fn images_come_from_a_registry_but_for_what_has_none() {
    let image = |runtime: &Tree| {
        let job = &runtime.items_at(&["spec", "template", "spec", "replicatedJobs"])[0];
        let pods = job.at(&["template", "spec", "template", "spec"]).unwrap();
        pods.items_at(&["containers"])[0].str_at(&["image"]).to_owned()
    };
    let all = shipped("images.example");
    assert!(all.iter().all(|it| {
        let local = it.str_at(&["metadata", "name"]) == LOCAL;
        image(it).starts_with("images.example/") != local
    }));
    assert_eq!(image(&shipped("")[3]), "kubeflow/trainer/xgboost-runtime");
    let told = public("kubeflow-system", "2.3.0");
    assert_eq!(told.str_at(&["data", "kubeflow_trainer_version"]), "2.3.0");
}
