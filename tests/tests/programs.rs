//! Programs on other people's libraries, each in a namespace of its own: they end well or say what went wrong.

use std::path::Path;
use std::process::Command;

use muster_tests::clients::{Kubectl, program};
use muster_tests::embedded_server::EmbeddedServer;

fn passes(test: &str, command: &mut Command) {
    command.env("KUBECONFIG", EmbeddedServer::shared().kubeconfig());
    let output = command.output().expect("the program starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{test}: {out}{err}");
}

#[test]
fn client_go_with_default_settings_works_unchanged() {
    let Some(client) = program("MUSTER_TEST_GO_CLIENT", "client_go") else { return };
    let Some(kubectl) = Kubectl::new("client_go") else { return };
    passes("client-go", Command::new(client).arg(&kubectl.namespace));
}

#[test]
fn the_python_client_works_unchanged() {
    let Some(python) = program("MUSTER_TEST_PYTHON", "python") else { return };
    let Some(kubectl) = Kubectl::new("python") else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join("client.py");
    passes("python", Command::new(python).arg(script).arg(&kubectl.namespace));
}

#[test]
fn a_kube_rs_controller_works_unchanged() {
    let Some(client) = program("MUSTER_TEST_KUBE_RS", "kube_rs") else { return };
    let Some(kubectl) = Kubectl::new("kube_rs") else { return };
    passes("kube-rs", Command::new(client).arg(&kubectl.namespace));
}
