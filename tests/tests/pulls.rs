//! Images that cannot be pulled, with a container engine that is played by a script: pods wait, nothing fails.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::muster_process::until;
use muster_tree::{Tree, tree};

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

/// Has no image, and pulls one only while there is a file `registry` beside it. Containers run `true`.
const ENGINE: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$1" in
version) echo 1.0 ;;
image) exit 1 ;;
pull) [ -e "$here/registry" ] || { echo "Error: dial tcp: lookup registry.invalid: no such host" >&2; exit 125; } ;;
inspect) echo "true false 2026-01-01T00:00:00Z" ;;
start) exec sleep 1 ;;
esac
"#;

fn send(server: &ApiClient, path: &str, object: &Tree) {
    let answer = server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).unwrap();
    assert!(answer.code == 201, "{}", answer.body);
}

fn waiting(pod: &Tree) -> (String, String) {
    let status = pod.items_at(&["status", "containerStatuses"]).first().cloned().unwrap_or(Tree::Null);
    let word = |key: &str| status.str_at(&["state", "waiting", key]).to_owned();
    (word("reason"), word("message"))
}

fn engine_in(folder: &Path) -> String {
    let file = folder.join("podman");
    std::fs::write(&file, ENGINE).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

#[test]
fn a_job_whose_image_cannot_be_pulled_waits_and_does_not_fail() {
    let folder = tempfile::tempdir().unwrap();
    let path = engine_in(folder.path());
    let plane = EmbeddedServer::start_with_path(&path, &["--ephemeral", "--runtime", "podman"]).unwrap();
    let server = plane.server().unwrap();
    let container = tree!({"name": "c", "image": "registry.invalid/train:1", "command": ["true"]});
    let pod = tree!({"restartPolicy": "Never", "containers": [container]});
    send(
        &server,
        JOBS,
        &tree!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"},
            "spec": {"backoffLimit": 0, "template": {"spec": pod.clone()}}}),
    );
    let never = pod.with(
        &["containers"],
        tree!([{"name": "c", "image": "absent:1", "imagePullPolicy": "Never", "command": ["true"]}]),
    );
    send(
        &server,
        PODS,
        &tree!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "never"}, "spec": never}),
    );
    let of_job = |list: &Tree| {
        let mut all = list.items_at(&["items"]).iter();
        all.find(|pod| pod.str_at(&["metadata", "name"]) != "never").cloned()
    };
    let seen = |reason: &str| {
        until(&server, PODS, reason, |list| {
            let pod = of_job(list)?;
            (waiting(&pod).0 == reason).then_some(pod)
        })
    };
    assert!(waiting(&seen("ErrImagePull")).1.contains("no such host"));
    let pod = seen("ImagePullBackOff");
    let want = "Back-off pulling image \"registry.invalid/train:1\": ErrImagePull: Error: dial tcp";
    assert!(waiting(&pod).1.starts_with(want), "{pod}");
    assert_eq!(pod.str_at(&["status", "phase"]), "Pending");
    until(&server, &format!("{PODS}/never"), "ErrImageNeverPull", |pod| {
        (waiting(pod).0 == "ErrImageNeverPull").then_some(())
    });
    let job = server.get(&format!("{JOBS}/train")).unwrap().body;
    assert_eq!(job.int_at(&["status", "failed"]).unwrap_or(0), 0, "{job}");

    std::fs::write(folder.path().join("registry"), "").unwrap();
    until(&server, &format!("{JOBS}/train"), "it completes once the image is there", |job| {
        (job.int_at(&["status", "succeeded"]) == Some(1)).then_some(())
    });
    let job = server.get(&format!("{JOBS}/train")).unwrap().body;
    assert_eq!(job.int_at(&["status", "failed"]).unwrap_or(0), 0, "{job}");
    let after = of_job(&server.get(PODS).unwrap().body).unwrap();
    assert_eq!(after.items_at(&["status", "containerStatuses"])[0].int_at(&["restartCount"]), Some(0));
}
