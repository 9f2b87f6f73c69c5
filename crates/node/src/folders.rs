//! Folders that are volumes: the one place that touches the disk.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use muster_tree::Text;

/// Where folders are made and removed. Both may be repeated.
pub trait Folders: Send {
    /// Where the folder of this name is.
    fn path(&self, name: &str) -> String;

    /// Makes the folder, unless it is there. It is new until somebody keeps it.
    ///
    /// # Errors
    /// What the system said.
    fn make(&mut self, name: &str) -> Result<(), String>;

    /// A volume tells of the folder: what is in it is its owner's from now on.
    ///
    /// # Errors
    /// What the system said.
    fn keep(&mut self, name: &str) -> Result<(), String>;

    /// Removes the folder with all that is in it, unless it is gone.
    ///
    /// # Errors
    /// What the system said.
    fn remove(&mut self, name: &str) -> Result<(), String>;

    /// The names of the new folders.
    fn new_ones(&self) -> Vec<Text>;
}

/// Folders that nobody ever enters: simulated ones.
#[derive(Debug, Default)]
pub struct NoFolders;

impl Folders for NoFolders {
    fn path(&self, name: &str) -> String {
        format!("/var/lib/muster/volumes/{name}")
    }

    fn make(&mut self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    fn keep(&mut self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    fn remove(&mut self, _name: &str) -> Result<(), String> {
        Ok(())
    }

    fn new_ones(&self) -> Vec<Text> {
        Vec::new()
    }
}

/// Folders below one of this machine. Beside a new one stands a file that says so.
#[derive(Debug)]
pub struct DiskFolders {
    root: PathBuf,
    /// Whether they end with this value.
    passing: bool,
}

impl DiskFolders {
    /// Folders that stay.
    #[must_use]
    pub fn lasting(root: PathBuf) -> DiskFolders {
        DiskFolders { root, passing: false }
    }

    /// Folders that end with this value.
    #[must_use]
    pub fn passing(root: PathBuf) -> DiskFolders {
        DiskFolders { root, passing: true }
    }
}

/// The end of the name of the file beside a new folder.
const MARK: &str = ".new";

impl DiskFolders {
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

impl Drop for DiskFolders {
    fn drop(&mut self) {
        if self.passing {
            // What cannot be removed now is left to whoever cleans the system's temporary files.
            let _ = std::fs::remove_dir_all(&self.root);
        }
    }
}

impl Folders for DiskFolders {
    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    fn make(&mut self, name: &str) -> Result<(), String> {
        let wrong = |error: io::Error| told(&self.path(name), &error);
        let folder = self.root.join(name);
        if folder.is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.root).map_err(wrong)?;
        // The mark first: a folder without one is somebody's.
        std::fs::write(self.mark(name), "").map_err(wrong)?;
        std::fs::create_dir(&folder).map_err(wrong)?;
        // Whoever a pod runs as: the claim is the pod's. As a folder without a mark it would be somebody's already.
        std::fs::set_permissions(folder, Permissions::from_mode(0o777)).map_err(wrong)
    }

    fn keep(&mut self, name: &str) -> Result<(), String> {
        absent_is_fine(std::fs::remove_file(self.mark(name))).map_err(|error| told(&self.path(name), &error))
    }

    fn remove(&mut self, name: &str) -> Result<(), String> {
        let gone = absent_is_fine(std::fs::remove_dir_all(self.root.join(name)));
        gone.map_err(|error| told(&self.path(name), &error))?;
        self.keep(name)
    }

    fn new_ones(&self) -> Vec<Text> {
        let entries = std::fs::read_dir(&self.root).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_suffix(MARK).map(Text::from)).collect()
    }
}

fn told(path: &str, error: &io::Error) -> String {
    format!("{path}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_and_removed_as_often_as_one_likes() {
        let home = tempfile::tempdir().unwrap();
        let mut folders = DiskFolders::lasting(home.path().join("volumes"));
        assert_eq!(folders.new_ones(), Vec::<Text>::new(), "there is not even a root");
        for _ in 0..2 {
            folders.make("pvc-1").unwrap();
        }
        let data = home.path().join("volumes/pvc-1/data");
        std::fs::write(&data, "x").unwrap();
        assert_eq!(folders.new_ones(), ["pvc-1"]);
        for _ in 0..2 {
            folders.keep("pvc-1").unwrap();
        }
        assert_eq!(folders.new_ones(), Vec::<Text>::new());
        folders.make("pvc-1").unwrap();
        assert_eq!(folders.new_ones(), Vec::<Text>::new(), "it was there");
        assert!(data.exists());
        for _ in 0..2 {
            folders.remove("pvc-1").unwrap();
        }
        assert!(!data.exists());
        std::fs::write(home.path().join("volumes/file"), "x").unwrap();
        let why = folders.make("file").unwrap_err();
        assert!(why.contains("volumes/file: "), "{why}");
    }

    #[test]
    fn passing_folders_leave_nothing() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("volumes");
        let mut folders = DiskFolders::passing(root.clone());
        folders.make("pvc-1").unwrap();
        drop(folders);
        assert!(!root.exists());
    }
}
