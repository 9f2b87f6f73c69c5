//! What the tests need besides our own binary: a real Kubernetes to be compared with, kubectl, the upstream JobSet controller,
//! Helm, programs on client-go and kube-rs, Python with its client and with Kubeflow's SDK, and PyTorch.
//!
//! Each is handed to the tests as a path in an environment variable. What cannot be provided is handed over as a reason
//! instead, with which the tests that need it are skipped.
//!
//! # Invariants
//!
//! - What is compiled and what is downloaded runs side by side; each is made once and kept in the user's cache folder.
//! - Where `CI` is set, a program that cannot be provided fails the run unless [`MAY_BE_MISSING`] names it: a test that is
//!   skipped for want of a program must not go unnoticed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::{kube, peers, torch};
use xtask::process;

/// The Python client's version that belongs to the pinned Kubernetes.
const PYTHON_CLIENT: &[&str] = &["kubernetes==37.0.2"];
/// Kubeflow's SDK, the models that it speaks in, and the client that it speaks through.
const KUBEFLOW_SDK: &[&str] = &["kubeflow==0.5.0", "kubeflow-trainer-api==2.3.0", "kubernetes==35.0.0"];
/// How long one try to install Python packages may take: a busy machine with a slow network needs many minutes.
const PIP_MAX: Duration = Duration::from_secs(1200);

/// Programs whose tests may be skipped in CI, each with the reason. Empty: every machine of CI can have all of them.
const MAY_BE_MISSING: [(&str, &str); 0] = [];

/// The name under which all programs of the pinned Kubernetes are provided.
pub const KUBERNETES: &str = "kubernetes";

/// A program: its name, the variable that hands it over, and how to get it.
type Client = (&'static str, &'static str, fn() -> Result<PathBuf, String>);

/// Built from source, one after the other: each build uses all cores.
const BUILT: [Client; 6] = [
    // The tests look for its programs in the same two places: only the reason is handed over.
    (KUBERNETES, "MUSTER_TEST_REAL", || kube::all().map(|()| PathBuf::new())),
    ("kubectl", "MUSTER_TEST_KUBECTL", || kube::program("kubectl")),
    ("jobset", "MUSTER_TEST_PEER", || peers::named("jobset")),
    ("helm", "MUSTER_TEST_HELM", || peers::named("helm")),
    ("go", "MUSTER_TEST_GO_CLIENT", go_client),
    ("kube-rs", "MUSTER_TEST_KUBE_RS", kube_rs),
];
/// Downloaded.
const DOWNLOADED: [Client; 3] = [
    ("python", "MUSTER_TEST_PYTHON", || python(PYTHON_CLIENT)),
    ("kubeflow", "MUSTER_TEST_KUBEFLOW", || python(KUBEFLOW_SDK)),
    ("torch", "MUSTER_TEST_TORCH", torch::programs),
];

/// What could be provided, and what could not.
#[derive(Debug, Default)]
pub struct Provided(Vec<(&'static str, &'static str, Result<PathBuf, String>)>);

impl Provided {
    /// The variables that hand everything over to the tests.
    pub fn variables(&self) -> Vec<(String, String)> {
        let variable = |(_, variable, found): &(_, &str, Result<PathBuf, String>)| match found {
            Ok(path) => (String::from(*variable), path.display().to_string()),
            Err(reason) => (format!("{variable}_MISSING"), reason.clone()),
        };
        self.0.iter().map(variable).collect()
    }

    /// Why this program is missing, if it is.
    pub fn missing(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|it| it.0 == name).and_then(|it| it.2.as_ref().err()).map(String::as_str)
    }

    /// The programs that are missing in CI although they may not be, each with the reason.
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

/// The task: provides the programs named by `args`, or all of them, and prints the variables for a shell.
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

/// Provides everything.
pub fn provide() -> Provided {
    get(|_| true)
}

/// Provides a real Kubernetes alone.
pub fn kubernetes() -> Provided {
    get(|client| client.0 == KUBERNETES)
}

fn get(wanted: impl Fn(&Client) -> bool + Sync) -> Provided {
    let each = |clients: &[Client]| {
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
        Provided([built, downloaded.join().expect("providing programs does not panic")].concat())
    })
}

fn go_client() -> Result<PathBuf, String> {
    if !process::exists("go", "version") {
        return Err("there is no Go on this machine".to_owned());
    }
    let path = process::target().join("client-go-test");
    let mut go = Command::new("go");
    go.current_dir(process::root().join("tests").join("go")).env("CGO_ENABLED", "0");
    process::run(go.args(["build", "-trimpath", "-o"]).arg(&path).arg("."))?;
    Ok(path)
}

/// A member of the workspace with the same dependencies as `cluster`: it waits for the compilation of the tests and then only
/// compiles itself.
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

/// A virtual environment with these packages in the user's cache folder, made once.
fn python(packages: &[&str]) -> Result<PathBuf, String> {
    if !process::exists("python3", "--version") {
        return Err("there is no Python on this machine".to_owned());
    }
    let folder = kube::cache()?.join(format!("python-{}", packages[0].replace("==", "-")));
    let (interpreter, done) = (folder.join("bin").join("python"), folder.join("done"));
    if !done.exists() {
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
        process::retry(|| {
            let mut pip = Command::new(&interpreter);
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "10"]);
            process::run_for(pip.args(packages), PIP_MAX)
        })?;
        fs::write(&done, "").map_err(|e| format!("writing {}: {e}", done.display()))?;
    }
    Ok(interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_handed_over_with_its_reason_and_fails_unless_it_is_listed() {
        let provided = Provided(vec![
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
