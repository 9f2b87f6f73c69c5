//! Container logs: CRI lines in numbered files.
//!
//! A line is `<RFC 3339 with nanoseconds> <stdout|stderr> <F|P> <text>`: `P` is a partial line, `F` ends it. Files
//! are named `00000001.log` and so on. Rotation starts the next number and removes the oldest file; no file is
//! renamed, so a follower keeps its position.
//!
//! # Guarantees
//!
//! - A file contains whole lines only, also after a full disk.
//! - A reader of both streams gets no line in the middle of a line of the other stream, and a timestamp only where a
//!   line begins. A reader of one stream gets the bytes that the container wrote.
//! - Dropped lines are counted and reported by a line as soon as there is space.

mod line;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

pub use line::{LogLine, LogStream};
pub use read::{LogOptions, LogReader};
pub use write::LogWriter;

/// Rotation of the log of a run. Part of `orders.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRotation {
    /// File size in bytes at which the log rotates.
    pub file_bytes_max: u64,
    /// Files kept, including the current one.
    pub files_max: u64,
}

impl LogRotation {
    /// As the kubelet: 10 MiB, 5 files.
    pub const DEFAULT: LogRotation = LogRotation { file_bytes_max: 10 * 1024 * 1024, files_max: 5 };
}

/// Maximum bytes of a line; longer lines are split into partial ones, as in containerd.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// The path of a log file.
fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.log"))
}

/// The numbers of the existing files, ascending.
fn numbers(dir: &Path) -> io::Result<Vec<u64>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number: Option<u64> =
            name.to_str().and_then(|name| name.strip_suffix(".log")).and_then(|name| name.parse().ok());
        all.extend(number);
    }
    all.sort_unstable();
    Ok(all)
}
