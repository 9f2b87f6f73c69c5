//! `cargo xtask image`: the binary of the image, in `target/image/muster`; the Dockerfile runs it.
//!
//! It is linked statically, so that the image holds nothing else. Against glibc, not musl: `ring` would need a C
//! compiler for musl, and the allocator of musl is slow for a program of many threads. What glibc cannot do without
//! its shared libraries is to look up names by plugins; the operator is told the address of its server as a number.

use std::fs;
use std::process::Command;

use xtask::process;

/// Builds it.
pub fn task(_: &[String]) -> Result<(), String> {
    let target = host()?;
    let mut cargo = process::cargo([
        "build",
        "--profile",
        "dist",
        "--locked",
        "--package",
        "muster",
        "--target",
        &target,
    ]);
    // The target is named even though it is the machine's own: flags then do not reach build scripts and macros, which
    // cannot be static.
    process::run(cargo.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    let made = process::root().join("target").join(&target).join("dist").join("muster");
    let folder = process::root().join("target").join("image");
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(&folder).map_err(wrong)?;
    fs::copy(&made, folder.join("muster")).map_err(wrong)?;
    eprintln!("{}", folder.join("muster").display());
    Ok(())
}

/// The name of this machine's kind.
fn host() -> Result<String, String> {
    let told = process::output(Command::new("rustc").arg("-vV"))?;
    let line = told.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "rustc does not tell its host".to_owned())
}
