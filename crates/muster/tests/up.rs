//! `muster up` as a script sees it: lines, files, exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A process that does not outlive the test.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn start(flags: &[&str]) -> Running {
        let mut child = muster(flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("muster is ready at https://").map(str::to_owned);
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}"));
        Running { child, address }
    }

    fn terminate(mut self) -> i32 {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code().expect("it ends by itself, not by the signal")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn muster(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.arg("up").args(flags);
    command
}

fn refused(flags: &[&str]) -> String {
    let Output { status, stderr, .. } = muster(flags).output().unwrap();
    assert_eq!(status.code(), Some(2), "{flags:?}");
    String::from_utf8(stderr).unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn what_is_in_use_is_refused_with_the_name_of_who_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let first = Running::start(&["--data-dir", text(&data), "--listen", "127.0.0.1:0"]);
    let pid = first.child.id().to_string();

    let error = refused(&["--ephemeral", "--listen", &first.address]);
    assert!(error.contains(&format!("{} is in use by muster (pid {pid})", first.address)), "{error}");
    let error = refused(&["--data-dir", text(&data), "--listen", "127.0.0.1:0"]);
    assert!(error.contains(&format!("{} is in use by muster (pid {pid})", data.display())), "{error}");

    let kubeconfig = data.join("kubeconfig");
    assert_eq!(std::fs::metadata(&kubeconfig).unwrap().permissions().mode() & 0o777, 0o600);
    let before = std::fs::read_to_string(&kubeconfig).unwrap();
    assert_eq!(first.terminate(), 0);

    let second = Running::start(&["--data-dir", text(&data), "--listen", "127.0.0.1:0"]);
    let authority = |config: &str| {
        let line = config.lines().find(|l| l.contains("certificate-authority-data"));
        line.map(str::to_owned).expect("a kubeconfig has an authority")
    };
    let after = std::fs::read_to_string(&kubeconfig).unwrap();
    assert_eq!(authority(&before), authority(&after), "the authority belongs to the data directory");
    drop(second);
}

#[test]
fn nonsense_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "apiVersion: muster.dev/v1alpha1\nkind: Configuration\nlistne: x\n").unwrap();
    for (flags, words) in [
        (&["--ephemeral", "--controllers", "jobs"][..], "unknown controller `jobs`"),
        (&["--ephemeral", "--admission", "x"], "unknown admission step `x`"),
        (&["--ephemeral", "--feature-gates", "X=true"], "unknown feature gate `X`"),
        (&["--ephemeral", "--config", text(&config)], "listne"),
        (&["--ephemeral", "--data-dir", "x"], "cannot be used with"),
        (&["--ephemeral", "--listen", "here"], "invalid"),
    ] {
        let error = refused(flags);
        assert!(error.contains(words), "{flags:?}: {error}");
    }
}
