//! Provides the third-party programs of the tests: the pinned Kubernetes, kubectl, the upstream JobSet controller, Helm, test
//! clients on client-go and kube-rs, Python with the Kubernetes client and with Kubeflow's SDK, and PyTorch.
//!
//! The tests read the path of each program from an environment variable. For a program that cannot be provided, a variable
//! with the suffix `_MISSING` has the reason, and the tests that need it are skipped with this reason.
//!
//! # Guarantees
//!
//! - Builds and downloads run in parallel, once; their results are kept in the user's cache directory.
//! - With `CI` set, a program that cannot be provided fails the run unless [`MAY_BE_MISSING`] lists it: CI must not skip tests
//!   unnoticed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::{kube, peers, torch};
use xtask::process;

/// The release of the Python client for the pinned Kubernetes.
const PYTHON_CLIENT: &[&str] = &["kubernetes==37.0.2"];
/// Kubeflow's SDK with the API models and the Kubernetes client that it requires.
const KUBEFLOW_SDK: &[&str] = &["kubeflow==0.5.0", "kubeflow-trainer-api==2.3.0", "kubernetes==35.0.0"];
/// The timeout of one `pip install`: a busy host with a slow network needs many minutes.
const PIP_TIMEOUT: Duration = Duration::from_secs(1200);

/// Programs whose tests CI may skip, each with the reason. Empty: every CI host can provide all programs.
const MAY_BE_MISSING: [(&str, &str); 0] = [];

/// The entry for all programs of the pinned Kubernetes together.
pub const KUBERNETES: &str = "kubernetes";

/// Name, environment variable, function that provides it.
type ClientProgram = (&'static str, &'static str, fn() -> Result<PathBuf, String>);

/// Built from source, in turn: each build uses all cores.
const BUILT: [ClientProgram; 6] = [
    // Only the reason is passed on: the tests find the programs in the same two directories as `kube::program`.
    (KUBERNETES, "MUSTER_TEST_REAL", || kube::all().map(|()| PathBuf::new())),
    ("kubectl", "MUSTER_TEST_KUBECTL", || kube::program("kubectl")),
    ("jobset", "MUSTER_TEST_PEER", || peers::named("jobset")),
    ("helm", "MUSTER_TEST_HELM", || peers::named("helm")),
    ("go", "MUSTER_TEST_GO_CLIENT", go_client),
    ("kube-rs", "MUSTER_TEST_KUBE_RS", kube_rs),
];
/// Downloaded, in parallel with the builds.
const DOWNLOADED: [ClientProgram; 3] = [
    ("python", "MUSTER_TEST_PYTHON", || python(PYTHON_CLIENT)),
    ("kubeflow", "MUSTER_TEST_KUBEFLOW", || python(KUBEFLOW_SDK)),
    ("torch", "MUSTER_TEST_TORCH", torch::programs),
];

/// The outcome for each program: its path, or the reason for its absence.
#[derive(Debug, Default)]
pub struct ProvidedClients(Vec<(&'static str, &'static str, Result<PathBuf, String>)>);

impl ProvidedClients {
    /// Returns the environment variables for the tests.
    pub fn variables(&self) -> Vec<(String, String)> {
        let variable = |(_, variable, found): &(_, &str, Result<PathBuf, String>)| match found {
            Ok(path) => (String::from(*variable), path.display().to_string()),
            Err(reason) => (format!("{variable}_MISSING"), reason.clone()),
        };
        self.0.iter().map(variable).collect()
    }

    /// Returns the reason for a missing program.
    pub fn missing(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|it| it.0 == name).and_then(|it| it.2.as_ref().err()).map(String::as_str)
    }

    /// Returns the programs that are missing in CI and not listed in [`MAY_BE_MISSING`], each with the reason.
    pub fn unexpected(&self) -> Vec<(&str, &str)> {
        if std::env::var_os("CI").is_none() {
            return Vec::new();
        }
        self.unlisted(&MAY_BE_MISSING)
    }

    fn unlisted(&self, listed: &[(&str, &str)]) -> Vec<(&str, &str)> {
        let missing = self.0.iter().filter_map(|it| Some((it.0, it.2.as_ref().err()?.as_str())));
        missing.filter(|(name, _)| listed.iter().all(|it| it.0 != *name)).collect()
    }
}

