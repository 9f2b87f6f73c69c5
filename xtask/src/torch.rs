//! Provides PyTorch for the tests: that of the host's Python, or Debian packages unpacked into the user's cache directory.
//!
//! # Guarantees
//!
//! - The directory has `python`, `python3` and `torchrun`; the tests prepend it to `PATH`.
//!
//! # Deliberately absent
//!
//! Installation by pip: the wheels depend on all of CUDA, many times the size.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{debian, kube};
use xtask::process;

const PACKAGE: &str = "python3-torch";
/// The size of the download, for the progress line.
const SIZE: &str = "150 MB, 650 MB unpacked";
/// Exits with 0 if `torch.distributed` has the gloo backend.
const CHECK: &str = "import torch.distributed as d; assert d.is_available() and d.Backend.GLOO";
/// `torchrun` of PyTorch 1.13 fails with Python 3.11 when it parses an empty redirect setting (an enum change). A setting for
/// local rank 9, which no test starts, avoids the failure and redirects nothing.
const REDIRECTS: &str = "export PET_REDIRECTS=\"${PET_REDIRECTS-9:1}\" PET_TEE=\"${PET_TEE-9:1}\"\n";

/// Returns a directory with the programs, created on first use.
pub fn programs() -> Result<PathBuf, String> {
    let directory = kube::cache()?.join("torch");
    let (bin, done) = (directory.join("bin"), directory.join("done"));
    if done.exists() {
        return Ok(bin);
    }
    debian::remove(&directory)?;
    debian::create(&bin)?;
    if works(Command::new("python3")) {
        // By absolute path: `python3` would resolve to the script in this directory, which is first in `PATH`.
        let own = process::output(Command::new("python3").args(["-c", "import sys; print(sys.executable)"]))?;
        write_programs(&bin, "", own.trim(), "")?;
    } else {
        let root = debian::unpack(PACKAGE, SIZE, &directory)?;
        write_programs(&bin, &environment(&root), &interpreter(&root), REDIRECTS)?;
    }
    if !works(Command::new(bin.join("python3"))) {
        return Err("the unpacked PyTorch cannot be imported".to_owned());
    }
    fs::write(&done, "").map_err(|e| format!("{}: {e}", done.display()))?;
    Ok(bin)
}

fn works(mut python: Command) -> bool {
    let quiet = python.args(["-c", CHECK]).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Returns the unpacked Python, or the host's if it was installed and apt did not download it.
fn interpreter(root: &Path) -> String {
    let own = root.join("usr/bin/python3");
    if own.exists() { own.display().to_string() } else { "/usr/bin/python3".to_owned() }
}

/// Returns the script lines that set the library path and the Python path.
fn environment(root: &Path) -> String {
    let libraries = debian::libraries(root, &["blas", "lapack"]);
    let packages = root.join("usr/lib/python3/dist-packages");
    format!("{libraries}export PYTHONPATH='{}'\n", packages.display())
}

fn write_programs(bin: &Path, environment: &str, python: &str, before_torchrun: &str) -> Result<(), String> {
    let run = format!("{environment}exec {python} \"$@\"\n");
    let torchrun = format!("{environment}{before_torchrun}exec {python} -m torch.distributed.run \"$@\"\n");
    for (name, lines) in [("python", &run), ("python3", &run), ("torchrun", &torchrun)] {
        debian::write_script(&bin.join(name), lines)?;
    }
    Ok(())
}
