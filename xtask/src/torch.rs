//! PyTorch for the tests: that of this machine's Python, or Debian's packages, taken apart in the user's cache folder.
//!
//! (The wheels that Python's own tools would fetch bring all of CUDA: many times as much.)
//!
//! # Invariants
//!
//! - What there is afterwards is a folder with `python`, `python3` and `torchrun`, to be put in front of `PATH`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{debian, kube};
use xtask::process;

const PACKAGE: &str = "python3-torch";
/// What it costs to have it.
const SIZE: &str = "150 MB, 650 MB unpacked";
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
    debian::remove(&folder)?;
    debian::create(&bin)?;
    if works(Command::new("python3")) {
        // Not by its name: it will be found by that in this very folder.
        let own = process::output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
        write_programs(&bin, "", own.trim(), "")?;
    } else {
        let root = debian::unpack(PACKAGE, SIZE, &folder)?;
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

/// The Python of the packages, if the system had none, or the system's, for which they were made.
fn interpreter(root: &Path) -> String {
    let own = root.join("usr/bin/python3");
    if own.exists() { own.display().to_string() } else { "/usr/bin/python3".to_owned() }
}

/// Lines that have the packages found, of Debian and of Python.
fn surroundings(root: &Path) -> String {
    let libraries = debian::libraries(root, &["blas", "lapack"]);
    let packages = root.join("usr/lib/python3/dist-packages");
    format!("{libraries}export PYTHONPATH='{}'\n", packages.display())
}

fn write_programs(bin: &Path, surroundings: &str, python: &str, before_torchrun: &str) -> Result<(), String> {
    let run = format!("{surroundings}exec {python} \"$@\"\n");
    let torchrun = format!("{surroundings}{before_torchrun}exec {python} -m torch.distributed.run \"$@\"\n");
    for (name, lines) in [("python", &run), ("python3", &run), ("torchrun", &torchrun)] {
        debian::write_script(&bin.join(name), lines)?;
    }
    Ok(())
}
