//! Runs `muster node` and `muster operator` beside an API server, and polls for their effects.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use muster_tree::Tree;

use crate::differential::ApiClient;
use crate::embedded_server;

/// Polls until a condition holds, and the interval between them: three minutes in total.
const POLLS_MAX: u32 = 1800;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Timeout for the next line of output. A hung process must not hang the test.
const LINE_TIMEOUT: Duration = Duration::from_secs(180);

/// A child process, killed when the value is dropped.
pub struct MusterProcess {
    child: Child,
    lines: Receiver<String>,
}

impl MusterProcess {
    /// Starts `muster ARGS --kubeconfig FILE` without waiting for it to be ready.
    #[must_use]
    pub fn start(words: &[&str], kubeconfig: &Path) -> MusterProcess {
        MusterProcess::start_with_stderr(words, kubeconfig, Stdio::null())
    }

    /// Like [`MusterProcess::start`], with stderr redirected.
    #[must_use]
    pub fn start_with_stderr(words: &[&str], kubeconfig: &Path, complaints: Stdio) -> MusterProcess {
        MusterProcess::spawn(command(words, kubeconfig).stderr(complaints))
    }

    #[must_use]
    pub fn spawn(command: &mut Command) -> MusterProcess {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        // The thread ends when the process closes its stdout, or when the receiver is dropped.
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        MusterProcess { child, lines }
    }

    /// Waits for the next line on stdout and asserts its prefix.
    pub fn wait_for_line(&mut self, words: &str) {
        let line = self.lines.recv_timeout(LINE_TIMEOUT);
        assert!(
            line.as_ref().is_ok_and(|line| line.starts_with(words)),
            "the next line is {line:?}, not {words:?}"
        );
    }

    /// Sends SIGTERM and returns the exit code.
    pub fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        let signalled = Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts");
        assert!(signalled.success(), "the process has exited already");
        let ended = self.child.wait().expect("it is our child");
        ended.code().expect("it handles SIGTERM and exits")
    }
}

impl Drop for MusterProcess {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Builds `muster ARGS --kubeconfig FILE` without starting it.
#[must_use]
pub fn command(words: &[&str], kubeconfig: &Path) -> Command {
    let mut command = Command::new(embedded_server::binary().expect("there is a binary"));
    command.args(words).arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null());
    command
}

/// Polls the object at `path` until `found` returns a value.
pub fn until<T>(server: &ApiClient, path: &str, what: &str, found: impl Fn(&Tree) -> Option<T>) -> T {
    let mut last = Tree::Null;
    for _ in 0..POLLS_MAX {
        last = server.get(path).expect("the server answers").body;
        if let Some(it) = found(&last) {
            return it;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    panic!("never seen: {what}; last: {}", last.to_json());
}
