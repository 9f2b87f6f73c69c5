//! What to run: plain data, written to the run's folder for its supervisor.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::layout::Id;

/// One run of one container, with nothing left to look up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Which run.
    pub id: Id,
    /// `namespace/name` of the pod, for people who look at the process table.
    pub pod_name: String,
    /// The image: only a name here; container engines run it.
    pub image: String,
    /// Program and arguments; never empty, unless the program is the image's.
    pub argv: Vec<String>,
    /// Whether the program is the image's own, and `argv` has only its arguments: an engine can run such.
    #[serde(default)]
    pub image_program: bool,
    /// Whether an engine may fetch the image.
    #[serde(default)]
    pub pull: Pull,
    /// The whole environment; nothing of the server's own is added but `PATH` and, where absent, `HOME`.
    pub env: Vec<(String, String)>,
    /// Where it starts; `/` or, without isolation, the pod's folder when absent.
    pub dir: Option<PathBuf>,
    /// What stands where; parents before children.
    pub mounts: Vec<Mount>,
    /// The pod's hosts file; stands at `/etc/hosts`.
    pub hosts: PathBuf,
    /// The pod's host name.
    pub hostname: String,
    /// Whether the container has an input that can be attached to.
    pub stdin: bool,
    /// Whether that input ends with the first who leaves it.
    pub stdin_once: bool,
    /// Whether it has a terminal.
    pub tty: bool,
    /// Who it runs as.
    pub user: Identity,
    /// What it may use at most.
    pub limits: Limits,
    /// Whether the root of the file system is read-only, apart from the mounts.
    pub read_only_root: bool,
    /// Where the container leaves its last words (an absolute path inside).
    pub message_path: PathBuf,
    /// Whether the end of the log stands in for missing last words of a container that failed.
    pub message_from_log: bool,
    /// How it is kept apart.
    pub isolation: Isolation,
}

/// Whether an image may be fetched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pull {
    /// When it is not here.
    #[default]
    Missing,
    /// Never.
    Never,
}

/// A folder or file of this machine that stands at a path of the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// On this machine.
    pub source: PathBuf,
    /// In the container; absolute.
    pub target: PathBuf,
    /// Whether it can only be read.
    pub read_only: bool,
}

/// Who a container runs as. Absent: as the server does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// User number.
    pub uid: Option<u32>,
    /// Group number.
    pub gid: Option<u32>,
    /// Further groups.
    pub groups: Vec<u32>,
}

/// What a container may use at most. Absent: no limit but the machine's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bytes.
    pub memory_bytes: Option<u64>,
    /// Processes and threads; there is always a bound.
    pub processes: u32,
}

/// How containers are kept apart from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// Own user, mount, process, host-name and IPC namespaces.
    Namespaces,
    /// A process group, and paths below `MUSTER_POD_ROOT`.
    None,
}
