//! `kubectl top` on the local node, and what it says where nothing is measured.

use std::path::Path;
use std::process::{Command, Output};

use muster_tests::clients::program;
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::muster_process::until;
use muster_tree::Tree;

fn kubectl(program: &Path, plane: &EmbeddedServer, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(plane.kubeconfig()).args(args).output().unwrap()
}

#[test]
fn usage_is_shown_of_the_local_node_and_its_pods() {
    let Some(program) = program("MUSTER_TEST_KUBECTL", "usage_is_shown_of_the_local_node_and_its_pods")
    else {
        return;
    };
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let run = ["run", "p", "--image=x", "--restart=Never", "--command", "--", "sleep", "300"];
    assert!(kubectl(&program, &plane, &run).status.success());
    until(&server, "/api/v1/namespaces/default/pods/p", "it runs", |pod: &Tree| {
        (pod.str_at(&["status", "phase"]) == "Running").then_some(())
    });
    for (args, heading, name) in [
        (&["top", "pod"][..], "CPU(cores)", "p"),
        (&["top", "pod", "p", "--containers"], "NAME", "p"),
        (&["top", "node"], "MEMORY(bytes)", "local"),
    ] {
        let output = kubectl(&program, &plane, args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(text.lines().next().is_some_and(|line| line.contains(heading)), "{args:?}: {text}");
        let row = text.lines().skip(1).any(|line| line.split_whitespace().any(|word| word == name));
        assert!(row, "{args:?}: {text}");
    }
}

#[test]
fn simulated_nodes_have_no_metrics_api() {
    let Some(program) = program("MUSTER_TEST_KUBECTL", "simulated_nodes_have_no_metrics_api") else { return };
    let plane = EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1"]).unwrap();
    let output = kubectl(&program, &plane, &["top", "node"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("Metrics API not available"), "{text}");
}
