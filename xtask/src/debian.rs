//! Unpacks Debian packages for the tests into the user's cache directory.
//!
//! apt downloads them with a state directory of its own, and nothing is installed: that needs no root permissions, leaves the
//! system unchanged, and is removed with the directory. Unpacked packages are not configured, so scripts start their
//! programs with the library path set.
//!
//! # Guarantees
//!
//! - Every step has a timeout.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use xtask::process;

/// The timeout for package lists and packages.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(1200);
/// The timeout for unpacking one package.
const UNPACK_TIMEOUT: Duration = Duration::from_secs(600);

/// Downloads a package with the dependencies that are not installed, and unpacks all of them below `directory`. Returns the root
/// of the unpacked files. `size` is printed with the progress.
pub fn unpack(package: &str, size: &str, directory: &Path) -> Result<PathBuf, String> {
    for program in ["apt-get", "dpkg-deb"] {
        if !process::exists(program, "--version") {
            return Err(format!("not installed on this host, and {program} is missing to download it"));
        }
    }
    eprintln!("downloading {package} (once; {size})");
    let downloads = directory.join("fetched");
    for part in ["lists/partial", "archives/partial"] {
        create(&downloads.join(part))?;
    }
    process::retry(|| process::run_for(apt(&downloads).arg("update"), DOWNLOAD_TIMEOUT))?;
    let install = ["install", "--yes", "--download-only", "--no-install-recommends", package];
    process::retry(|| process::run_for(apt(&downloads).args(install), DOWNLOAD_TIMEOUT))?;
    let root = directory.join("root");
    let all = packages(&downloads.join("archives"))?;
    if all.is_empty() {
        return Err(format!("apt-get downloaded no package for {package}"));
    }
    for package in all {
        process::run_for(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root), UNPACK_TIMEOUT)?;
    }
    remove(&downloads)?;
    Ok(root)
}

/// Returns apt-get with lists and caches of its own: it takes no lock and changes no state of the system's apt.
fn apt(directory: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    let directories =
        [("Dir::State::lists", "lists"), ("Dir::Cache", ""), ("Dir::Cache::archives", "archives")];
    for (option, part) in directories {
        apt.arg("-o").arg(format!("{option}={}", directory.join(part).display()));
    }
    for option in [
        "Debug::NoLocking=1",
        "APT::Sandbox::User=",
        "Acquire::Languages=none",
        "Acquire::Retries=1",
        "Acquire::http::Timeout=30",
    ] {
        apt.args(["-o", option]);
    }
    apt.arg("-qq").stdout(Stdio::null());
    apt
}

fn packages(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "deb"));
    all.sort();
    Ok(all)
}

/// Returns the script line that sets the library path to the directories below `root`. `further` are directories whose
/// libraries an installation would link through alternatives.
pub fn libraries(root: &Path, further: &[&str]) -> String {
    let of_host = format!("usr/lib/{}", multiarch());
    let mut directories = vec![of_host.clone()];
    directories.extend(further.iter().map(|name| format!("{of_host}/{name}")));
    directories.extend(["usr/lib".to_owned(), format!("lib/{}", multiarch())]);
    let directories: Vec<String> = directories.iter().map(|it| root.join(it).display().to_string()).collect();
    format!("export LD_LIBRARY_PATH='{}'\n", directories.join(":"))
}

/// Returns Debian's multiarch name of this host.
fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Writes an executable shell script.
pub fn write_script(path: &Path, lines: &str) -> Result<(), String> {
    let write = || {
        fs::write(path, format!("#!/bin/sh\n{lines}"))?;
        fs::set_permissions(path, Permissions::from_mode(0o755))
    };
    write().map_err(|e: std::io::Error| format!("{}: {e}", path.display()))
}

/// Creates a directory and its parents.
pub fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|e| format!("{}: {e}", directory.display()))
}

/// Removes a directory and its content, if it exists.
pub fn remove(directory: &Path) -> Result<(), String> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", directory.display())),
        _ => Ok(()),
    }
}