/// The task: provides the programs named in `args`, or all, and prints the variables as shell exports.
#[expect(clippy::print_stdout, reason = "the variables are the result of this task")]
pub fn task(args: &[String]) -> Result<(), String> {
    let all = || BUILT.into_iter().chain(DOWNLOADED);
    if let Some(unknown) = args.iter().find(|name| all().all(|client| client.0 != *name)) {
        let names: Vec<&str> = all().map(|client| client.0).collect();
        return Err(format!("{unknown}: not one of {}", names.join(", ")));
    }
    let provided = get(|client| args.is_empty() || args.iter().any(|arg| arg == client.0));
    for (variable, value) in provided.variables() {
        println!("export {variable}='{}'", value.replace('\'', r"'\''"));
    }
    match provided.unlisted(&[])[..] {
        [] => Ok(()),
        [(name, reason), ..] => Err(format!("{name}: {reason}")),
    }
}

/// Provides all programs.
pub fn provide() -> ProvidedClients {
    get(|_| true)
}

/// Provides the pinned Kubernetes only.
pub fn kubernetes() -> ProvidedClients {
    get(|client| client.0 == KUBERNETES)
}

fn get(wanted: impl Fn(&ClientProgram) -> bool + Sync) -> ProvidedClients {
    let each = |clients: &[ClientProgram]| {
        let wanted = clients.iter().filter(|client| wanted(client));
        let got = wanted.map(|(name, variable, get)| {
            let found = get();
            if let Err(reason) = &found {
                eprintln!("   {name}: {reason}");
            }
            (*name, *variable, found)
        });
        got.collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let downloaded = scope.spawn(|| each(&DOWNLOADED));
        let built = each(&BUILT);
        ProvidedClients([built, downloaded.join().expect("providing programs does not panic")].concat())
    })
}

fn go_client() -> Result<PathBuf, String> {
    if !process::exists("go", "version") {
        return Err("Go is not installed on this host".to_owned());
    }
    let path = process::target().join("client-go-test");
    let mut go = Command::new("go");
    go.current_dir(process::root().join("tests").join("go")).env("CGO_ENABLED", "0");
    process::run(go.args(["build", "-trimpath", "-o"]).arg(&path).arg("."))?;
    Ok(path)
}

/// Builds the kube-rs client. It has the dependencies of the crate `cluster`: after the compilation of the tests, for which
/// cargo's lock makes it wait, only the client itself is compiled.
fn kube_rs() -> Result<PathBuf, String> {
    process::run(&mut process::linting_cargo([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--bin",
        "kube-rs-test",
    ]))?;
    Ok(process::target().join("debug").join("kube-rs-test"))
}

/// Returns the interpreter of a virtual environment with these packages, created on first use in the user's cache directory.
fn python(packages: &[&str]) -> Result<PathBuf, String> {
    if !process::exists("python3", "--version") {
        return Err("Python is not installed on this host".to_owned());
    }
    let directory = kube::cache()?.join(format!("python-{}", packages[0].replace("==", "-")));
    let (interpreter, done) = (directory.join("bin").join("python"), directory.join("done"));
    if !done.exists() {
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory))?;
        process::retry(|| {
            let mut pip = Command::new(&interpreter);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "10"]);
            process::run_for(pip.args(packages), PIP_TIMEOUT)
        })?;
        fs::write(&done, "").map_err(|e| format!("writing {}: {e}", done.display()))?;
    }
    Ok(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_has_a_variable_with_the_reason_and_is_unexpected_unless_listed() {
        let provided = ProvidedClients(vec![
            ("go", "GO", Ok(PathBuf::from("/bin/go"))),
            ("torch", "TORCH", Err("no network".to_owned())),
        ]);
        let variables = provided.variables();
        assert_eq!(variables[0], ("GO".to_owned(), "/bin/go".to_owned()));
        assert_eq!(variables[1], ("TORCH_MISSING".to_owned(), "no network".to_owned()));
        assert_eq!(provided.missing("torch"), Some("no network"));
        assert_eq!(provided.unlisted(&[]), [("torch", "no network")]);
        assert_eq!(provided.unlisted(&[("torch", "no wheel for this processor")]), []);
    }
}
