//! The config of a container run: plain data, stored in the run directory for the supervisor.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::pod_dirs::RunId;

/// The complete config of one run. Stored as JSON: field names are a file format that outlives an upgrade of the
/// server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerConfig {
    pub id: RunId,
    /// `namespace/name` of the pod, shown in the process table.
    pub pod_name: String,
    /// The image; used by container engines only.
    pub image: String,
    /// Program and arguments; empty only if the image has an entrypoint.
    pub argv: Vec<String>,
    /// Whether the image's entrypoint runs and `argv` has only arguments; needs a container engine.
    #[serde(default)]
    pub image_program: bool,
    /// Whether an engine may pull the image.
    #[serde(default)]
    pub pull: ImagePullPolicy,
    /// The complete environment; the supervisor adds only `PATH` and `HOME` if missing.
    pub env: Vec<(String, String)>,
    /// Working directory; if absent, `/` or, without namespaces, the pod directory.
    pub dir: Option<PathBuf>,
    /// Mounts, parents before children.
    pub mounts: Vec<Mount>,
    /// The pod's hosts file, mounted at `/etc/hosts`.
    pub hosts: PathBuf,
    /// Hostname of the UTS namespace.
    pub hostname: String,
    /// `stdin`: whether stdin can be attached.
    pub stdin: bool,
    /// `stdinOnce`: whether stdin is closed when its first client detaches.
    pub stdin_once: bool,
    /// Whether it has a terminal.
    pub tty: bool,
    pub user: RunAs,
    pub limits: ResourceLimits,
    /// `readOnlyRootFilesystem` of the security context.
    pub read_only_root: bool,
    /// `terminationMessagePath`, absolute, inside the container.
    pub message_path: PathBuf,
    /// Whether `terminationMessagePolicy` is FallbackToLogsOnError.
    pub message_from_log: bool,
    /// Isolation from the host.
    pub isolation: Isolation,
}

/// Whether an engine pulls the image. `Always` counts as `Missing`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImagePullPolicy {
    /// Pull if it is absent.
    #[default]
    Missing,
    Never,
}

/// A bind mount of a directory or file of the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    pub source: PathBuf,
    /// Absolute path in the container.
    pub target: PathBuf,
    /// Whether it is mounted read-only.
    pub read_only: bool,
}

/// User and groups of a container; absent fields are those of the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAs {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub groups: Vec<u32>,
}

/// Resource limits of a container; absent means unlimited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Thousandths of a core (`limits.cpu`).
    pub cpu_millis: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Processes and threads; always limited.
    pub processes: u32,
}

/// Isolation of containers from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Isolation {
    /// Own user, mount, PID, UTS and IPC namespaces.
    Namespaces,
    /// A process group only; volumes are symlinks below `MUSTER_POD_ROOT`.
    None,
}
