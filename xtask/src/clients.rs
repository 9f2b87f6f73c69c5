//! What the tests need besides our own binary: kubectl, programs on client-go and kube-rs, Python with its client and with
//! Kubeflow's SDK, PyTorch, LLVM's programs of coverage, and a real Kubernetes to be compared with.
//!
//! Each is handed to the tests as a path in an environment variable. What cannot be provided is handed over as a
//! reason instead, with which the tests that need it are skipped.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::{kube, llvm, peers, process, torch};

/// The Python client's version that belongs to the pinned Kubernetes.
const PYTHON_CLIENT: &[&str] = &["kubernetes==37.0.2"];
/// Kubeflow's SDK, the models that it speaks in, and the client that it speaks through.
const KUBEFLOW_SDK: &[&str] = &["kubeflow==0.5.0", "kubeflow-trainer-api==2.3.0", "kubernetes==35.0.0"];
/// How long packages of Python may take to come.
const PIP_MAX: Duration = Duration::from_secs(300);

/// The variable that tells why there is no real Kubernetes.
pub const REAL_MISSING: &str = "MUSTER_TEST_REAL_MISSING";

/// A client program: the variable that hands it over, and how to get it.
type Client = (&'static str, &'static str, fn() -> Result<PathBuf, String>);

const CLIENTS: [Client; 8] = [
    ("kubectl", "MUSTER_TEST_KUBECTL", || kube::program("kubectl")),
    ("go", "MUSTER_TEST_GO_CLIENT", go_client),
    ("kube-rs", "MUSTER_TEST_KUBE_RS", kube_rs),
    ("python", "MUSTER_TEST_PYTHON", || python(PYTHON_CLIENT)),
    ("kubeflow", "MUSTER_TEST_KUBEFLOW", || python(KUBEFLOW_SDK)),
    ("torch", "MUSTER_TEST_TORCH", torch::programs),
    ("llvm", "MUSTER_TEST_LLVM", llvm::programs),
    ("helm", "MUSTER_TEST_HELM", || peers::named("helm")),
];

/// The task: provides the programs named by `args`, or all of them, and prints the variables for a shell.
#[expect(clippy::print_stdout, reason = "the variables are what this task is asked for")]
pub fn task(args: &[String]) -> Result<(), String> {
    let known = |name: &String| CLIENTS.iter().any(|client| client.0 == name);
    if let Some(unknown) = args.iter().find(|name| !known(name)) {
        let all = CLIENTS.map(|client| client.0);
        return Err(format!("{unknown}: not one of {}", all.join(", ")));
    }
    for (name, variable, get) in CLIENTS {
        if args.is_empty() || args.iter().any(|arg| arg == name) {
            let path = get().map_err(|reason| format!("{name}: {reason}"))?;
            println!("export {variable}={}", path.display());
        }
    }
    Ok(())
}

/// Provides everything; the variables to set for the tests.
pub fn provide() -> Vec<(String, String)> {
    let mut variables = Vec::new();
    // The tests look for it in the same two places as we do: all there is to hand over is why it is missing.
    if let Err(reason) = kube::all() {
        eprintln!("   real Kubernetes: {reason}");
        variables.push((REAL_MISSING.to_owned(), reason));
    }
    if let Err(reason) = peers::jobset() {
        eprintln!("   upstream JobSet controller: {reason}");
        variables.push(("MUSTER_TEST_PEER_MISSING".to_owned(), reason));
    }
    for (name, variable, get) in CLIENTS {
        match get() {
            Ok(path) => variables.push((variable.to_owned(), path.display().to_string())),
            Err(reason) => {
                eprintln!("   {name}: {reason}");
                variables.push((format!("{variable}_MISSING"), reason));
            }
        }
    }
    variables
}

fn go_client() -> Result<PathBuf, String> {
    if !process::exists("go", "version") {
        return Err("there is no Go on this machine".to_owned());
    }
    let path = process::root().join("target").join("client-go-test");
    let mut go = Command::new("go");
    go.current_dir(process::root().join("tests").join("go")).env("CGO_ENABLED", "0");
    process::run(go.args(["build", "-trimpath", "-o"]).arg(&path).arg("."))?;
    Ok(path)
}

/// A package of its own, outside the workspace, so that nothing of ours ever builds with a Kubernetes client.
fn kube_rs() -> Result<PathBuf, String> {
    let target = process::root().join("target").join("kube-rs");
    let manifest = process::root().join("tests").join("kube-rs").join("Cargo.toml");
    let mut cargo = process::cargo(["build", "--quiet", "--locked", "--manifest-path"]);
    process::run(cargo.arg(manifest).arg("--target-dir").arg(&target))?;
    Ok(target.join("debug").join("kube-rs-test"))
}

/// A virtual environment with these packages in the user's cache folder, made once.
fn python(packages: &[&str]) -> Result<PathBuf, String> {
    if !process::exists("python3", "--version") {
        return Err("there is no Python on this machine".to_owned());
    }
    let folder = kube::cache()?.join(format!("python-{}", packages[0].replace("==", "-")));
    let (interpreter, done) = (folder.join("bin").join("python"), folder.join("done"));
    if !done.exists() {
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        let mut pip = Command::new(&interpreter);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
        process::run_for(&mut pip, PIP_MAX)?;
        fs::write(&done, "").map_err(|e| format!("writing {}: {e}", done.display()))?;
    }
    Ok(interpreter)
}
