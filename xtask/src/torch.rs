//! PyTorch for the tests: that of this machine's Python, or Debian's packages, taken apart in the user's cache folder.
//!
//! The packages are fetched by apt with files of its own and unpacked beside the system, not installed into it: that
//! needs no rights, changes nothing, and goes with the folder. (The wheels that Python's own
//! tools would fetch bring all of CUDA: many times as much.)
//!
//! # Invariants
//!
//! - What there is afterwards is a folder with `python`, `python3` and `torchrun`, to be put in front of `PATH`.
//! - It ends: every step has its time.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::{kube, process};

const PACKAGE: &str = "python3-torch";
/// How long lists and packages may take to come.
const FETCH_MAX: Duration = Duration::from_secs(300);
/// How long one package may take to be unpacked.
const UNPACK_MAX: Duration = Duration::from_secs(60);
/// Ends well where processes can talk by gloo.
const CHECK: &str = "import torch.distributed as d; assert d.is_available() and d.Backend.GLOO";
/// Python 3.11 leaves out the member of enums by which the `torchrun` of 1.13 says that it redirects nothing. Said of a
/// process that never is, the rest have what they would have.
const REDIRECTS: &str = "export PET_REDIRECTS=\"${PET_REDIRECTS-9:1}\" PET_TEE=\"${PET_TEE-9:1}\"\n";

/// A folder with the programs, made once.
pub fn programs() -> Result<PathBuf, String> {
    let folder = kube::cache()?.join("torch");
    let (bin, done) = (folder.join("bin"), folder.join("done"));
    if done.exists() {
        return Ok(bin);
    }
    remove(&folder)?;
    fs::create_dir_all(&bin).map_err(|e| format!("{}: {e}", bin.display()))?;
    if works(Command::new("python3")) {
        // Not by its name: it will be found by that in this very folder.
        let own = process::output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
        write_programs(&bin, "", own.trim(), "")?;
    } else {
        unpack(&folder)?;
        let root = folder.join("root");
        write_programs(&bin, &surroundings(&root), &interpreter(&root), REDIRECTS)?;
    }
    if !works(Command::new(bin.join("python3"))) {
        return Err("it is there and cannot be loaded".to_owned());
    }
    fs::write(&done, "").map_err(|e| format!("{}: {e}", done.display()))?;
    Ok(bin)
}

fn works(mut python: Command) -> bool {
    let quiet = python.args(["-c", CHECK]).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Fetches the package with all that it needs and this system has not, and takes everything apart into `root`.
fn unpack(folder: &Path) -> Result<(), String> {
    for program in ["apt-get", "dpkg-deb"] {
        if !process::exists(program, "--version") {
            return Err(format!("this machine's Python has none, and there is no {program} to get one with"));
        }
    }
    eprintln!("fetching {PACKAGE} (once; 150 MB, 650 MB unpacked)");
    let fetched = folder.join("fetched");
    for part in ["lists/partial", "archives/partial"] {
        let path = fetched.join(part);
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    process::run_for(apt(&fetched).arg("update"), FETCH_MAX)?;
    let install = ["install", "--yes", "--download-only", "--no-install-recommends", PACKAGE];
    process::run_for(apt(&fetched).args(install), FETCH_MAX)?;
    let root = folder.join("root");
    for package in packages(&fetched.join("archives"))? {
        process::run_for(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root), UNPACK_MAX)?;
    }
    remove(&fetched)
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
    if all.is_empty() { Err(format!("{PACKAGE} is nowhere to be had")) } else { Ok(all) }
}

/// The Python of the packages, if the system had none, or the system's, for which they were made.
fn interpreter(root: &Path) -> String {
    let own = root.join("usr/bin/python3");
    if own.exists() { own.display().to_string() } else { "/usr/bin/python3".to_owned() }
}

/// Lines that have the packages found: their libraries, also those that an installation would have linked to.
fn surroundings(root: &Path) -> String {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let libraries = [
        format!("usr/lib/{machine}"),
        format!("usr/lib/{machine}/blas"),
        format!("usr/lib/{machine}/lapack"),
        "usr/lib".to_owned(),
        format!("lib/{machine}"),
    ];
    let libraries: Vec<String> = libraries.iter().map(|it| root.join(it).display().to_string()).collect();
    let packages = root.join("usr/lib/python3/dist-packages");
    format!("export LD_LIBRARY_PATH='{}'\nexport PYTHONPATH='{}'\n", libraries.join(":"), packages.display())
}

fn write_programs(bin: &Path, surroundings: &str, python: &str, before_torchrun: &str) -> Result<(), String> {
    let run = format!("#!/bin/sh\n{surroundings}exec {python} \"$@\"\n");
    let torchrun =
        format!("#!/bin/sh\n{surroundings}{before_torchrun}exec {python} -m torch.distributed.run \"$@\"\n");
    for (name, text) in [("python", &run), ("python3", &run), ("torchrun", &torchrun)] {
        let path = bin.join(name);
        let write = || {
            fs::write(&path, text)?;
            fs::set_permissions(&path, Permissions::from_mode(0o755))
        };
        write().map_err(|e: std::io::Error| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", folder.display())),
        _ => Ok(()),
    }
}
