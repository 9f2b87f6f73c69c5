//! Debian's packages for the tests, taken apart in the user's cache folder.
//!
//! They are fetched by apt with files of its own and unpacked beside the system, not installed into it: that needs no
//! rights, changes nothing, and goes with the folder. What is unpacked has not been configured, so programs of it are
//! started by scripts that tell where their libraries are.
//!
//! # Invariants
//!
//! - It ends: every step has its time.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use xtask::process;

/// How long lists and packages may take to come.
const FETCH_MAX: Duration = Duration::from_secs(1200);
/// How long one package may take to be unpacked.
const UNPACK_MAX: Duration = Duration::from_secs(600);

/// Fetches this package with all that it needs and this system has not, and takes everything apart below `folder`; where
/// the files are then. `size` is told to whoever waits.
pub fn unpack(package: &str, size: &str, folder: &Path) -> Result<PathBuf, String> {
    for program in ["apt-get", "dpkg-deb"] {
        if !process::exists(program, "--version") {
            return Err(format!("this machine has none, and there is no {program} to get one with"));
        }
    }
    eprintln!("fetching {package} (once; {size})");
    let fetched = folder.join("fetched");
    for part in ["lists/partial", "archives/partial"] {
        create(&fetched.join(part))?;
    }
    process::retry(|| process::run_for(apt(&fetched).arg("update"), FETCH_MAX))?;
    let install = ["install", "--yes", "--download-only", "--no-install-recommends", package];
    process::retry(|| process::run_for(apt(&fetched).args(install), FETCH_MAX))?;
    let root = folder.join("root");
    let all = packages(&fetched.join("archives"))?;
    if all.is_empty() {
        return Err(format!("{package} is nowhere to be had"));
    }
    for package in all {
        process::run_for(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root), UNPACK_MAX)?;
    }
    remove(&fetched)?;
    Ok(root)
}

/// apt with files of its own: it locks nothing, and remembers nothing that the system's would read.
fn apt(folder: &Path) -> Command {
    let mut apt = Command::new("apt-get");
    let folders = [("Dir::State::lists", "lists"), ("Dir::Cache", ""), ("Dir::Cache::archives", "archives")];
    for (option, part) in folders {
        apt.arg("-o").arg(format!("{option}={}", folder.join(part).display()));
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

fn packages(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut all: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| path.extension().is_some_and(|end| end == "deb"));
    all.sort();
    Ok(all)
}

/// The line of a script that has libraries below `root` found: those of every package, and those in `further` folders, to
/// which an installation would have linked.
pub fn libraries(root: &Path, further: &[&str]) -> String {
    let of_machine = format!("usr/lib/{}", machine());
    let mut folders = vec![of_machine.clone()];
    folders.extend(further.iter().map(|name| format!("{of_machine}/{name}")));
    folders.extend(["usr/lib".to_owned(), format!("lib/{}", machine())]);
    let folders: Vec<String> = folders.iter().map(|it| root.join(it).display().to_string()).collect();
    format!("export LD_LIBRARY_PATH='{}'\n", folders.join(":"))
}

/// The name by which Debian keeps libraries of different processors apart.
fn machine() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Writes a script that can be started.
pub fn write_script(path: &Path, lines: &str) -> Result<(), String> {
    let write = || {
        fs::write(path, format!("#!/bin/sh\n{lines}"))?;
        fs::set_permissions(path, Permissions::from_mode(0o755))
    };
    write().map_err(|e: std::io::Error| format!("{}: {e}", path.display()))
}

/// Makes a folder, with those that it is in.
pub fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", folder.display())),
        _ => Ok(()),
    }
}
