//! The store's bounds, and why it may refuse to open.

use std::path::PathBuf;
use std::time::Duration;

/// The most bytes all history rings may hold together.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;
/// How long a change stays in the history.
pub const HISTORY_AGE_MAX: Duration = Duration::from_secs(300);
/// A ring never drops its newest entries below this many.
pub const HISTORY_ENTRIES_MIN: usize = 200;
/// The most bytes on disk before only deletes are taken.
pub const STORE_BYTES_MAX: u64 = 2 << 30;
/// The log may always grow to this size before a snapshot is begun.
pub const LOG_BYTES_MIN: u64 = 32 << 20;

/// The bounds of one store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// The most bytes all history rings may hold together.
    pub history_bytes_max: usize,
    /// How long a change stays in the history.
    pub history_age_max: Duration,
    /// A ring never drops its newest entries below this many.
    pub history_entries_min: usize,
    /// The most bytes on disk; beyond them only deletes are taken.
    pub store_bytes_max: u64,
    /// The log may always grow to this size before a snapshot is begun.
    pub log_bytes_min: u64,
    /// When a commit counts as durable.
    pub sync: SyncMode,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            history_bytes_max: HISTORY_BYTES_MAX,
            history_age_max: HISTORY_AGE_MAX,
            history_entries_min: HISTORY_ENTRIES_MIN,
            store_bytes_max: STORE_BYTES_MAX,
            log_bytes_min: LOG_BYTES_MIN,
            sync: SyncMode::EveryCommit,
        }
    }
}

/// When a commit is forced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Before it is acknowledged.
    EveryCommit,
    /// Every 100 ms: a crash of the machine or the process may lose that much.
    Relaxed,
}

/// Why a store did not open.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Somebody else has it open.
    #[error("{path} is in use by {who}: stop it, or choose another data directory", path = path.display())]
    InUse {
        /// The data directory.
        path: PathBuf,
        /// Who holds it, as written in its lock file.
        who: String,
    },
    /// The operating system refused.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// A newer Muster wrote this.
    #[error(
        "{path} has format {found}, this version of muster reads format {known}: use the version that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format known here.
        known: u32,
    },
    /// The file is damaged.
    #[error("{path} is damaged: {problem}; restore a snapshot or start with an empty data directory")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}
