//! `cargo xtask chart`: generates the Helm chart in `deploy/chart` from the manifests of `muster install`.
//!
//! # Invariants
//!
//! - The directory contains only generated files; a test generates them again and compares.

use std::fs;
use std::path::Path;

use xtask::process;

/// Output directory, relative to the workspace.
const CHART: &str = "deploy/chart";

pub fn task(_: &[String]) -> Result<(), String> {
    let folder = process::root().join(CHART);
    let wrong = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|e| wrong(&folder, e))?;
    }
    for (path, text) in muster_install::chart::files() {
        let path = folder.join(path);
        let parent = path.parent().ok_or("a file of the chart has no parent directory")?;
        fs::create_dir_all(parent).map_err(|e| wrong(parent, e))?;
        fs::write(&path, text).map_err(|e| wrong(&path, e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    /// Collects the files below a directory by path.
    fn files_below(folder: &Path, below: &Path, all: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder.join(below)).into_iter().flatten().flatten() {
            let path = below.join(entry.file_name());
            match entry.path().is_dir() {
                true => files_below(folder, &path, all),
                false => drop(all.insert(path, fs::read_to_string(entry.path()).unwrap_or_default())),
            }
        }
    }

    #[test]
    fn the_chart_is_up_to_date() {
        let mut there = BTreeMap::new();
        files_below(&process::root().join(CHART), Path::new(""), &mut there);
        let made = muster_install::chart::files().into_iter();
        let made: BTreeMap<PathBuf, String> = made.map(|(path, text)| (path.into(), text)).collect();
        let names = |all: &BTreeMap<PathBuf, String>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&there), names(&made), "{CHART} is out of date: run `cargo xtask chart`");
        for (path, text) in &made {
            assert!(
                there[path] == *text,
                "{CHART}/{} is out of date: run `cargo xtask chart`",
                path.display()
            );
        }
    }
}
