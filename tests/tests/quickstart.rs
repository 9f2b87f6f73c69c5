//! The examples that run as processes of this machine, and the recording in the README.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use muster_tests::clients::skip;
use muster_tests::embedded_server::binary;
use tempfile::TempDir;

/// The user `nobody`, without rights.
const NOBODY: &str = "65534";
/// What stands around the recording.
const BEGIN: &str =
    "<!-- recorded by `MUSTER_RECORD=1 cargo test --package muster-tests quickstart` -->\n```text\n";
const END: &str = "```\n<!-- end of the recording -->";
/// The command that is recorded.
const COMMAND: &str = "cargo run --release -- run -f examples/hello-ranks.yaml";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The owner of the processes.
#[derive(Clone, Copy, Debug)]
enum User {
    /// The user that runs the tests.
    Same,
    Nobody,
}

/// Runs an example; its exit code and everything it said, in order.
fn run(example: &str, user: User) -> (i32, String) {
    // A place that the other user can read and write, unlike the one the tests were built in.
    let folder = TempDir::new().unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    open(folder.path());
    let (program, file) = (folder.path().join("muster"), folder.path().join(example));
    // By another process: a program that this one has open for writing, as any process begun meanwhile would too,
    // cannot be run.
    assert!(Command::new("cp").arg(binary().unwrap()).arg(&program).status().unwrap().success());
    std::fs::copy(root().join("examples").join(example), &file).unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    open(&home);
    let mut command = match user {
        User::Same => Command::new("sh"),
        User::Nobody => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "sh"]);
            command
        }
    };
    command.args(["-c", r#"exec "$0" run --timeout 2m -f "$1" 2>&1"#]).arg(&program).arg(&file);
    command.current_dir(folder.path()).env("HOME", &home).env("TMPDIR", folder.path());
    command.env_remove("XDG_DATA_HOME").stdin(Stdio::null());
    let output = command.output().unwrap();
    (output.status.code().unwrap_or(-1), String::from_utf8(output.stdout).unwrap())
}

/// Why another user cannot be tried.
fn not_root() -> Option<&'static str> {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    let has_setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    match (is_root, has_setpriv) {
        (false, _) => Some("only root can become another user; the tests themselves run as an ordinary one"),
        (true, false) => Some("there is no setpriv"),
        (true, true) => None,
    }
}

/// Both users, as far as they can be had.
fn users(test: &str) -> Vec<User> {
    match not_root() {
        Some(why) => {
            skip(test, why);
            vec![User::Same]
        }
        None => vec![User::Same, User::Nobody],
    }
}

#[test]
fn ranks_say_hello() {
    for user in users("ranks_say_hello as nobody") {
        let (code, said) = run("hello-ranks.yaml", user);
        assert_eq!(code, 0, "{user:?}: {said}");
        for rank in 0..4 {
            let sum: usize = (rank..=1000).step_by(4).sum();
            assert!(said.contains(&format!("| rank {rank} has {sum}\n")), "{user:?}: {said}");
        }
        assert!(said.contains("job/hello-ranks  completed  4"), "{user:?}: {said}");
    }
}

#[test]
fn two_processes_find_each_other_by_name() {
    let test = "two_processes_find_each_other_by_name";
    if Command::new("python3").arg("--version").output().is_err() {
        return skip(test, "there is no python3");
    }
    for user in users(test) {
        let (code, said) = run("talk.yaml", user);
        assert_eq!(code, 0, "{user:?}: {said}");
        for (me, other) in [(0, 1), (1, 0)] {
            assert!(
                said.contains(&format!("| rank {me} heard: hello from rank {other}\n")),
                "{user:?}: {said}"
            );
        }
    }
}

/// What is the same in every run: lines of pods in the order of pods, without random names and times.
fn essence(recording: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut spoken = Vec::new();
    for line in
        recording.lines().filter(|line| !line.starts_with("$ ") && !line.starts_with("job/hello-ranks: "))
    {
        match line.split_once(" | ") {
            Some((pod, text)) => {
                spoken.push((pod.rsplit_once('-').map_or(pod, |(name, _)| name).to_owned(), text));
            }
            // Without the time in the last column.
            None if line.starts_with("job/") => {
                lines.push(line.rsplit_once("  ").map_or(line, |(row, _)| row).to_owned());
            }
            None => lines.push(line.to_owned()),
        }
    }
    // Stable: what one pod says stays in order.
    spoken.sort_by(|a, b| a.0.cmp(&b.0));
    spoken.into_iter().map(|(pod, text)| format!("{pod} | {text}")).chain(lines).collect()
}

/// With `MUSTER_RECORD` set the recording is made anew.
#[test]
fn the_readme_shows_what_happens() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).expect("the README has a recording");
    let (recorded, after) = rest.split_once(END).expect("the recording ends");
    let (code, said) = run("hello-ranks.yaml", User::Same);
    assert_eq!(code, 0, "{said}");
    let fresh = format!("$ {COMMAND}\n{said}");
    if std::env::var_os("MUSTER_RECORD").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{fresh}{END}{after}")).unwrap();
        return;
    }
    assert!(readme.contains(COMMAND), "the first command is the recorded one");
    assert_eq!(essence(recorded), essence(&fresh), "record it anew with MUSTER_RECORD=1");
}
