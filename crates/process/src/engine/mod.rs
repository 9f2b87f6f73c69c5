//! Containers by a container engine (docker, podman), under the same supervisors as processes.
//!
//! The orders of a run may name an engine. Its first process then has the engine make the container, starts it in the
//! foreground ([`life`]) and ends with it, so that logs, ends, adoption and folders are what they are for processes. What
//! the engine is told is [`argv`]; who asks it something short is [`ask`].
//!
//! # Invariants
//!
//! - The name of a container follows from its run ([`name`]): whoever finds the folder finds the container.
//! - A container is removed by its first process; by its supervisor when that is gone; by the next server when both are.
//! - The engine has the server's environment (`DOCKER_HOST`, `XDG_RUNTIME_DIR`, …), the container nothing of it.
//!
//! # Deliberately absent
//!
//! Namespaces, limits and views of our own: they are the engine's. A command beside a container that is given up lives on
//! in it: engines end their client only. Credentials of registries: the engine has them, or has not.

pub mod argv;
mod ask;
pub mod life;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::layout::Id;

/// How long an engine may take to say who it is.
const VERSION_WITHIN: Duration = Duration::from_secs(30);
/// How long an engine may take for something short.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// A container engine of this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// docker.
    Docker,
    /// podman.
    Podman,
}

/// How a container does, as its engine tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Whether it runs.
    pub runs: bool,
    /// Whether it ever ran.
    pub ran: bool,
    /// Whether the kernel ended it for its memory.
    pub out_of_memory: bool,
}

/// The name of a run's container.
#[must_use]
pub fn name(id: &Id) -> String {
    format!("muster-{}-{}-{}", id.pod, id.container, id.attempt)
}

impl Engine {
    /// The program to call.
    #[must_use]
    pub fn program(self) -> &'static str {
        match self {
            Engine::Docker => "docker",
            Engine::Podman => "podman",
        }
    }

    /// Its version.
    ///
    /// # Errors
    /// It does not answer: who was asked, what it said, what to do.
    pub fn version(self) -> Result<String, String> {
        let args = ["version", "--format", "{{.Server.Version}}"].map(String::from);
        let program = self.program();
        ask::ask(self, &args, VERSION_WITHIN).map(|text| text.trim().to_owned()).map_err(|said| {
            format!(
                "`{program} {}` was asked and does not answer: {said}\n\nhint: start {program}, or use \
                 `--runtime process`, which runs commands with the programs of this machine",
                args[0]
            )
        })
    }

    /// Whether an image is on this machine.
    #[must_use]
    pub fn has_image(self, image: &str) -> bool {
        ask::ask(self, &argv::inspect_image(image), ANSWER_WITHIN).is_ok()
    }

    /// How a container does; `None` when there is none.
    #[must_use]
    pub fn look(self, name: &str) -> Option<Seen> {
        ask::ask(self, &argv::inspect(name), ANSWER_WITHIN).ok().and_then(|text| argv::seen(&text))
    }

    /// Sends a signal to the first process of a container; whether there was one to send it to.
    pub fn signal(self, name: &str, signal: i32) -> bool {
        ask::ask(self, &argv::kill(name, signal), ANSWER_WITHIN).is_ok()
    }

    /// Ends a container, if it runs, and removes it. Gone is fine.
    pub fn remove(self, name: &str) {
        self.signal(name, crate::system::signals::KILL);
        let _ = ask::ask(self, &argv::remove(name), ANSWER_WITHIN);
    }
}
