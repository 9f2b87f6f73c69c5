//! The container runtime interface, as CRI is for a kubelet.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use muster_api::time::Time;
use serde::{Deserialize, Serialize};

use crate::container_config::ContainerConfig;
use crate::pod_dirs::RunId;

/// State of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunState {
    /// The supervisor sets up the container.
    Starting,
    Running {
        since: Time,
    },
    Exited(ExitRecord),
}

/// How a run exited. Written to `ended.json`: field names are a file format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitRecord {
    /// Start of the command, in microseconds since 1970; absent if it never started.
    pub since_micros: Option<i64>,
    pub until_micros: i64,
    /// Exit code: 128 + n for signal n, 128 if the command could not be started.
    pub code: i32,
    pub signal: Option<i32>,
    pub why: ExitReason,
    /// Termination message, or the error; at most 4096 bytes.
    pub message: String,
}

/// Why a run exited. Part of `ended.json`: variant names are a file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExitReason {
    /// The command exited, or was killed by a signal.
    Exited,
    /// Killed for exceeding its memory limit.
    OutOfMemory,
    /// Killed for exceeding the process limit.
    TooManyProcesses,
    /// The command could not be started; see the message.
    NotStarted,
    /// The image could not be pulled; see the message.
    ImageNotPulled,
    /// `imagePullPolicy: Never`, and the image is absent.
    ImageAbsent,
    /// Unknown: the supervisor was killed before it wrote an exit record.
    Lost,
}

/// Resource usage of a run or of the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// CPU time of all processes since the start.
    pub cpu: Duration,
    /// Working set: memory in use without reclaimable cache.
    pub memory_bytes: u64,
}

/// A command that runs in the namespaces of a container (`kubectl exec`).
pub struct ExecSession {
    pub stdin: Option<File>,
    /// Stdout; with a terminal also stderr.
    pub stdout: Option<File>,
    /// Stderr; `None` with a terminal.
    pub stderr: Option<File>,
    /// Waits, resizes and kills.
    pub process: Box<dyn ExecProcess>,
}

/// The process of an [`ExecSession`].
pub trait ExecProcess: Send {
    /// Waits for the exit code: 128 + n for signal n.
    fn wait(&mut self) -> io::Result<i32>;

    /// A function that kills the command and its descendants, callable from another thread while `wait` blocks.
    fn killer(&self) -> Box<dyn Fn() + Send + Sync>;

    /// A function that sets the terminal size (columns, rows); no effect without a terminal.
    fn resizer(&self) -> Box<dyn Fn(u16, u16) + Send + Sync>;
}

/// Options of an exec.
#[derive(Debug, Clone, Default)]
pub struct ExecOptions {
    pub argv: Vec<String>,
    /// Whether stdin is attached.
    pub stdin: bool,
    /// Whether a terminal is allocated.
    pub tty: bool,
}

/// Stdin and terminal of a running container (`kubectl attach`). Output is read from the end of the log.
pub struct AttachSession {
    /// Stdin, if the container has it.
    pub stdin: Option<File>,
    /// A function that sets the terminal size (columns, rows); no effect without a terminal.
    pub resize: Box<dyn Fn(u16, u16) + Send + Sync>,
}

/// An isolation feature of the host, and why it is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsolationFeature {
    /// E.g. `namespaces`, `cgroup v2`, `landlock`.
    pub name: &'static str,
    /// `None` if it is available, else the reason.
    pub missing: Option<String>,
}

/// Runs containers. Methods do not block; state changes are reported through [`OnStateChange`].
pub trait ContainerRuntime: Send + Sync {
    /// Starts a run. Fails if its directory exists: that run was started before.
    ///
    /// # Errors
    /// Nothing was started; the message is for the pod status.
    fn start(&self, launch: &ContainerConfig) -> Result<(), String>;

    /// State of a run; `None` if it was never started.
    fn state(&self, id: &RunId) -> Option<RunState>;

    /// All runs, including those started by earlier servers.
    fn list_runs(&self) -> Vec<RunId>;

    /// Sends a signal to the container's main process; ignored if it has exited.
    fn signal(&self, id: &RunId, signal: i32);

    /// Kills all processes of a run; ignored if it has exited.
    fn kill(&self, id: &RunId);

    /// Removes the directory of a pod without active runs.
    fn remove_pod(&self, pod: &str) -> io::Result<()>;

    /// Removes the directory and log of an exited run.
    fn remove_run(&self, id: &RunId) -> io::Result<()>;

    /// Runs a command in a running container.
    ///
    /// # Errors
    /// The container is not running, or the command is not found.
    fn exec(&self, id: &RunId, options: &ExecOptions) -> Result<ExecSession, String>;

    /// Attaches to a running container. Stdin only if requested: its first client may close it (`stdinOnce`).
    ///
    /// # Errors
    /// The container is not running.
    fn attach(&self, id: &RunId, stdin: bool) -> Result<AttachSession, String>;

    /// The log directory of a run.
    fn log_dir(&self, id: &RunId) -> PathBuf;

    /// Resource usage of a run; `None` if it is not running or usage is not measured.
    fn usage(&self, _id: &RunId) -> Option<ContainerUsage> {
        None
    }

    /// Isolation features of the host, for `muster node` and logs.
    fn isolation_features(&self) -> Vec<IsolationFeature>;
}

/// Called from any thread after the state of a run has changed.
pub type OnStateChange = Box<dyn Fn(&RunId) + Send + Sync>;
