//! Containers run by a container engine (docker, podman) under the same supervisors as host processes.
//!
//! The init process of such a run creates the container through the engine, starts it in the foreground
//! ([`lifecycle`]) and exits with it, so that logs, exit records, adoption and directories work as for host
//! processes. [`argv`] builds the engine's command lines, [`cli`] runs short ones.
//!
//! # Guarantees
//!
//! - The container name is derived from the run ([`container_name`]), so it can be found from the run directory.
//! - A container is removed by its init process; by its supervisor if init is gone; by the next server if both are.
//! - The engine client inherits the server's environment (`DOCKER_HOST`, `XDG_RUNTIME_DIR`, …), the container does
//!   not.
//!
//! # Deliberately absent
//!
//! Own namespaces, limits and rootfs: those are the engine's. A cancelled exec keeps running in the container, since
//! engines only stop their client. Registry credentials are the engine's.

pub mod argv;
mod cli;
pub mod lifecycle;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pod_dirs::RunId;

/// Timeout of the version query.
const VERSION_WITHIN: Duration = Duration::from_secs(30);
/// Timeout of a short engine command.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A container engine installed on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerEngine {
    Docker,
    Podman,
}

/// Container state as inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineContainerState {
    pub runs: bool,
    /// Whether it ever ran.
    pub ran: bool,
    /// Whether it was OOM killed.
    pub out_of_memory: bool,
}

/// The container name of a run.
#[must_use]
pub fn container_name(id: &RunId) -> String {
    format!("muster-{}-{}-{}", id.pod, id.container, id.attempt)
}

impl ContainerEngine {
    /// The program to call.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            ContainerEngine::Docker => "docker",
            ContainerEngine::Podman => "podman",
        }
    }

    /// Its version.
    ///
    /// # Errors
    /// The engine does not answer: names the command, its error and a remedy.
    pub fn version(self) -> Result<String, String> {
        let args = ["version", "--format", "{{.Server.Version}}"].map(String::from);
        let program = self.program();
        cli::ask(self, &args, VERSION_WITHIN).map(|text| text.trim().to_owned()).map_err(|said| {
            format!(
                "`{program} {}` was asked and does not answer: {said}\n\nhint: start {program}, or use \
                 `--runtime process`, which runs commands with the programs of this machine",
                args[0]
            )
        })
    }

    /// Whether the image is present.
    #[must_use]
    pub fn has_image(self, image: &str) -> bool {
        cli::ask(self, &argv::inspect_image(image), ANSWER_WITHIN).is_ok()
    }

    /// Inspects a container; `None` if there is none.
    #[must_use]
    pub fn look(self, name: &str) -> Option<EngineContainerState> {
        cli::ask(self, &argv::inspect(name), ANSWER_WITHIN).ok().and_then(|text| argv::parse_inspect(&text))
    }

    /// Sends a signal to the main process; returns whether the container was running.
    pub fn signal(self, name: &str, signal: i32) -> bool {
        cli::ask(self, &argv::kill(name, signal), ANSWER_WITHIN).is_ok()
    }

    /// Kills and removes a container; a missing one is not an error.
    pub fn remove(self, name: &str) {
        self.signal(name, crate::system::signals::KILL);
        let _ = cli::ask(self, &argv::remove(name), ANSWER_WITHIN);
    }
}
