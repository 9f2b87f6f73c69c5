//! The lock file: one process per data directory.
//!
//! The lock belongs to the open file, so the operating system releases it however the process exits. Program and PID in
//! the file are for error messages only and may be stale.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::OpenError;

/// File name within the data directory.
const LOCK_FILE: &str = "lock";

/// The lock of a data directory, held until it is dropped.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks the data directory for this process; the error names the holder.
    pub fn take(directory: &Path) -> Result<Self, OpenError> {
        let path = directory.join(LOCK_FILE);
        let io = |action| {
            let path = path.clone();
            move |source| OpenError::Io { action, path, source }
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(io("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::InUse { path: directory.to_owned(), who: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        file.set_len(0).map_err(io("write"))?;
        file.write_all(own_name().as_bytes()).map_err(io("write"))?;
        file.rewind().map_err(io("write"))?;
        Ok(Self { _file: file })
    }
}

/// Program and PID of this process, for the error message of another one.
fn own_name() -> String {
    let program = std::env::current_exe().ok();
    let program =
        program.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    format!("{} (pid {})", program.as_deref().unwrap_or("a process"), std::process::id())
}

/// The holder as written in the lock file.
fn holder(file: &mut File) -> String {
    let mut who = String::new();
    match file.read_to_string(&mut who).map(|_| who.trim()) {
        Ok("") | Err(_) => "another process".to_owned(),
        // Older versions wrote only the PID.
        Ok(pid) if pid.bytes().all(|b| b.is_ascii_digit()) => format!("process {pid}"),
        Ok(who) => who.to_owned(),
    }
}
