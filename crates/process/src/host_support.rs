//! Detects the isolation features of the host in a child process, since unshare and Landlock cannot be undone.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::container_config::Isolation;
use crate::runtime::IsolationFeature;
use crate::subcommands;
use crate::system::{confine, namespaces};

/// Why a feature is unavailable; `None` if it works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSupport {
    pub namespaces: Option<String>,
    pub landlock: Option<String>,
}

#[must_use]
pub fn detect(program: &Path) -> HostSupport {
    let failed = |why: String| HostSupport { namespaces: Some(why.clone()), landlock: Some(why) };
    let output = Command::new(program)
        .arg(subcommands::PROBE)
        .arg("/")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) => {
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| failed("cannot be tried".to_owned()))
        }
        Err(error) => failed(format!("cannot be tried: {error}")),
    }
}

/// The features of the host; `cgroup` is the reason why cgroups are unavailable.
#[must_use]
pub fn isolation_features(
    isolation: Isolation,
    found: &HostSupport,
    cgroup: Option<String>,
) -> Vec<IsolationFeature> {
    let off = (isolation == Isolation::None).then(|| "switched off by `--isolation none`".to_owned());
    vec![
        IsolationFeature { name: "namespaces", missing: off.clone().or_else(|| found.namespaces.clone()) },
        IsolationFeature { name: "landlock", missing: off.or_else(|| found.landlock.clone()) },
        IsolationFeature {
            name: "cpu limits",
            missing: cgroup.as_ref().map(|why| format!("only control groups can hold them: {why}")),
        },
        IsolationFeature {
            name: "memory and process limits by the kernel",
            missing: cgroup.map(|why| format!("a watchdog looks after them instead: {why}")),
        },
    ]
}

/// Why namespaces are unavailable; `None` if they work. `program` must call [`crate::run_hidden_command`].
#[must_use]
pub fn namespaces_missing(program: &Path) -> Option<String> {
    detect(program).namespaces
}

pub fn main(_: &Path) -> ExitCode {
    let found = HostSupport { namespaces: try_namespaces().err(), landlock: try_landlock().err() };
    match serde_json::to_writer(std::io::stdout(), &found) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn try_namespaces() -> Result<(), String> {
    namespaces::unshare_pid()
        .and_then(|_| namespaces::unshare_mount_uts_ipc("probe"))
        .map_err(|error| format!("this machine does not allow them: {error}"))
}

fn try_landlock() -> Result<(), String> {
    confine::no_new_privileges().map_err(|error| error.to_string())?;
    confine::restrict_writes_to(std::iter::empty())
}
