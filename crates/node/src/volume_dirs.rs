//! Directories of provisioned volumes: the only module of the provisioner that touches the disk.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use muster_tree::Text;

/// Creates and removes volume directories. All methods are idempotent.
pub trait VolumeDirs: Send {
    /// Path of the volume directory.
    fn path(&self, name: &str) -> String;

    /// Creates the directory if it is missing. It is unpublished until [`VolumeDirs::mark_published`].
    fn create(&mut self, name: &str) -> Result<(), String>;

    /// The PersistentVolume exists: from now on only its reclaim policy removes the data.
    fn mark_published(&mut self, name: &str) -> Result<(), String>;

    /// Removes the directory and its content; a missing one is not an error.
    fn remove(&mut self, name: &str) -> Result<(), String>;

    /// Names of the directories without a PersistentVolume so far.
    fn unpublished(&self) -> Vec<Text>;
}

/// Volume directories of simulated nodes: paths without a disk.
#[derive(Debug, Default)]
pub struct SimulatedVolumeDirs;

impl VolumeDirs for SimulatedVolumeDirs {
    fn path(&self, name: &str) -> String {
        format!("/var/lib/muster/volumes/{name}")
    }

    fn create(&mut self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    fn mark_published(&mut self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    fn remove(&mut self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    fn unpublished(&self) -> Vec<Text> {
        Vec::new()
    }
}

/// Volume directories below `root`. An unpublished one has a marker file `<name>.new` beside it.
#[derive(Debug)]
pub struct DiskVolumeDirs {
    root: PathBuf,
    /// Whether dropping this value removes all directories.
    passing: bool,
}

impl DiskVolumeDirs {
    #[must_use]
    pub fn lasting(root: PathBuf) -> DiskVolumeDirs {
        DiskVolumeDirs { root, passing: false }
    }

    /// Directories that are removed when this value is dropped.
    #[must_use]
    pub fn passing(root: PathBuf) -> DiskVolumeDirs {
        DiskVolumeDirs { root, passing: true }
    }
}

/// Suffix of the marker file of an unpublished directory.
const MARK: &str = ".new";

impl DiskVolumeDirs {
    fn mark(&self, name: &str) -> PathBuf {
        self.root.join(format!("{name}{MARK}"))
    }
}

fn absent_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Drop for DiskVolumeDirs {
    fn drop(&mut self) {
        if self.passing {
            // A failure leaves the directory to the cleanup of the system's temporary files.
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

impl VolumeDirs for DiskVolumeDirs {
    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn create(&mut self, name: &str) -> Result<(), String> {
        let wrong = |error: io::Error| with_path(&self.path(name), &error);
        let folder = self.root.join(name);
        if folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.root).map_err(wrong)?;
        // The marker comes first: a directory without one counts as published and is never removed as a leftover.
        std::fs::write(self.mark(name), "").map_err(wrong)?;
        std::fs::create_dir(&folder).map_err(wrong)?;
        // Any user of the pod may write. Set before the marker is removed, since afterwards the owner controls the
        // mode.
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).map_err(wrong)
    }

    fn mark_published(&mut self, name: &str) -> Result<(), String> {
        absent_is_fine(std::fs::remove_file(self.mark(name)))
            .map_err(|error| with_path(&self.path(name), &error))
    }

    fn remove(&mut self, name: &str) -> Result<(), String> {
        let gone = absent_is_fine(std::fs::remove_dir_all(self.root.join(name)));
        gone.map_err(|error| with_path(&self.path(name), &error))?;
        self.mark_published(name)
    }

    fn unpublished(&self) -> Vec<Text> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(MARK).map(Text::from)).collect()
    }
}

fn with_path(path: &str, error: &io::Error) -> String {
    format!("{path}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_and_remove_are_idempotent() {
        let home = tempfile::tempdir().unwrap();
        let mut folders = DiskVolumeDirs::lasting(home.path().join("volumes"));
        assert_eq!(folders.unpublished(), Vec::<Text>::new(), "there is not even a root");
        for _ in 0..2 {
            folders.create("pvc-1").unwrap();
        }
        let data = home.path().join("volumes/pvc-1/data");
        std::fs::write(&data, "x").unwrap();
        assert_eq!(folders.unpublished(), ["pvc-1"]);
        for _ in 0..2 {
            folders.mark_published("pvc-1").unwrap();
        }
        assert_eq!(folders.unpublished(), Vec::<Text>::new());
        folders.create("pvc-1").unwrap();
        assert_eq!(folders.unpublished(), Vec::<Text>::new(), "it was there");
        assert!(data.exists());
        for _ in 0..2 {
            folders.remove("pvc-1").unwrap();
        }
        assert!(!data.exists());
        std::fs::write(home.path().join("volumes/file"), "x").unwrap();
        let why = folders.create("file").unwrap_err();
        assert!(why.contains("volumes/file: "), "{why}");
    }

    #[test]
    fn ephemeral_directories_are_removed_on_drop() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("volumes");
        let mut folders = DiskVolumeDirs::passing(root.clone());
        folders.create("pvc-1").unwrap();
        drop(folders);
        assert!(!root.exists());
    }
}
