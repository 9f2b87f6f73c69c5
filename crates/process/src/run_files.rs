//! The files of a run directory. They are the protocol between server and supervisor and survive an upgrade of the
//! server.
//!
//! | file | written by | meaning |
//! |---|---|---|
//! | `orders.json` | server | config of the run; exists before the supervisor |
//! | `starting` | locked by the supervisor | until the command has started or failed to |
//! | `alive` | locked by the supervisor | until the supervisor exits |
//! | `supervisor.json` | supervisor | it handles signals from now on |
//! | `running.json` | supervisor | start time and init process |
//! | `beside` | exec process | an exec happened: not all processes descend from init |
//! | `kill` | server | kill request, also before the supervisor handles signals |
//! | `ended.json` | supervisor | exit record; its last write |
//! | `log/` | supervisor | log, see [`crate::logs`] |
//! | `stdin`, `size` | server | FIFOs: stdin, and terminal sizes as `COLUMNS ROWS` lines |
//! | `engine.log` | container engine | output of pull and create |
//! | `root`, `tmp`, `message` | server | rootfs mount point; `/tmp`; termination message |

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::container_config::ContainerConfig;
use crate::engine::ContainerEngine;
use crate::logs::LogRotation;
use crate::pod_dirs::{PodDirs, RunId};
use crate::runtime::ExitRecord;

pub const CONFIG: &str = "orders.json";
pub const STARTING: &str = "starting";
pub const ALIVE: &str = "alive";
pub const SUPERVISOR: &str = "supervisor.json";
pub const RUNNING: &str = "running.json";
pub const KILL: &str = "kill";
pub const EXIT_RECORD: &str = "ended.json";
/// Preallocated space of the exit record, so that it can be written to a full disk.
pub const EXIT_RECORD_RESERVE: &str = "ended.space";
pub const LOG: &str = "log";
pub const STDIN: &str = "stdin";
pub const TERMINAL_SIZE: &str = "size";
pub const ROOT: &str = "root";
pub const TMP: &str = "tmp";
pub const MESSAGE: &str = "message";
pub const EXEC_MARKER: &str = "beside";
/// Output of the container engine for pull and create.
pub const ENGINE: &str = "engine.log";
/// Stderr of the supervisor.
pub const SUPERVISOR_LOG: &str = "supervisor.log";

/// Size of an exit record: a message of 4096 bytes, all escaped, and the other fields.
const ENDED_SPACE_BYTES: usize = 32 * 1024;

/// The config of a supervisor. Stored as `orders.json`: field names are a file format.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SupervisorConfig {
    pub launch: ContainerConfig,
    /// The server's `PATH`, the default of containers.
    pub path: String,
    /// The server's `HOME`, the default of containers.
    pub home: String,
    /// The cgroup directory in which the container gets a child cgroup, if one is delegated.
    pub cgroup: Option<PathBuf>,
    pub log: LogRotation,
    /// PID of the server that the run must not outlive, if any.
    pub passing: Option<i32>,
    /// The container engine that runs it, if any.
    #[serde(default)]
    pub engine: Option<ContainerEngine>,
}

/// A process identity that is safe against PID reuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// PID on the host.
    pub pid: i32,
    /// Start time, in ticks since boot.
    pub ticks: u64,
    pub boot: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningRecord {
    /// Start time, in microseconds since 1970.
    pub since_micros: i64,
    /// The init process; its exit ends the container.
    pub first: ProcessIdentity,
    /// Isolation features that could not be applied.
    pub missing: Vec<String>,
}

/// Reads a file of a run; `None` if it is missing or incomplete.
#[must_use]
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> Option<T> {
    serde_json::from_slice(&fs::read(dir.join(name)).ok()?).ok()
}

/// Writes a file of a run atomically, by rename.
pub fn write<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    fs::write(&new, serde_json::to_vec(value)?)?;
    fs::rename(new, dir.join(name))
}

/// Preallocates the exit record.
pub fn reserve_exit_record(dir: &Path) -> io::Result<()> {
    fs::write(dir.join(EXIT_RECORD_RESERVE), vec![b' '; ENDED_SPACE_BYTES])
}

/// Writes the exit record into the preallocated file; blanks follow the JSON.
pub fn write_exit_record(dir: &Path, ended: &ExitRecord) -> io::Result<()> {
    let space = dir.join(EXIT_RECORD_RESERVE);
    let mut file = File::options().write(true).create(true).truncate(false).open(&space)?;
    file.write_all(&serde_json::to_vec(ended)?)?;
    // Durable before the rename: after a power failure the record is complete or absent.
    file.sync_data()?;
    drop(file);
    fs::rename(space, dir.join(EXIT_RECORD))
}

/// Message of a run that lost its supervisor before an exit record was written.
#[must_use]
pub fn lost_run_message(dir: &Path) -> String {
    let complaints = fs::read_to_string(dir.join(SUPERVISOR_LOG)).unwrap_or_default();
    format!("the container's supervisor ended without telling how the container did {complaints}")
        .trim_end()
        .to_owned()
}

/// All runs with a directory.
pub fn begun(layout: &PodDirs) -> io::Result<Vec<RunId>> {
    let mut all = Vec::new();
    for pod in names(layout.root())? {
        for container in names(&layout.pod(&pod).join("containers"))? {
            for attempt in names(&layout.container(&pod, &container))? {
                if let Ok(attempt) = attempt.parse() {
                    all.push(RunId { pod: pod.clone(), container: container.clone(), attempt });
                }
            }
        }
    }
    Ok(all)
}

/// The names in a directory; none if it is missing.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        other => other?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Blocks until the lock is free.
pub fn wait_for_lock(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = file.lock();
    }
}

/// Creates a file and locks it.
pub fn locked(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    file.lock()?;
    Ok(file)
}

#[derive(Clone, Copy)]
pub enum Made {
    Folder,
    File,
}

/// Creates an entry that every user of the container may write to, whatever the server's umask.
pub fn create_world_writable(path: &Path, made: Made) -> io::Result<()> {
    let mode = match made {
        Made::Folder => {
            fs::create_dir(path)?;
            0o1777
        }
        Made::File => {
            File::create(path)?;
            0o666
        }
    };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

pub fn create_fifo(path: &Path) -> io::Result<()> {
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

/// Opens a FIFO for writing; fails if it has no reader.
pub fn open_fifo_for_write(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}
