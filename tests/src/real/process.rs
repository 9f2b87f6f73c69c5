//! Child processes that do not outlive the test process, however that ends.

use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Ends the process in the first argument and removes the folder in the second, if any, when its own input closes, which it
/// does when the test process is gone.
const GUARD: &str = r#"cat >/dev/null; kill -9 "$1"; test -z "$2" || rm -rf "$2""#;

/// A process and its guard.
pub(super) struct Guarded {
    pub child: Child,
    guard: Child,
}

impl Guarded {
    /// Takes charge of a process, and of a folder that goes when the test process ends without removing it.
    pub fn new(child: Child, folder: Option<&Path>) -> Result<Guarded, String> {
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh", &child.id().to_string()]).arg(folder.unwrap_or(Path::new("")));
        let guard = guard.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
        Ok(Guarded { child, guard: guard.map_err(|e| format!("starting sh: {e}"))? })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process and waits for its end. The guard goes first: later the number of the process may be another's.
    pub fn end(&mut self) {
        for child in [&mut self.guard, &mut self.child] {
            // Already gone is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
