//! Provides LLVM's coverage tools: those of the toolchain, of this host, or of Debian packages unpacked into the user's cache
//! directory.
//!
//! # Guarantees
//!
//! - The directory has `llvm-profdata` and `llvm-cov` of the compiler's LLVM major version: the profile format changes with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{debian, kube};
use xtask::process;

const PROGRAMS: [&str; 2] = ["llvm-profdata", "llvm-cov"];
/// The size of the download, for the progress line.
const SIZE: &str = "50 MB, 240 MB unpacked";

/// Returns a directory with the tools, created on first use unless the toolchain or the host has them.
pub fn programs() -> Result<PathBuf, String> {
    let compiler = rustc(&["--version", "--verbose"])?;
    let major = compiler_major(&compiler).ok_or("rustc prints no LLVM version")?;
    let here = [toolchain()?, PathBuf::from(format!("/usr/lib/llvm-{major}/bin"))];
    if let Some(bin) = here.into_iter().find(|bin| has(bin, major)) {
        return Ok(bin);
    }
    let directory = kube::cache()?.join(format!("llvm-{major}"));
    let (bin, done) = (directory.join("bin"), directory.join("done"));
    if !done.exists() {
        make(&directory, &bin, major)?;
        fs::write(&done, "").map_err(|e| format!("{}: {e}", done.display()))?;
    }
    Ok(bin)
}

fn make(directory: &Path, bin: &Path, major: u32) -> Result<(), String> {
    debian::remove(directory)?;
    debian::create(bin)?;
    let root = debian::unpack(&format!("llvm-{major}"), SIZE, directory)?;
    for name in PROGRAMS {
        let program = root.join(format!("usr/lib/llvm-{major}/bin")).join(name);
        let lines = format!("{}exec '{}' \"$@\"\n", debian::libraries(&root, &[]), program.display());
        debian::write_script(&bin.join(name), &lines)?;
    }
    if has(bin, major) { Ok(()) } else { Err("the unpacked tools do not start".to_owned()) }
}

fn rustc(args: &[&str]) -> Result<String, String> {
    process::output(Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).args(args))
}

/// Returns the directory of the toolchain's component `llvm-tools`, which may be missing.
fn toolchain() -> Result<PathBuf, String> {
    let libraries = PathBuf::from(rustc(&["--print", "target-libdir"])?.trim());
    Ok(libraries.with_file_name("bin"))
}

/// Whether this directory has all tools in this major version and they start.
fn has(bin: &Path, major: u32) -> bool {
    PROGRAMS.iter().all(|name| {
        let version = process::output(Command::new(bin.join(name)).arg("--version"));
        version.is_ok_and(|version| tool_major(&version) == Some(major))
    })
}

/// Reads `LLVM version: 22.1.2`, as rustc prints it.
fn compiler_major(printed: &str) -> Option<u32> {
    major(printed, "LLVM version: ")
}

/// Reads `LLVM version 22.1.8` anywhere in what LLVM's tools print.
fn tool_major(printed: &str) -> Option<u32> {
    major(printed, "LLVM version ")
}

fn major(printed: &str, label: &str) -> Option<u32> {
    let (_, version) = printed.lines().find_map(|line| line.split_once(label))?;
    version.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_versions_are_read_from_version_output() {
        assert_eq!(compiler_major("release: 1.95.0\nLLVM version: 22.1.2\n"), Some(22));
        assert_eq!(tool_major("Debian LLVM version 22.1.8\n  Optimized build."), Some(22));
        assert_eq!(tool_major("LLVM:\n  LLVM version 9.0\n"), Some(9));
        assert_eq!(tool_major("something else 22"), None);
    }
}
