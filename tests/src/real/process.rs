//! Child processes that are killed when the test process exits for any reason.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Shell script that waits until stdin is closed, which the kernel does when the test process exits, then kills a process and removes a
/// directory, if given.
const GUARD: &str = r#"cat >/dev/null; kill -9 "$1"; test -z "$2" || rm -rf "$2""#;

/// A child process and its guard.
pub(super) struct GuardedChild {
    pub child: Child,
    guard: Child,
}

impl GuardedChild {
    /// Guards a process, and a directory that the test process would not remove.
    pub fn new(child: Child, folder: Option<&Path>) -> Result<GuardedChild, String> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh", &child.id().to_string()]).arg(folder.unwrap_or(Path::new("")));
        let guard = guard.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        Ok(GuardedChild { child, guard: guard.map_err(|e| format!("starting sh: {e}"))? })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process and waits for its exit. The guard is killed first, because the process id may be reused afterwards.
    pub fn end(&mut self) {
        for child in [&mut self.guard, &mut self.child] {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
