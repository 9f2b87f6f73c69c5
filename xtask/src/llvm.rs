//! LLVM's programs for the tests, by which coverage is read: those of the toolchain, of this machine, or of Debian's packages,
//! taken apart in the user's cache folder.
//!
//! # Invariants
//!
//! - What there is afterwards is a folder with `llvm-profdata` and `llvm-cov` that read what this compiler writes: of its LLVM's
//!   major version, for the formats change with that.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{debian, kube};
use xtask::process;

const PROGRAMS: [&str; 2] = ["llvm-profdata", "llvm-cov"];
/// What it costs to have them.
const SIZE: &str = "50 MB, 240 MB unpacked";

/// A folder with the programs, made once where it must be made.
pub fn programs() -> Result<PathBuf, String> {
    let compiler = rustc(&["--version", "--verbose"])?;
    let major = compiler_major(&compiler).ok_or("this compiler does not tell which LLVM it has")?;
    let here = [toolchain()?, PathBuf::from(format!("/usr/lib/llvm-{major}/bin"))];
    if let Some(bin) = here.into_iter().find(|bin| has(bin, major)) {
        return Ok(bin);
    }
    let folder = kube::cache()?.join(format!("llvm-{major}"));
    let (bin, done) = (folder.join("bin"), folder.join("done"));
    if !done.exists() {
        make(&folder, &bin, major)?;
        fs::write(&done, "").map_err(|e| format!("{}: {e}", done.display()))?;
    }
    Ok(bin)
}

fn make(folder: &Path, bin: &Path, major: u32) -> Result<(), String> {
    debian::remove(folder)?;
    debian::create(bin)?;
    let root = debian::unpack(&format!("llvm-{major}"), SIZE, folder)?;
    for name in PROGRAMS {
        let program = root.join(format!("usr/lib/llvm-{major}/bin")).join(name);
        let lines = format!("{}exec '{}' \"$@\"\n", debian::libraries(&root, &[]), program.display());
        debian::write_script(&bin.join(name), &lines)?;
    }
    if has(bin, major) { Ok(()) } else { Err("it is there and cannot be loaded".to_owned()) }
}

fn rustc(args: &[&str]) -> Result<String, String> {
    process::output(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).args(args))
}

/// Where the toolchain has them, if that component of it is installed.
fn toolchain() -> Result<PathBuf, String> {
    let libraries = PathBuf::from(rustc(&["--print", "target-libdir"])?.trim());
    Ok(libraries.with_file_name("bin"))
}

/// Whether all programs are in this folder, of this version, and can be started.
fn has(bin: &Path, major: u32) -> bool {
    PROGRAMS.iter().all(|name| {
        let told = process::output(Command::new(bin.join(name)).arg("--version"));
        told.is_ok_and(|told| program_major(&told) == Some(major))
    })
}

/// Reads `LLVM version: 22.1.2`, as the compiler says it.
fn compiler_major(told: &str) -> Option<u32> {
    major(told, "LLVM version: ")
}

/// Reads `LLVM version 22.1.8`, as its programs say it, some in front of it and some beneath.
fn program_major(told: &str) -> Option<u32> {
    major(told, "LLVM version ")
}

fn major(told: &str, before: &str) -> Option<u32> {
    let (_, version) = told.lines().find_map(|line| line.split_once(before))?;
    version.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_they_are_told() {
        assert_eq!(compiler_major("release: 1.95.0\nLLVM version: 22.1.2\n"), Some(22));
        assert_eq!(program_major("Debian LLVM version 22.1.8\n  Optimized build."), Some(22));
        assert_eq!(program_major("LLVM:\n  LLVM version 9.0\n"), Some(9));
        assert_eq!(program_major("something else 22"), None);
    }
}
