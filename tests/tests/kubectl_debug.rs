//! `kubectl debug` on the local node: a copy of a pod and a pod on the node run; an ephemeral container says that it does not.

use std::path::Path;
use std::process::{Command, Output};

use muster_tests::clients::program;
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::muster_process::until;
use muster_tree::Tree;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn kubectl(program: &Path, plane: &EmbeddedServer, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(plane.kubeconfig()).args(args).output().unwrap()
}

#[test]
fn copies_and_nodes_are_debugged_and_ephemeral_containers_refused() {
    let test = "copies_and_nodes_are_debugged_and_ephemeral_containers_refused";
    let Some(program) = program("MUSTER_TEST_KUBECTL", test) else { return };
    let plane = EmbeddedServer::start(&["--ephemeral"]).unwrap();
    let server = plane.server().unwrap();
    let ok = |args: &[&str]| {
        let output = kubectl(&program, &plane, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    ok(&["run", "p", "--image=x", "--restart=Never", "--command", "--", "sleep", "300"]);
    let phase = |pod: &Tree, want: &str| (pod.str_at(&["status", "phase"]) == want).then_some(());
    until(&server, &format!("{PODS}/p"), "it runs", |pod| phase(pod, "Running"));

    ok(&["debug", "p", "--copy-to=q", "--image=busybox", "--", "echo", "hi"]);
    until(&server, &format!("{PODS}/q"), "the copy runs", |pod| phase(pod, "Running"));
    ok(&["debug", "node/local", "--image=busybox", "--", "echo", "hi"]);
    until(&server, PODS, "a pod on the node has run", |list| {
        let on_node = |pod: &&Tree| pod.str_at(&["metadata", "name"]).starts_with("node-debugger-");
        phase(list.items_at(&["items"]).iter().find(on_node)?, "Succeeded")
    });

    ok(&["debug", "p", "--image=busybox", "--", "echo", "hi"]);
    until(&server, &format!("{PODS}/p"), "it is refused in words", |pod| {
        let status = pod.items_at(&["status", "ephemeralContainerStatuses"]).first()?;
        status.str_at(&["state", "waiting", "message"]).contains("not run by this node").then_some(())
    });
}
