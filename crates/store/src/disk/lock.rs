//! One process per data directory.
//!
//! The lock belongs to the open file, so the operating system gives it back however its holder ends; the pid
//! inside only names the holder and may be that of somebody long gone.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::OpenError;

/// The lock file's name within the data directory.
const LOCK_FILE: &str = "lock";

/// Held while this process has the data directory.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the data directory for this process, or says who has it.
    pub(crate) fn take(directory: &Path) -> Result<Self, OpenError> {
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
                return Err(OpenError::InUse { path: directory.to_owned(), pid: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(io("lock")(source)),
        }
        file.set_len(0).map_err(io("write"))?;
        file.write_all(std::process::id().to_string().as_bytes()).map_err(io("write"))?;
        file.rewind().map_err(io("write"))?;
        Ok(Self { _file: file })
    }
}

/// The pid in the lock file.
fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    match file.read_to_string(&mut pid) {
        Ok(_) if !pid.trim().is_empty() => pid.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}
