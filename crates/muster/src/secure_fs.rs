//! Directories that only their owner can enter: they contain keys, tokens and the Secret volumes of pods.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const OWNER: u32 = 0o700;
/// Search permission for others, without read: containers without namespaces that run as another user reach their
/// volumes by path, but cannot list the directory.
const PASSED: u32 = 0o711;

/// Creates a directory with mode 0700, or removes excess permissions from an existing one.
///
/// # Errors
/// The error of the file system.
pub fn private_dir(path: &Path) -> io::Result<()> {
    make(path, OWNER)
}

/// Like [`folder`], with mode 0711.
///
/// # Errors
/// The error of the file system.
pub fn traversable_dir(path: &Path) -> io::Result<()> {
    make(path, PASSED)
}

fn make(path: &Path, mode: u32) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let has = fs::metadata(path)?.permissions().mode();
            if has & 0o777 & !mode == 0 {
                return Ok(());
            }
            fs::set_permissions(path, Permissions::from_mode(has & !0o777 | has & mode))
        }
        done => done,
    }
}

/// The temporary directory of this process, created at the first call. Its name is random, so that another user
/// cannot create it in advance.
///
/// # Errors
/// The error of the file system.
pub fn ephemeral_dir() -> io::Result<PathBuf> {
    static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);
    let mut folder = FOLDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = folder.as_ref().filter(|known| known.is_dir()) {
        return Ok(known.clone());
    }
    let owner = Permissions::from_mode(OWNER);
    let made = tempfile::Builder::new().prefix("muster-").permissions(owner).tempdir()?.keep();
    Ok(folder.insert(made).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_lose_their_rights() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a/b");
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        private_dir(&path).unwrap();
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        private_dir(&path).unwrap();
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        traversable_dir(&path).unwrap();
        assert_eq!(mode(), 0o711);
    }

    #[test]
    fn what_does_not_last_has_one_place() {
        let first = ephemeral_dir().unwrap();
        assert_eq!(ephemeral_dir().unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir(&first).unwrap();
    }
}
