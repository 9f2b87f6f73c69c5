//! What this machine allows, tried out in a process of its own: what it does cannot be undone.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::launch::Isolation;
use crate::port::Applied;
use crate::system::{confine, namespaces};
use crate::words;

/// What was found; `None` when it works, else why not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Namespaces.
    pub namespaces: Option<String>,
    /// Landlock.
    pub landlock: Option<String>,
}

/// Asks a child.
#[must_use]
pub fn ask(program: &Path) -> Found {
    let failed = |why: String| Found { namespaces: Some(why.clone()), landlock: Some(why) };
    let output =
        Command::new(program).arg(words::PROBE).arg("/").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match output {
        Ok(output) => {
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| failed("cannot be tried".to_owned()))
        }
        Err(error) => failed(format!("cannot be tried: {error}")),
    }
}

/// The same for people, and what holds limits: `cgroup` says why no control group does.
#[must_use]
pub fn applied(isolation: Isolation, found: &Found, cgroup: Option<String>) -> Vec<Applied> {
    let off = (isolation == Isolation::None).then(|| "switched off by `--isolation none`".to_owned());
    vec![
        Applied { what: "namespaces", missing: off.clone().or_else(|| found.namespaces.clone()) },
        Applied { what: "landlock", missing: off.or_else(|| found.landlock.clone()) },
        Applied {
            what: "cpu limits",
            missing: cgroup.as_ref().map(|why| format!("only control groups can hold them: {why}")),
        },
        Applied {
            what: "memory and process limits by the kernel",
            missing: cgroup.map(|why| format!("a watchdog looks after them instead: {why}")),
        },
    ]
}

/// Why containers cannot have namespaces here; `None` when they can. `program` must call [`crate::run_hidden_command`].
#[must_use]
pub fn namespaces_missing(program: &Path) -> Option<String> {
    ask(program).namespaces
}

/// The child.
pub fn main(_: &Path) -> ExitCode {
    let found = Found { namespaces: try_namespaces().err(), landlock: try_landlock().err() };
    match serde_json::to_writer(std::io::stdout(), &found) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_namespaces() -> Result<(), String> {
    namespaces::separate_processes()
        .and_then(|_| namespaces::separate_the_rest("probe"))
        .map_err(|error| format!("this machine does not allow them: {error}"))
}

fn try_landlock() -> Result<(), String> {
    confine::no_new_privileges().map_err(|error| error.to_string())?;
    confine::write_only_below(std::iter::empty())
}
