//! Values at the maximum size, and beyond it.

use muster_tree::{Tree, tree};

use super::server::Server;

fn told(spec: &Tree) -> Vec<String> {
    let server = Server::of(&Tree::empty_map());
    let job = tree!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"name": "train", "namespace": "ns"}, "spec": {"runtimeRef": {"name": "torch-distributed"}}});
    server.judge("TrainJob", &job.merge(&tree!({"spec": spec})), None).lines
}

#[test]
fn lengths() {
    let words = |n: usize| Tree::list((0..n).map(|_| "x"));
    let env = |n: usize| Tree::list((0..n).map(|n| tree!({"name": format!("V{n}"), "value": "v"})));
    let uri = |n: usize| format!("s3://{}", "x".repeat(n - 5));
    for (says, fits, too_long) in [
        (
            "an item of a command",
            tree!({"trainer": {"command": [("x".repeat(1_048_576).as_str())]}}),
            tree!({"trainer": {"command": [("x".repeat(1_048_577).as_str())]}}),
        ),
        (
            "items of a command",
            tree!({"trainer": {"command": words(128)}}),
            tree!({"trainer": {"command": words(129)}}),
        ),
        ("arguments", tree!({"trainer": {"args": words(128)}}), tree!({"trainer": {"args": words(129)}})),
        ("variables", tree!({"trainer": {"env": env(128)}}), tree!({"trainer": {"env": env(129)}})),
        (
            "an image",
            tree!({"trainer": {"image": "x".repeat(500)}}),
            tree!({"trainer": {"image": "x".repeat(501)}}),
        ),
    ] {
        assert_eq!(told(&fits), ["201"], "{says}");
        let lines = told(&too_long);
        assert!(lines.len() == 1 && lines[0].starts_with("422 spec.trainer."), "{says}: {lines:?}");
    }
    let dataset = |uri: String| tree!({"runtimeRef": {"name": "torchtune-llama3.2-1b"}, "initializer": {"dataset": {"storageUri": uri}}});
    assert_eq!(told(&dataset(uri(2048))), ["201"]);
    assert!(told(&dataset(uri(2049)))[0].starts_with("422 spec.initializer.dataset.storageUri"));
}
