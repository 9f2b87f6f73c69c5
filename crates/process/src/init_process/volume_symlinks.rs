//! Volumes without mount namespaces: symlinks below a root directory, which `MUSTER_POD_ROOT` names.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::container_config::ContainerConfig;
use crate::run_files;

/// Creates the symlinks of a run.
///
/// # Errors
/// Names the mount that failed.
pub fn lay(dir: &Path, launch: &ContainerConfig) -> Result<(), String> {
    let root = dir.join(run_files::ROOT);
    let hosts = (launch.hosts.clone(), PathBuf::from("/etc/hosts"));
    let words = (dir.join(run_files::MESSAGE), launch.message_path.clone());
    let tmp = (dir.join(run_files::TMP), PathBuf::from("/tmp"));
    let volumes = launch.mounts.iter().map(|it| (it.source.clone(), it.target.clone()));
    // Volumes first: the first symlink at a path wins.
    for (source, target) in volumes.chain([hosts, words, tmp]) {
        create_symlink(&root, &source, &target)
            .map_err(|error| format!("show {} at {}: {error}", source.display(), target.display()))?;
    }
    Ok(())
}

fn create_symlink(root: &Path, source: &Path, target: &Path) -> io::Result<()> {
    let at = root.join(target.strip_prefix("/").unwrap_or(target));
    if let Some(above) = at.parent() {
        fs::create_dir_all(above)?;
    }
    match symlink(source, &at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}
