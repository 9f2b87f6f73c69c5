//! The port between the local node and whatever runs containers: processes, or a container engine.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::time::Time;
use serde::{Deserialize, Serialize};

use crate::launch::Launch;
use crate::layout::Id;

/// How a run goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Its supervisor is getting ready.
    Starting,
    /// The command runs.
    Running {
        /// Since when.
        since: Time,
    },
    /// It is over.
    Ended(Ended),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When it began, in microseconds since 1970; absent when it never ran.
    pub since_micros: Option<i64>,
    /// When it ended.
    pub until_micros: i64,
    /// Exit code; 128 + n for a signal n, 128 when it could not be started.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Why.
    pub why: Why,
    /// Last words, or what went wrong; at most 4096 bytes.
    pub message: String,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Why {
    /// By itself, or by a signal somebody sent.
    Exited,
    /// It took more memory than it may.
    OutOfMemory,
    /// It had more processes than it may, and was ended for that.
    TooManyProcesses,
    /// The command could not be started; the message says why.
    NotStarted,
    /// The image could not be pulled; the message says why.
    ImageNotPulled,
    /// The image is not on this machine, and may not be pulled.
    ImageAbsent,
    /// Nobody knows: supervisor and processes are gone and nothing was written down.
    Lost,
}

/// What a run uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The CPU time of all its processes since it began.
    pub cpu: Duration,
    /// The memory that it holds and that cannot be reclaimed at once (its working set).
    pub memory_bytes: u64,
}

/// A command started beside a container, in its namespaces.
pub struct Exec {
    /// Its input, if it was asked for.
    pub stdin: Option<File>,
    /// Its output; with a terminal everything comes here.
    pub stdout: Option<File>,
    /// Its errors; none with a terminal.
    pub stderr: Option<File>,
    /// Waits, resizes and ends it.
    pub process: Box<dyn ExecProcess>,
}

/// The process of an [`Exec`].
pub trait ExecProcess: Send {
    /// Waits for the end; the exit code, 128 + n for a signal n.
    ///
    /// # Errors
    /// What the system said.
    fn wait(&mut self) -> io::Result<i32>;

    /// Ends it and all its descendants, if it still runs. May be called from another thread through a clone made
    /// before.
    fn killer(&self) -> Box<dyn Fn() + Send + Sync>;

    /// Tells its terminal how large it is; nothing without a terminal.
    fn resizer(&self) -> Box<dyn Fn(u16, u16) + Send + Sync>;
}

/// What to run beside a container.
#[derive(Debug, Clone, Default)]
pub struct ExecOptions {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Whether it has an input.
    pub stdin: bool,
    /// Whether it has a terminal.
    pub tty: bool,
}

/// The live ends of a running container. Its output is read from the log, from its end on.
pub struct Attached {
    /// Its input, if it has one.
    pub stdin: Option<File>,
    /// Tells its terminal how large it is; nothing without a terminal.
    pub resize: Box<dyn Fn(u16, u16) + Send + Sync>,
}

/// What this machine gives, for people: what is applied, and what is not and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// E.g. `namespaces`, `cgroup v2`, `landlock`.
    pub what: &'static str,
    /// `None` when it is applied; else why not.
    pub missing: Option<String>,
}

/// Runs containers. All methods return quickly; what changes is told by the bell that an implementation is made with.
pub trait Containers: Send + Sync {
    /// Begins a run. Its folder must not be there yet: one that is there was begun before.
    ///
    /// # Errors
    /// Nothing was begun; in words for the pod's status.
    fn start(&self, launch: &Launch) -> Result<(), String>;

    /// How a run goes; `None` when it was never begun.
    fn state(&self, id: &Id) -> Option<State>;

    /// All runs there are, those of earlier servers included.
    fn all(&self) -> Vec<Id>;

    /// Sends a signal to the container's first process. Gone is fine.
    fn signal(&self, id: &Id, signal: i32);

    /// Ends all processes of a run at once. Gone is fine.
    fn kill(&self, id: &Id);

    /// Removes the folder of a pod none of whose runs is alive.
    ///
    /// # Errors
    /// What the system said; may be tried again.
    fn remove(&self, pod: &str) -> io::Result<()>;

    /// Removes the folder of a run that ended: the log of the one before the last is not kept.
    ///
    /// # Errors
    /// What the system said.
    fn forget(&self, id: &Id) -> io::Result<()>;

    /// Runs a command beside a running container.
    ///
    /// # Errors
    /// In words: it does not run, or the command cannot be found.
    fn exec(&self, id: &Id, options: &ExecOptions) -> Result<Exec, String>;

    /// The live ends of a running container; its input only if it is wanted: whoever takes it may end it.
    ///
    /// # Errors
    /// In words: it does not run.
    fn attach(&self, id: &Id, stdin: bool) -> Result<Attached, String>;

    /// The folder of a run's log.
    fn log(&self, id: &Id) -> PathBuf;

    /// What a run uses; `None` when it does not run, or where that is not measured.
    fn usage(&self, _id: &Id) -> Option<Usage> {
        None
    }

    /// What this machine gives.
    fn applied(&self) -> Vec<Applied>;
}

/// Rung when the state of a run has changed. Called from any thread.
pub type Bell = Box<dyn Fn(&Id) + Send + Sync>;
