//! What tests of TrainJobs share: their paths, the files of `examples/`, `muster run` and `muster why` as people call them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use muster_tree::Tree;

use crate::differential::{Answer, Server, Step};
use crate::plane::binary;

/// Where TrainJobs of the default namespace are.
pub const TRAIN_JOBS: &str = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs";
/// Where runtimes for all are.
pub const RUNTIMES: &str = "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes";
/// Where JobSets of the default namespace are.
pub const JOB_SETS: &str = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
/// Where pods of the default namespace are.
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// Nodes of a training meet at one port; whoever listens at all addresses of this machine takes it from everybody else.
/// Tests that do not simulate their nodes hold this.
pub fn meeting_point() -> MutexGuard<'static, ()> {
    static PORT: Mutex<()> = Mutex::new(());
    // A test that failed has let go of the port all the same.
    PORT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The root of the sources.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A file of `examples/`.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    root().join("examples").join(name)
}

/// The text of a file of `examples/`.
#[must_use]
pub fn example_text(name: &str) -> String {
    std::fs::read_to_string(example(name)).expect("the example is there")
}

/// How a command ended, and everything it said.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// Its output.
    pub out: String,
    /// Its complaints.
    pub err: String,
}

impl Ran {
    fn of(output: &Output) -> Ran {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// Both.
    #[must_use]
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }

    /// Asserts how it ended and that it said all of this.
    pub fn assert(&self, says: &str, code: i32, words: &[&str]) {
        let said = self.said();
        assert_eq!(self.code, code, "{says}: {said}");
        for word in words {
            assert!(said.contains(word), "{says}: {word:?} is not in:\n{said}");
        }
    }
}

/// `muster` with these words.
#[must_use]
pub fn muster(words: &[&str]) -> Ran {
    muster_with("", words)
}

/// The same with a folder in front of the path.
#[must_use]
pub fn muster_with(first: &str, words: &[&str]) -> Ran {
    let mut command = Command::new(binary().expect("there is a binary"));
    command.args(words).stdin(Stdio::null()).env("PATH", path_with(first));
    Ran::of(&command.output().expect("the binary starts"))
}

/// The path with a folder in front of it.
#[must_use]
pub fn path_with(first: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    if first.is_empty() { path } else { format!("{first}:{path}") }
}

/// `muster run` of a text, with further words.
#[must_use]
pub fn run(text: &str, words: &[&str]) -> Ran {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let file = folder.path().join("work.yaml");
    std::fs::write(&file, text).expect("a file can be written");
    let file = file.display().to_string();
    let timeout: &[&str] = if words.contains(&"--timeout") { &[] } else { &["--timeout", "3m"] };
    muster(&[&["run", "-f", &file], timeout, words].concat())
}

/// Makes an object; what the server said.
pub fn create(server: &Server, object: &Tree) -> Answer {
    let path = match object.str_at(&["kind"]) {
        "TrainJob" => TRAIN_JOBS,
        "ClusterTrainingRuntime" => RUNTIMES,
        other => panic!("no path for {other}"),
    };
    let answer = server.send("POST", path, &Step::default(), object.to_json_bytes()).expect("it answers");
    assert_eq!(answer.code, 201, "{}: {}", object.to_json(), answer.body);
    answer
}

/// Deletes what is at a path.
pub fn delete(server: &Server, path: &str) {
    let answer = server.send("DELETE", path, &Step::default(), Vec::new()).expect("it answers");
    assert!(answer.code < 300, "{path}: {}", answer.body);
}

/// The names of what is at a path.
#[must_use]
pub fn names(server: &Server, path: &str) -> Vec<String> {
    let list = server.get(path).expect("it answers").body;
    list.items_at(&["items"]).iter().map(|it| it.str_at(&["metadata", "name"]).to_owned()).collect()
}

/// A condition that holds.
#[must_use]
pub fn holds(object: &Tree, kind: &str) -> Option<Tree> {
    let all = object.items_at(&["status", "conditions"]);
    let is = |it: &&Tree| it.str_at(&["type"]) == kind && it.str_at(&["status"]) == "True";
    all.iter().find(is).cloned()
}

/// Processes of this machine whose command line has this in it.
#[must_use]
pub fn processes(mark: &str) -> Vec<String> {
    let output = Command::new("ps").args(["-eo", "pid,args"]).output().expect("ps starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains(mark)).map(str::to_owned).collect()
}
