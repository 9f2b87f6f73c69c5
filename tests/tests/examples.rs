//! The files of `examples/` do what they say.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::clients::program;
use muster_tests::embedded_server::EmbeddedServer;
use muster_tree::Tree;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

fn kubectl(program: &Path, plane: &EmbeddedServer, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(plane.kubeconfig()).args(args);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_job_trains_on_gpus_one_pod_after_the_other() {
    let Some(program) = program("MUSTER_TEST_KUBECTL", "a_job_trains_on_gpus_one_pod_after_the_other") else {
        return;
    };
    let nodes = example("gpu-node.yaml").display().to_string();
    let plane = EmbeddedServer::start(&["--ephemeral", "--nodes", &nodes]).unwrap();
    kubectl(&program, &plane, &["apply", "-f", &example("train-on-gpu.yaml").display().to_string()]);
    kubectl(&program, &plane, &["wait", "--for=condition=complete", "job/train", "--timeout=60s"]);
    let list = |what: &str| {
        let text = kubectl(&program, &plane, &["get", what, "--output", "json"]);
        Tree::parse(text.as_bytes()).unwrap().items_at(&["items"]).to_vec()
    };
    let mut spans: Vec<(String, String)> = list("pods").iter().map(span).collect();
    spans.sort();
    assert_eq!(spans.len(), 2);
    assert!(spans[0].1 <= spans[1].0, "the only large GPU serves one at a time: {spans:?}");
    let bound = |claim: &Tree| claim.str_at(&["status", "phase"]) == "Bound";
    assert!(list("persistentvolumeclaims").iter().all(bound), "the volume stays");
}

/// When the only container of a pod began and ended.
fn span(pod: &Tree) -> (String, String) {
    let ended =
        pod.items_at(&["status", "containerStatuses"])[0].at(&["state", "terminated"]).unwrap().clone();
    (ended.str_at(&["startedAt"]).to_owned(), ended.str_at(&["finishedAt"]).to_owned())
}
