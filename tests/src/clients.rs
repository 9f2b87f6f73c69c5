//! Foreign clients: kubectl and programs on other people's libraries, unmodified.
//!
//! `cargo xtask test` hands each over in an environment variable, or says in another why there is none. Under plain
//! `cargo test` kubectl is looked for in the cache folder; the others are skipped.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use muster_tree::Tree;

use crate::plane::Plane;
use crate::real;

/// How often a condition is looked at, and how long apart.
const TRIES: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(100);

/// The program in this variable; otherwise the calling test is noted as skipped, with the reason.
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

/// Notes a skipped test where `cargo xtask test` counts it.
pub fn skip(test: &str, reason: &str) {
    eprintln!("skipped {test}: {reason}");
    append("MUSTER_TEST_SKIPS", &format!("{test}: {reason}"));
}

/// Notes a line that `cargo xtask test` shows even when everything passed.
pub fn note(line: &str) {
    eprintln!("{line}");
    append("MUSTER_TEST_NOTES", line);
}

/// Adds a line to the file that this variable names, if it names one.
pub(crate) fn append(variable: &str, line: &str) {
    if let Some(path) = std::env::var_os(variable) {
        let file = File::options().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{line}")).expect("the list can be written");
    }
}

/// kubectl in a namespace of its own.
pub struct Kubectl {
    program: PathBuf,
    plane: &'static Plane,
    /// The namespace.
    pub namespace: String,
}

impl Kubectl {
    /// kubectl against the shared server, in a new namespace named after the test; `None` where there is no kubectl.
    pub fn new(test: &str) -> Option<Kubectl> {
        Kubectl::on(Plane::shared, test)
    }

    /// The same against another server, which is only started where there is a kubectl.
    pub fn on(plane: impl FnOnce() -> &'static Plane, test: &str) -> Option<Kubectl> {
        let program = program("MUSTER_TEST_KUBECTL", test)?;
        let kubectl = Kubectl { program, plane: plane(), namespace: test.replace('_', "-") };
        kubectl.ok(&["create", "namespace", &kubectl.namespace]);
        Some(kubectl)
    }

    /// The command with these arguments, not yet started.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(["--namespace", &self.namespace]);
        command.arg("--cache-dir").arg(self.plane.folder().join("kubectl-cache"));
        command.args(args).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, args: &[&str]) -> Said {
        Said::of(args, &self.command(args).output().expect("kubectl starts"))
    }

    /// Runs it with this on its input.
    pub fn run_with(&self, args: &[&str], input: &str) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("kubectl starts");
        let mut stdin = child.stdin.take().expect("the input is piped");
        stdin.write_all(input.as_bytes()).expect("kubectl reads its input");
        drop(stdin);
        Said::of(args, &child.wait_with_output().expect("kubectl ends"))
    }

    /// Runs it, which must go well, and returns what it printed.
    pub fn ok(&self, args: &[&str]) -> String {
        self.run(args).ok()
    }

    /// Runs it with this on its input, which must go well, and returns what it printed.
    pub fn ok_with(&self, args: &[&str], input: &str) -> String {
        self.run_with(args, input).ok()
    }

    /// An object as the server has it.
    pub fn object(&self, name: &str) -> Tree {
        Tree::parse(self.ok(&["get", name, "--output", "json"]).as_bytes()).expect("kubectl prints JSON")
    }

    /// Starts it and leaves it running, with its output in a file.
    pub fn watch(&self, args: &[&str]) -> Watching {
        let path = self.plane.folder().join(format!("watch-{}", self.namespace));
        let file = File::create(&path).expect("a file for the output");
        let child = self.command(args).stdout(file).spawn().expect("kubectl starts");
        Watching { child, path }
    }

    /// A file with this text.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.plane.folder().join(format!("{}-{name}", self.namespace));
        fs::write(&path, text).expect("a file can be written");
        path.display().to_string()
    }
}

/// What a program said, and how it ended.
pub struct Said {
    args: String,
    /// Whether it ended well.
    pub success: bool,
    /// Its exit code, if no signal ended it.
    pub code: Option<i32>,
    /// Its output.
    pub out: String,
    /// Its complaints.
    pub err: String,
}

impl Said {
    fn of(args: &[&str], output: &Output) -> Said {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let success = output.status.success();
        let code = output.status.code();
        Said { args: args.join(" "), success, code, out: text(&output.stdout), err: text(&output.stderr) }
    }

    /// The output of a run that must have gone well.
    pub fn ok(self) -> String {
        assert!(self.success, "kubectl {}: {}{}", self.args, self.out, self.err);
        self.out
    }

    /// The complaint of a run that must have failed.
    pub fn refused(self) -> String {
        assert!(!self.success, "kubectl {} should have been refused: {}", self.args, self.out);
        self.err
    }
}

/// A kubectl that is still running.
pub struct Watching {
    child: Child,
    path: PathBuf,
}

impl Watching {
    /// What it printed so far.
    #[must_use]
    pub fn seen(&self) -> String {
        fs::read_to_string(&self.path).unwrap_or_default()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again until the condition holds.
pub fn eventually<T: Debug>(what: &str, mut look: impl FnMut() -> Result<(), T>) {
    let mut last = look();
    for _ in 0..TRIES {
        if last.is_ok() {
            return;
        }
        std::thread::sleep(PAUSE);
        last = look();
    }
    panic!("{what} never came: {last:?}");
}

/// Asserts that a text has all of these words.
pub fn assert_has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
}
