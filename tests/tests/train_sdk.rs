//! Kubeflow's SDK, unmodified, with its Kubernetes backend: nodes are processes of this machine.

use std::path::Path;
use std::process::Command;

use muster_tests::clients::{note, program};
use muster_tests::embedded_server::EmbeddedServer;
use muster_tests::trainjob_fixture::{lock_rendezvous_port, path_with};

/// Runs these steps of the script against a plane with these folders in front of its path.
fn passes(python: &Path, first: &[&Path], namespace: &str, steps: &[&str]) {
    let first: Vec<String> = first.iter().map(|folder| folder.display().to_string()).collect();
    let plane = EmbeddedServer::start_with_path(&path_with(&first.join(":")), &["--ephemeral"]).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join("trainer.py");
    let mut command = Command::new(python);
    command.arg(script).arg(namespace).args(steps).env("KUBECONFIG", plane.kubeconfig());
    let output = command.output().expect("Python starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}

#[test]
fn kubeflows_sdk_works_unchanged() {
    let Some(python) = program("MUSTER_TEST_KUBEFLOW", "kubeflows_sdk_works_unchanged") else { return };
    let _alone = lock_rendezvous_port();
    passes(&python, &[python.parent().unwrap()], "by-sdk", &[]);
    note("Kubeflow's SDK: runtimes, functions on two nodes, logs, events, deadline, initializers");
}

#[test]
fn kubeflows_sdk_trains_with_torch() {
    let test = "kubeflows_sdk_trains_with_torch";
    let Some(python) = program("MUSTER_TEST_KUBEFLOW", test) else { return };
    let Some(torch) = program("MUSTER_TEST_TORCH", test) else { return };
    let _alone = lock_rendezvous_port();
    passes(&python, &[&torch], "by-torch", &["torch"]);
    note("Kubeflow's SDK: a function in a process group of PyTorch over two nodes");
}
