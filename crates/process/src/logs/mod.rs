//! Logs of containers: CRI lines in numbered files.
//!
//! A line is `<RFC 3339 with nanoseconds> <stdout|stderr> <F|P> <text>`: `P` is a part of a line that goes on, `F` its
//! end. Files are called `00000001.log` and so on: when one is full the next begins, and the oldest goes when there are
//! too many. Nothing is ever renamed, so a reader that follows cannot lose its place.
//!
//! # Invariants
//!
//! - A file holds whole lines only, also after a full disk.
//! - A reader of both streams gets no line of one in the middle of a line of the other, and a stamp only where a line
//!   begins. A reader of one stream gets the bytes that the container wrote.
//! - What is dropped is counted, and a line says so as soon as there is room.

mod line;
mod read;
mod write;

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

pub use line::{Line, Stream};
pub use read::{LogOptions, LogReader};
pub use write::LogWriter;

/// How much log of a run is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// A file that has grown to this many bytes is not written to any more.
    pub file_bytes_max: u64,
    /// How many files are kept, the one being written included.
    pub files_max: u64,
}

impl Bounds {
    /// Ten mebibytes, five times.
    pub const DEFAULT: Bounds = Bounds { file_bytes_max: 10 * 1024 * 1024, files_max: 5 };
}

/// Text of a line beyond this many bytes goes to further lines, as parts.
pub const LINE_BYTES_MAX: usize = 16 * 1024;

/// The path of the file with this number.
fn file_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:08}.log"))
}

/// The numbers of the files there are, in order.
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
