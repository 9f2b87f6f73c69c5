//! The bundled runtimes pass our own admission, and so do TrainJobs that reference them.

use muster_trainer::build::{BuildRequest, build};
use muster_trainer::kinds::bundled_runtimes::{
    LOCAL_RUNTIME, bundled_runtimes, images, split_registry, version_config_map,
};
use muster_tree::{Tree, tree};

use super::server::Server;

#[test]
fn every_shipped_runtime_is_kept_as_it_is() {
    let server = Server::of(&Tree::empty_map());
    let all = bundled_runtimes("");
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
        let built = build(&BuildRequest::new(&job, &answer.stored)).unwrap();
        assert_eq!(built.jobset().map(|it| it.str_at(&["kind"])), Some("JobSet"), "{name}");
    }
}

/// A rank that restarts alone blocks the others for its whole backoff.
#[test]
fn a_rank_that_fails_ends_the_whole() {
    for runtime in bundled_runtimes("") {
        let name = runtime.str_at(&["metadata", "name"]);
        for job in runtime.items_at(&["spec", "template", "spec", "replicatedJobs"]) {
            let limit = job.int_at(&["template", "spec", "backoffLimit"]);
            let restarts = job.str_at(&["template", "spec", "template", "spec", "restartPolicy"]);
            let (want, step) = match job.str_at(&["name"]) {
                // A download may be retried: only the steps after it wait.
                step @ ("dataset-initializer" | "model-initializer") => ((None, ""), step),
                step => ((Some(0), "Never"), step),
            };
            assert_eq!((limit, restarts), want, "{name}/{step}");
        }
        let policy = runtime.at(&["spec", "template", "spec", "failurePolicy"]);
        assert_eq!(policy, None, "{name}: a JobSet without one fails with its first Job");
    }
}

#[test]
fn images_are_those_that_trainer_publishes() {
    let of_trainer = [
        "dataset-initializer",
        "data-cache",
        "deepspeed-runtime",
        "mlx-runtime",
        "model-initializer",
        "torchtune-trainer",
        "xgboost-runtime",
    ];
    let mut want: Vec<String> =
        of_trainer.iter().map(|it| format!("ghcr.io/kubeflow/trainer/{it}:v2.3.0")).collect();
    want.extend(
        ["nvcr.io/nvidia/jax:25.10-py3", "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"].map(str::to_owned),
    );
    want.sort();
    assert_eq!(images().into_iter().collect::<Vec<_>>(), want);
}

#[test]
fn torchtune_meets_on_its_own_node() {
    let all = bundled_runtimes("");
    let tune = all.iter().filter(|it| it.str_at(&["metadata", "name"]).starts_with("torchtune-"));
    let commands: Vec<String> = tune
        .map(|runtime| {
            let jobs = runtime.items_at(&["spec", "template", "spec", "replicatedJobs"]);
            let node = jobs.last().and_then(|it| it.at(&["template", "spec", "template", "spec"])).unwrap();
            Tree::list(node.items_at(&["containers"])[0].items_at(&["command"])[..4].to_vec()).to_json()
        })
        .collect();
    assert_eq!(
        commands,
        [r#"["tune","run","--rdzv_endpoint=localhost:29500","full_finetune_distributed"]"#; 3]
    );
}

#[test]
fn a_registry_is_told_from_a_folder() {
    for (image, registry, rest) in [
        ("ghcr.io/a/b:1", Some("ghcr.io"), "a/b:1"),
        ("localhost/b", Some("localhost"), "b"),
        ("host:5000/b", Some("host:5000"), "b"),
        ("pytorch/pytorch:2.13.0", None, "pytorch/pytorch:2.13.0"),
        ("busybox:1.2", None, "busybox:1.2"),
    ] {
        assert_eq!(split_registry(image), (registry, rest), "{image}");
    }
}

#[test]
fn a_mirror_takes_the_place_of_registries() {
    let text = Tree::list(bundled_runtimes("mirror.example")).to_json();
    for image in images() {
        let rest = split_registry(&image).1;
        assert!(text.contains(&format!("\"mirror.example/{rest}\"")), "{image}");
    }
    assert!(!["ghcr.io", "nvcr.io"].iter().any(|it| text.contains(it)), "{text}");
}

#[test]
fn images_come_from_a_registry_but_for_what_has_none() {
    let image = |runtime: &Tree| {
        let job = &runtime.items_at(&["spec", "template", "spec", "replicatedJobs"])[0];
        let pods = job.at(&["template", "spec", "template", "spec"]).unwrap();
        pods.items_at(&["containers"])[0].str_at(&["image"]).to_owned()
    };
    let all = bundled_runtimes("images.example");
    assert!(all.iter().all(|it| {
        let local = it.str_at(&["metadata", "name"]) == LOCAL_RUNTIME;
        image(it).starts_with("images.example/") != local
    }));
    let told = version_config_map("kubeflow-system", "2.3.0");
    assert_eq!(told.str_at(&["data", "kubeflow_trainer_version"]), "2.3.0");
}
