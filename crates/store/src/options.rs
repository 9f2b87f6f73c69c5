//! Limits of a store, and the errors of opening one.

use std::path::PathBuf;
use std::time::Duration;

/// Largest total size of the watch history of all resources, in bytes (estimated).
pub const HISTORY_BYTES_MAX: usize = 64 << 20;
/// Age at which a change leaves the watch history; upstream's etcd compaction interval.
pub const HISTORY_AGE_MAX: Duration = Duration::from_secs(300);
/// Number of newest changes per resource that are always retained.
pub const HISTORY_ENTRIES_MIN: usize = 200;
/// Bytes on disk at which writes other than deletes are rejected.
pub const STORE_BYTES_MAX: u64 = 2 << 30;
/// Smallest log size in bytes at which a new snapshot is started.
pub const LOG_BYTES_MIN: u64 = 32 << 20;

/// The limits of a store and its fsync policy.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Largest total size of the watch history of all resources, in bytes (estimated).
    pub history_bytes_max: usize,
    /// Age at which a change leaves the watch history; upstream's etcd compaction interval.
    pub history_age_max: Duration,
    /// Number of newest changes per resource that are always retained.
    pub history_entries_min: usize,
    /// Bytes on disk at which writes other than deletes are rejected.
    pub store_bytes_max: u64,
    /// Smallest log size in bytes at which a new snapshot is started.
    pub log_bytes_min: u64,
    /// Fsync policy of commits.
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

/// Fsync policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncMode {
    /// Each commit is synced before it is acknowledged.
    EveryCommit,
    /// Commits are synced every 100 ms: a crash of the host or the process may lose the last ones.
    Relaxed,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the data directory open.
    #[error("{path} is in use by {who}: stop it, or choose another data directory", path = path.display())]
    InUse {
        /// Path of the data directory.
        path: PathBuf,
        /// Program and PID of the holder, from the lock file.
        who: String,
    },
    /// A file operation failed.
    #[error("{action} {path}: {source}")]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file was written by a newer version of Muster.
    #[error(
        "{path} has format {found}, this version of muster reads format {known}: use the version that wrote it"
    )]
    Format {
        /// Path of the file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
        /// Newest format that this version reads.
        known: u32,
    },
    /// The file is corrupt.
    #[error("{path} is damaged: {problem}; restore a snapshot or start with an empty data directory")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the corruption.
        problem: String,
    },
}
