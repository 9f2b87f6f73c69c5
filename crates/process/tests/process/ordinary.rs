//! Runs all other tests again as an unprivileged user if the tests run as root.

use std::process::Command;

/// The UID of `nobody`.
const NOBODY: &str = "65534";

#[test]
fn the_same_as_an_ordinary_user() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|rest| rest.split_whitespace().next());
    if uid != Some("0") {
        eprintln!("skipped: these tests are run by an ordinary user already");
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let open: std::fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), open).unwrap();
    let own = std::env::current_exe().unwrap();
    // The build directory may be inaccessible to other users: use copies.
    let copies =
        [("tests", own.as_path()), ("hidden", std::path::Path::new(env!("CARGO_BIN_EXE_muster-hidden")))];
    for (name, from) in copies {
        std::fs::copy(from, scratch.path().join(name)).unwrap();
    }
    let run = Command::new("setpriv")
        .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"])
        .arg(scratch.path().join("tests"))
        .args(["--skip", "ordinary::", "--skip", "logs::"])
        .env("TMPDIR", scratch.path())
        .env("MUSTER_HIDDEN", scratch.path().join("hidden"))
        .env("HOME", scratch.path())
        .current_dir(scratch.path())
        .output();
    match run {
        Err(error) => eprintln!("skipped: setpriv: {error}"),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{text}");
        }
    }
}
