//! Fixture of TrainJob tests: paths, files of `examples/`, and the commands `muster run` and `muster why`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_tree::Tree;

use crate::differential::{ApiClient, HttpAnswer, RequestStep};
use crate::embedded_server::binary;

/// TrainJobs of the default namespace.
pub const TRAIN_JOBS: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";
pub const RUNTIMES: &str = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes";
/// JobSets of the default namespace.
pub const JOB_SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
/// Pods of the default namespace.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// Locks the rendezvous port of distributed training: local processes share the host's port, so tests with local nodes exclude each
/// other.
pub fn lock_rendezvous_port() -> MutexGuard<'static, ()> {
    static PORT: Mutex<()> = Mutex::new(());
    // A failed test has released the port as well.
    PORT.lock().unwrap_or_else(PoisonError::into_inner)
}

#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[must_use]
pub fn example(name: &str) -> PathBuf {
    root().join("examples").join(name)
}

#[must_use]
pub fn example_text(name: &str) -> String {
    std::fs::read_to_string(example(name)).expect("the example is there")
}

/// Exit code and output of a command.
#[derive(Debug)]
pub struct CommandResult {
    /// Exit code; -1 if a signal killed it.
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandResult {
    fn of(output: &Output) -> CommandResult {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        CommandResult {
            code: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Returns stdout and stderr.
    #[must_use]
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Asserts the exit code and that the output contains every word.
    pub fn assert(&self, says: &str, code: i32, words: &[&str]) {
        let said = self.said();
        assert_eq!(self.code, code, "{says}: {said}");
        for word in words {
            assert!(said.contains(word), "{says}: {word:?} is not in:\n{said}");
        }
    }
}

/// Runs `muster` with these arguments.
#[must_use]
pub fn muster(words: &[&str]) -> CommandResult {
    muster_with("", words)
}

/// Like [`muster`], with a directory in front of `PATH`.
#[must_use]
pub fn muster_with(first: &str, words: &[&str]) -> CommandResult {
    let mut command = Command::new(binary().expect("there is a binary"));
    command.args(words).stdin(Stdio::null()).env("PATH", path_with(first));
    CommandResult::of(&command.output().expect("the binary starts"))
}

/// Returns `PATH` with a directory in front of it.
#[must_use]
pub fn path_with(first: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    if first.is_empty() { path } else { format!("{first}:{path}") }
}

/// Runs `muster run` on a manifest, with additional arguments.
#[must_use]
pub fn run(text: &str, words: &[&str]) -> CommandResult {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("work.yaml");
    std::fs::write(&file, text).expect("a file can be written");
    let file = file.display().to_string();
    let timeout: &[&str] = if words.contains(&"--timeout") { &[] } else { &["--timeout", "3m"] };
    muster(&[&["run", "-f", &file], timeout, words].concat())
}

/// Creates an object, asserts success and returns the answer.
pub fn create(server: &ApiClient, object: &Tree) -> HttpAnswer {
    let path = match object.str_at(&["kind"]) {
        "TrainJob" => TRAIN_JOBS,
        "ClusterTrainingRuntime" => RUNTIMES,
        other => panic!("no path for {other}"),
    };
    let answer =
        server.send("POST", path, &RequestStep::default(), object.to_json_bytes()).expect("it answers");
    assert_eq!(answer.code, 201, "{}: {}", object.to_json(), answer.body);
    answer
}

/// Deletes the object at a path.
pub fn delete(server: &ApiClient, path: &str) {
    let answer = server.send("DELETE", path, &RequestStep::default(), Vec::new()).expect("it answers");
    assert!(answer.code < 300, "{path}: {}", answer.body);
}

/// Returns the names of the objects at a path.
#[must_use]
pub fn names(server: &ApiClient, path: &str) -> Vec<String> {
    let list = server.get(path).expect("it answers").body;
    list.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect()
}

/// Returns a true condition.
#[must_use]
pub fn holds(object: &Tree, kind: &str) -> Option<Tree> {
    let all = object.items_at(&["status", "conditions"]);
    let is = |it: &&Tree| it.str_at(&["type"]) == kind && it.str_at(&["status"]) == "True";
    all.iter().find(is).cloned()
}

/// Returns the processes of the host whose command line contains `mark`.
#[must_use]
pub fn processes(mark: &str) -> Vec<String> {
    let output = Command::new("ps").args(["-eo", "pid,args"]).output().expect("ps starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains(mark)).map(str::to_owned).collect()
}
