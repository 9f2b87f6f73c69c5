//! `cargo xtask image`: builds the binary of the image into `target/image/muster`. The Dockerfile runs this task.
//!
//! The binary is linked statically, so that the image needs no other file. It links glibc, not musl: `ring` needs a C compiler
//! for musl, and musl's allocator is slow with many threads. Static glibc cannot resolve host names through NSS plugins; the
//! operator gets the address of the API server as an IP address.

use std::fs;
use std::process::Command;

use xtask::process;

/// The task.
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
    // With an explicit target, cargo does not apply RUSTFLAGS to build scripts and proc macros, which cannot be linked
    // statically.
    process::run(cargo.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    let binary = process::root().join("target").join(&target).join("dist").join("muster");
    let directory = process::root().join("target").join("image");
    let wrong = |e: std::io::Error| format!("{}: {e}", directory.display());
    fs::create_dir_all(&directory).map_err(wrong)?;
    fs::copy(&binary, directory.join("muster")).map_err(wrong)?;
    eprintln!("{}", directory.join("muster").display());
    Ok(())
}

/// Returns the target triple of this host.
fn host() -> Result<String, String> {
    let version = process::output(Command::new("rustc").arg("-vV"))?;
    let line = version.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| "rustc prints no host".to_owned())
}
