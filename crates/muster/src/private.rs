//! Folders that are this user's alone: keys, tokens and the secrets of pods are in them.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Its owner only.
const OWNER: u32 = 0o700;
/// Others may pass through to what they know the name of: users that containers without namespaces run as.
const PASSED: u32 = 0o711;

/// Makes a folder that only its owner enters, or takes others' rights to one that is there.
///
/// # Errors
/// What the system said.
pub fn folder(path: &Path) -> io::Result<()> {
    make(path, OWNER)
}

/// The same, but others may pass through.
///
/// # Errors
/// What the system said.
pub fn passage(path: &Path) -> io::Result<()> {
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

/// A folder for what does not outlive this process: one for all, with a name that nobody could have taken before.
///
/// # Errors
/// What the system said.
pub fn passing() -> io::Result<PathBuf> {
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
        folder(&path).unwrap();
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        folder(&path).unwrap();
        assert_eq!(mode(), 0o700);
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        passage(&path).unwrap();
        assert_eq!(mode(), 0o711);
    }

    #[test]
    fn what_does_not_last_has_one_place() {
        let first = passing().unwrap();
        assert_eq!(passing().unwrap(), first);
        assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
        fs::remove_dir(&first).unwrap();
    }
}
