//! `muster node` and `muster operator`: processes of ours beside an API server, and a way to wait for what they do.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use muster_tree::Tree;

use crate::differential::Server;
use crate::plane;

/// How often one looks for what is waited for, and how long apart.
const LOOKS: u32 = 1800;
const PAUSE: Duration = Duration::from_millis(100);

/// How long it may take until it says what is waited for: whoever hangs must not hang the test.
const LINE_MAX: Duration = Duration::from_secs(180);

/// A process that does not outlive the test.
pub struct Beside {
    child: Child,
    lines: Receiver<String>,
}

impl Beside {
    /// Starts `muster <words> --kubeconfig FILE` and returns at once.
    #[must_use]
    pub fn start(words: &[&str], kubeconfig: &Path) -> Beside {
        Beside::telling(words, kubeconfig, Stdio::null())
    }

    /// The same, with its complaints there.
    #[must_use]
    pub fn telling(words: &[&str], kubeconfig: &Path, complaints: Stdio) -> Beside {
        Beside::of(command(words, kubeconfig).stderr(complaints))
    }

    /// Starts this and returns at once.
    #[must_use]
    pub fn of(command: &mut Command) -> Beside {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
        let (told, lines) = channel();
        let output = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        // It ends with the process; nobody listening any more is fine.
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| told.send(line)));
        Beside { child, lines }
    }

    /// Waits for its next line, which begins with these words.
    pub fn says(&mut self, words: &str) {
        let line = self.lines.recv_timeout(LINE_MAX);
        assert!(line.as_ref().is_ok_and(|line| line.starts_with(words)), "it says {line:?}, not {words:?}");
    }

    /// Asks it to end; its exit code.
    pub fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status().expect("kill starts");
        assert!(asked.success(), "it is gone already");
        let ended = self.child.wait().expect("it is a child of ours");
        ended.code().expect("it ends by itself, not by the signal")
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Already gone is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `muster <words> --kubeconfig FILE`, not started.
#[must_use]
pub fn command(words: &[&str], kubeconfig: &Path) -> Command {
    let mut command = Command::new(plane::binary().expect("there is a binary"));
    command.args(words).arg("--kubeconfig").arg(kubeconfig).stdin(Stdio::null());
    command
}

/// Looks until `found` has what it wants.
pub fn until<T>(server: &Server, path: &str, what: &str, found: impl Fn(&Tree) -> Option<T>) -> T {
    let mut last = Tree::Null;
    for _ in 0..LOOKS {
        last = server.get(path).expect("the server answers").body;
        if let Some(it) = found(&last) {
            return it;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("never seen: {what}; last: {}", last.to_json());
}
