//! The files of one run's folder, and how they are written.
//!
//! | file | who writes it | what it means |
//! |---|---|---|
//! | `orders.json` | server | what to run; there before the supervisor is |
//! | `starting` | supervisor holds a lock on it | until the command runs or cannot |
//! | `alive` | supervisor holds a lock on it | until the supervisor is gone |
//! | `supervisor.json` | supervisor | it listens to signals from now on |
//! | `running.json` | supervisor | since when the command runs, and under which first process |
//! | `beside` | commands beside it | there were such: look for processes elsewhere, too |
//! | `kill` | server | somebody wants it ended, also before it listens |
//! | `ended.json` | supervisor | how it ended; the last thing it writes |
//! | `log/` | supervisor | output, see [`crate::logs`] |
//! | `stdin`, `size` | pipes with names | input, and the terminal's size as `COLUMNS ROWS` lines |
//! | `engine.log` | container engine | what it said when it made the container |
//! | `root`, `tmp`, `message` | server | where the view is built; its `/tmp`; its last words |

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::launch::Launch;
use crate::layout::{Id, Layout};
use crate::logs::Bounds;
use crate::port::Ended;

/// See the table above.
pub const ORDERS: &str = "orders.json";
/// See the table above.
pub const STARTING: &str = "starting";
/// See the table above.
pub const ALIVE: &str = "alive";
/// See the table above.
pub const SUPERVISOR: &str = "supervisor.json";
/// See the table above.
pub const RUNNING: &str = "running.json";
/// See the table above.
pub const KILL: &str = "kill";
/// See the table above.
pub const ENDED: &str = "ended.json";
/// Space set aside for the end, so that a full disk does not keep it from being written down.
pub const ENDED_SPACE: &str = "ended.space";
/// See the table above.
pub const LOG: &str = "log";
/// See the table above.
pub const STDIN: &str = "stdin";
/// See the table above.
pub const SIZE: &str = "size";
/// See the table above.
pub const ROOT: &str = "root";
/// See the table above.
pub const TMP: &str = "tmp";
/// See the table above.
pub const MESSAGE: &str = "message";
/// See the table above.
pub const BESIDE: &str = "beside";
/// What a container engine said when it made the container.
pub const ENGINE: &str = "engine.log";
/// What the supervisor itself has to complain about.
pub const COMPLAINTS: &str = "supervisor.log";

/// Room for the end: a message of 4096 bytes whose every byte is escaped, and the rest.
const ENDED_SPACE_BYTES: usize = 32 * 1024;

/// All that a supervisor is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    /// What to run.
    pub launch: Launch,
    /// The server's `PATH`, for containers that have none.
    pub path: String,
    /// The server's `HOME`, for containers that have none.
    pub home: String,
    /// The folder of the control group in which the container gets a leaf, if this machine delegates one.
    pub cgroup: Option<PathBuf>,
    /// How much log is kept.
    pub log: Bounds,
    /// The process with which the container ends, however that ends: nobody would find it again.
    pub passing: Option<i32>,
    /// The container engine that runs it, if one does.
    #[serde(default)]
    pub engine: Option<Engine>,
}

/// A process that can be told from a later one with the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its number on this machine.
    pub pid: i32,
    /// When it started, in ticks since boot.
    pub ticks: u64,
    /// Which boot.
    pub boot: String,
}

/// The command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Since when, in microseconds since 1970.
    pub since_micros: i64,
    /// The first process of the container; its end is the end of all.
    pub first: Known,
    /// What was asked for and could not be applied.
    pub missing: Vec<String>,
}

/// Reads a file of a run; `None` when it is not there or not whole.
#[must_use]
pub fn read<T: DeserializeOwned>(dir: &Path, name: &str) -> Option<T> {
    serde_json::from_slice(&fs::read(dir.join(name)).ok()?).ok()
}

/// Writes a file of a run so that it is either there and whole or not there.
///
/// # Errors
/// What the system said.
pub fn write<T: Serialize>(dir: &Path, name: &str, value: &T) -> io::Result<()> {
    let new = dir.join(format!("{name}.new"));
    fs::write(&new, serde_json::to_vec(value)?)?;
    fs::rename(new, dir.join(name))
}

/// Sets space aside for the end.
///
/// # Errors
/// What the system said.
pub fn set_space_aside(dir: &Path) -> io::Result<()> {
    fs::write(dir.join(ENDED_SPACE), vec![b' '; ENDED_SPACE_BYTES])
}

/// Writes the end down, in the space that was set aside for it: the text is followed by blanks.
///
/// # Errors
/// What the system said.
pub fn write_end(dir: &Path, ended: &Ended) -> io::Result<()> {
    let space = dir.join(ENDED_SPACE);
    let mut file = File::options().write(true).create(true).truncate(false).open(&space)?;
    file.write_all(&serde_json::to_vec(ended)?)?;
    file.sync_data()?;
    drop(file);
    fs::rename(space, dir.join(ENDED))
}

/// What to tell of a run whose supervisor is gone and has written no end down.
#[must_use]
pub fn lost_message(dir: &Path) -> String {
    let complaints = fs::read_to_string(dir.join(COMPLAINTS)).unwrap_or_default();
    format!("the container's supervisor ended without telling how the container did {complaints}")
        .trim_end()
        .to_owned()
}

/// All runs that have a folder.
///
/// # Errors
/// What the system said.
pub fn begun(layout: &Layout) -> io::Result<Vec<Id>> {
    let mut all = Vec::new();
    for pod in names(layout.root())? {
        for container in names(&layout.pod(&pod).join("containers"))? {
            for attempt in names(&layout.container(&pod, &container))? {
                if let Ok(attempt) = attempt.parse() {
                    all.push(Id { pod: pod.clone(), container: container.clone(), attempt });
                }
            }
        }
    }
    Ok(all)
}

/// The names in a folder; none when it is not there.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        other => other?,
    };
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// Blocks until nobody else holds the lock.
pub fn wait_for_lock(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = file.lock();
    }
}

/// A new file, locked by us.
///
/// # Errors
/// What the system said.
pub fn locked(path: &Path) -> io::Result<File> {
    let file = File::create(path)?;
    file.lock()?;
    Ok(file)
}

/// What is made.
#[derive(Clone, Copy)]
pub enum Made {
    /// A folder.
    Folder,
    /// An empty file.
    File,
}

/// Makes something that every user of the container may write to, whatever mask the server has.
///
/// # Errors
/// What the system said.
pub fn open_to_all(path: &Path, made: Made) -> io::Result<()> {
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

/// A pipe with a name.
///
/// # Errors
/// What the system said.
pub fn make_pipe(path: &Path) -> io::Result<()> {
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

/// Opens a named pipe for writing; an error when nobody reads it.
///
/// # Errors
/// What the system said.
pub fn open_pipe(path: &Path) -> io::Result<File> {
    let file = File::options().write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}
