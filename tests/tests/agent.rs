//! `muster agent` in the pods of a JobSet that restarts in place; the pods are simulated, the agents are real.

use std::process::{Child, Command, Stdio};

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::{EmbeddedServer, binary};
use muster_tests::muster_process::until;
use muster_tree::{Tree, tree};

const SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn start(plane: &EmbeddedServer, pod: &str, worker: &str) -> Child {
    let mut agent = Command::new(binary().unwrap());
    agent.arg("agent").env("KUBECONFIG", plane.kubeconfig()).env("JOBSET_NAME", "s").env("POD_NAME", pod);
    agent.env("WORKER_COMMAND", worker).env("IN_PLACE_RESTART_EXIT_CODE", "42").env_remove("SHELL");
    agent.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

fn pods(server: &ApiClient) -> Vec<String> {
    until(server, PODS, "two pods that run", |list| {
        let runs = |it: &&Tree| it.str_at(&["status", "phase"]) == "Running";
        let all: Vec<&Tree> = list.items_at(&["items"]).iter().filter(runs).collect();
        (all.len() == 2).then(|| all.iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect())
    })
}

#[test]
fn pods_begin_together_and_restart_together() {
    let plane =
        EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "1", "--feature-gates", "InPlaceRestart=true"])
            .unwrap();
    let server = plane.server().unwrap();
    let set = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s"}, "spec": {
        "failurePolicy": {"maxRestarts": 3, "restartStrategy": "InPlaceRestart"},
        "replicatedJobs": [{"name": "a", "template": {"spec": {"parallelism": 2, "completions": 2,
            "backoffLimit": 2_147_483_647, "podReplacementPolicy": "Failed", "template": {
                "metadata": {"annotations": {"muster.dev/sim-run-seconds": "600"}},
                "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "i"}]}}}}}]}});
    let made = server.send("POST", SETS, &RequestStep::default(), set.to_json_bytes()).unwrap();
    assert_eq!(made.code, 201, "{}", made.body.to_json());
    let pods = pods(&server);
    let reached = |attempt: i64| {
        until(&server, &format!("{SETS}/s"), "an attempt that all have reached", |set| {
            (set.int_at(&["status", "currentInPlaceRestartAttempt"]) == Some(attempt)).then_some(())
        });
    };
    let first = start(&plane, &pods[0], "exec sleep 600");
    until(&server, &format!("{PODS}/{}", pods[0]), "a pod that says its attempt", |pod| {
        let says = pod
            .at(&["metadata", "annotations"])?
            .str_at(&["jobset.sigs.k8s.io/in-place-restart-attempt"])
            .to_owned();
        (says == "0").then_some(())
    });
    // The second one ends by itself as soon as both may begin: it failed.
    let second = start(&plane, &pods[1], "echo begun; exit 9").wait_with_output().unwrap();
    assert_eq!(
        (second.status.code(), String::from_utf8_lossy(&second.stdout).as_ref()),
        (Some(9), "begun\n")
    );
    reached(0);
    // Its container starts again, and takes the other one along.
    let again = start(&plane, &pods[1], "echo begun again");
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(42), "the attempt is over for all");
    let other = start(&plane, &pods[0], "echo begun again");
    for agent in [again, other] {
        let output = agent.wait_with_output().unwrap();
        assert_eq!(
            (output.status.code(), String::from_utf8_lossy(&output.stdout).as_ref()),
            (Some(0), "begun again\n")
        );
    }
    reached(1);
}

#[test]
fn what_is_missing_is_said_with_exit_code_two() {
    let output = Command::new(binary().unwrap()).arg("agent").env_remove("JOBSET_NAME").output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(words.contains("JOBSET_NAME is not set") && words.contains("hint:"), "{words}");
}
