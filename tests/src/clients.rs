//! Third-party clients, unmodified: kubectl and programs on client-go, kube-rs and the Python client.
//!
//! `cargo xtask test` passes the path of each in an environment variable, or in another one the reason why it is missing. Plain
//! `cargo test` searches the cache directory for kubectl and skips the others.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use muster_tree::Tree;

use crate::embedded_server::EmbeddedServer;
use crate::real;

/// Polls until a condition holds, and the interval between them: three minutes in total.
const POLLS_MAX: u32 = 1800;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the program that the variable names. Records the calling test as skipped if there is none.
pub fn program(variable: &str, test: &str) -> Option<PathBuf> {
    let given = std::env::var_os(variable).map(PathBuf::from);
    let kubectl = || (variable == "MUSTER_TEST_KUBECTL").then(|| real::program("kubectl").ok()).flatten();
    let found = given.or_else(kubectl);
    if found.is_none() {
        let reason = std::env::var(format!("{variable}_MISSING"));
        skip(test, &reason.unwrap_or_else(|_| format!("{variable} is not set: run `cargo xtask test`")));
    }
    found
}

/// Records a skipped test in the file that `cargo xtask test` counts.
pub fn skip(test: &str, reason: &str) {
    eprintln!("skipped {test}: {reason}");
    append("MUSTER_TEST_SKIPS", &format!("{test}: {reason}"));
}

/// Records a line that `cargo xtask test` prints even when everything passes.
pub fn note(line: &str) {
    eprintln!("{line}");
    append("MUSTER_TEST_NOTES", line);
}

/// Appends a line to the file that the variable names, if it is set.
pub(crate) fn append(variable: &str, line: &str) {
    if let Some(path) = std::env::var_os(variable) {
        let file = File::options().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}")).expect("the file is writable");
    }
}

/// kubectl with a namespace of its own.
pub struct Kubectl {
    program: PathBuf,
    plane: &'static EmbeddedServer,
    pub namespace: String,
}

impl Kubectl {
    /// Creates a namespace named after the test on the shared server; `None` without kubectl.
    pub fn new(test: &str) -> Option<Kubectl> {
        Kubectl::on(EmbeddedServer::shared, test)
    }

    /// Like [`Kubectl::new`] on another server, which is started only if there is a kubectl.
    pub fn on(plane: impl FnOnce() -> &'static EmbeddedServer, test: &str) -> Option<Kubectl> {
        let program = program("MUSTER_TEST_KUBECTL", test)?;
        let kubectl = Kubectl { program, plane: plane(), namespace: test.replace('_', "-") };
        kubectl.ok(&["create", "namespace", &kubectl.namespace]);
        Some(kubectl)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(["--namespace", &self.namespace]);
        command.arg("--cache-dir").arg(self.plane.directory().join("kubectl-cache"));
        command.args(args).stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::of(args, &self.command(args).output().expect("kubectl starts"))
    }

    pub fn run_with(&self, args: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("the input is piped");
        stdin.write_all(input.as_bytes()).expect("kubectl reads its input");
        drop(stdin);
        CommandOutput::of(args, &child.wait_with_output().expect("kubectl exits"))
    }

    /// Runs kubectl, asserts success and returns stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    /// Runs kubectl with this stdin, asserts success and returns stdout.
    pub fn ok_with(&self, args: &[&str], input: &str) -> String {
        self.run_with(args, input).ok()
    }

    pub fn object(&self, name: &str) -> Tree {
        Tree::parse(self.ok(&["get", name, "--output", "json"]).as_bytes()).expect("kubectl prints JSON")
    }

    /// Starts kubectl in the background with stdout redirected to a file.
    pub fn watch(&self, args: &[&str]) -> BackgroundKubectl {
        let path = self.plane.directory().join(format!("watch-{}", self.namespace));
        let file = File::create(&path).expect("a file for the output");
        let child = self.command(args).stdout(file).spawn().expect("kubectl starts");
        BackgroundKubectl { child, path }
    }

    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.plane.directory().join(format!("{}-{name}", self.namespace));
        fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    }
}

/// Output and exit status of a finished command.
pub struct CommandOutput {
    args: String,
    pub success: bool,
    /// `None` if a signal killed it.
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    fn of(args: &[&str], output: &Output) -> CommandOutput {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let success = output.status.success();
        let code = output.status.code();
        CommandOutput {
            args: args.join(" "),
            success,
            code,
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }

    /// Asserts success and returns stdout.
    pub fn ok(self) -> String {
        assert!(self.success, "kubectl {}: {}{}", self.args, self.out, self.err);
        self.out
    }

    /// Asserts failure and returns stderr.
    pub fn expect_failure(self) -> String {
        assert!(!self.success, "kubectl {} should have failed: {}", self.args, self.out);
        self.err
    }
}

/// A running kubectl, killed when the value is dropped.
pub struct BackgroundKubectl {
    child: Child,
    path: PathBuf,
}

impl BackgroundKubectl {
    /// Returns the stdout written so far.
    #[must_use]
    pub fn output(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }
}

impl Drop for BackgroundKubectl {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Polls until the condition holds.
pub fn eventually<T: Debug>(what: &str, mut look: impl FnMut() -> Result<(), T>) {
    let mut last = look();
    for _ in 0..POLLS_MAX {
        if last.is_ok() {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
        last = look();
    }
    panic!("{what}: timed out; last: {last:?}");
}

/// Asserts that the text contains every word.
pub fn assert_contains(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}
