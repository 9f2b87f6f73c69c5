//! Volumes without mounts: symbolic links below a root of the container's own, which `MUSTER_POD_ROOT` names.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::files;
use crate::launch::Launch;

/// Lays all links of a run.
///
/// # Errors
/// Which place could not be made, and what the system said.
pub fn lay(dir: &Path, launch: &Launch) -> Result<(), String> {
    let root = dir.join(files::ROOT);
    let hosts = (launch.hosts.clone(), PathBuf::from("/etc/hosts"));
    let words = (dir.join(files::MESSAGE), launch.message_path.clone());
    let tmp = (dir.join(files::TMP), PathBuf::from("/tmp"));
    let volumes = launch.mounts.iter().map(|it| (it.source.clone(), it.target.clone()));
    // Volumes first: whatever is at a place already stays.
    for (source, target) in volumes.chain([hosts, words, tmp]) {
        lay_one(&root, &source, &target)
            .map_err(|error| format!("show {} at {}: {error}", source.display(), target.display()))?;
    }
    Ok(())
}

fn lay_one(root: &Path, source: &Path, target: &Path) -> io::Result<()> {
    let at = root.join(target.strip_prefix("/").unwrap_or(target));
    if let Some(above) = at.parent() {
        fs::create_dir_all(above)?;
    }
    match symlink(source, &at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
