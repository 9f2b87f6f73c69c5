//! Our own server, as a user starts it: `muster up` in a process of its own.
//!
//! # Invariants
//!
//! - The binary is the one that `MUSTER_TEST_BINARY` names, or it is built first, so that plain `cargo test` works.
//! - The server ends with the value, and with the test process when that is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use crate::differential::Server;

/// How often one looks whether the server is ready, and how long apart.
const READY_TRIES: u32 = 1800;
const READY_PAUSE: Duration = Duration::from_millis(100);

/// Units of `/proc`.
const TICKS_PER_SEC: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

/// Starts the program given as arguments and ends it when its own input closes, which it does when the test
/// process is gone, however it went.
const GUARD: &str = r#""$@" & server=$!; cat >/dev/null; kill "$server"; wait "$server""#;

/// A command that starts this program, and ends it when the input of the command closes.
pub(crate) fn guarded(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).arg(program);
    command
}

/// A running server.
pub struct Plane {
    folder: TempDir,
    /// Absent for a server that was there before.
    child: Option<Child>,
    kubeconfig: PathBuf,
}

impl Drop for Plane {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Closing the guard's input is the orderly end; a server that was killed before is fine too.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

impl Plane {
    /// One server for all tests of a process: in memory, with a few simulated nodes; or, to test the tests, the
    /// one whose kubeconfig `MUSTER_TEST_KUBECONFIG` names.
    pub fn shared() -> &'static Plane {
        static PLANE: OnceLock<Plane> = OnceLock::new();
        PLANE.get_or_init(|| match std::env::var_os("MUSTER_TEST_KUBECONFIG") {
            Some(path) => Plane::given(PathBuf::from(path)).expect("a folder can be made"),
            None => Plane::start(&["--ephemeral", "--sim-nodes", "3"]).expect("muster up is ready"),
        })
    }

    fn given(kubeconfig: PathBuf) -> Result<Plane, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        Ok(Plane { folder, child: None, kubeconfig })
    }

    /// Starts a server with these further arguments of `muster up`.
    pub fn start(args: &[&str]) -> Result<Plane, String> {
        Plane::start_in(&std::env::temp_dir(), args)
    }

    /// Starts a server whose temporary files are in this folder.
    pub fn start_in(temporary: &Path, args: &[&str]) -> Result<Plane, String> {
        let mut command = guarded(&binary()?);
        Plane::begin(command.env("TMPDIR", temporary), args)
    }

    /// Starts a server with this path: its local node looks there for the programs of pods.
    pub fn start_with_path(path: &str, args: &[&str]) -> Result<Plane, String> {
        let mut command = guarded(&binary()?);
        Plane::begin(command.env("PATH", path), args)
    }

    fn begin(command: &mut Command, args: &[&str]) -> Result<Plane, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        command.args(up(folder.path())).args(args).stdin(Stdio::piped());
        let mut child = spawn(command, folder.path())?;
        wait_ready(&mut child, folder.path())?;
        let kubeconfig = folder.path().join("kubeconfig");
        Ok(Plane { folder, child: Some(child), kubeconfig })
    }

    /// The kubeconfig it wrote.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A folder for whatever a test needs, gone with the server.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Talks to it as the administrator.
    pub fn server(&self) -> Result<Server, String> {
        server(self.folder.path())
    }
}

/// A server with a data folder that can be killed without warning and started again.
pub struct Mortal {
    folder: TempDir,
    args: Vec<String>,
    child: Option<Child>,
}

impl Drop for Mortal {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Mortal {
    /// Starts one with an empty data folder in which nobody else writes, so that revisions belong to the test alone.
    pub fn start() -> Result<Mortal, String> {
        Mortal::with(&["--controllers", ""])
    }

    /// Starts one with an empty data folder and these further arguments of `muster up`.
    pub fn with(args: &[&str]) -> Result<Mortal, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut mortal = Mortal { folder, args, child: None };
        mortal.revive()?;
        Ok(mortal)
    }

    /// Seconds of CPU since it was started last, and bytes of resident memory; 0 where the system does not tell.
    #[must_use]
    pub fn usage(&self) -> (f64, u64) {
        let read = |file: &str| {
            let pid = self.child.as_ref().map_or(0, Child::id);
            std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
        };
        // The name in parentheses may hold anything; the numbers come after it.
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u32>().ok()).unwrap_or(0);
        let cpu_secs = f64::from(ticks(11) + ticks(12)) / TICKS_PER_SEC;
        let pages = read("statm").split_whitespace().nth(1).and_then(|f| f.parse::<u64>().ok());
        (cpu_secs, pages.unwrap_or(0) * PAGE_BYTES)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have died by itself, which the next start will show.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Takes these further arguments of `muster up` from the next start on.
    pub fn change(&mut self, args: &[&str]) {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    }

    /// The kubeconfig it wrote.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts again on the same data.
    pub fn revive(&mut self) -> Result<(), String> {
        let path = self.folder.path();
        let _ = std::fs::remove_file(path.join("kubeconfig"));
        let mut command = Command::new(binary()?);
        command.args(up(path)).arg("--data-dir").arg(self.data()).args(&self.args);
        let child = spawn(command.stdin(Stdio::null()), path)?;
        wait_ready(self.child.insert(child), path)
    }

    /// Talks to it as the administrator.
    pub fn server(&self) -> Result<Server, String> {
        server(self.folder.path())
    }
}

fn up(folder: &Path) -> Vec<String> {
    let kubeconfig = folder.join("kubeconfig").display().to_string();
    ["up", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig].map(str::to_owned).into()
}

fn spawn(command: &mut Command, folder: &Path) -> Result<Child, String> {
    let log =
        File::options().create(true).append(true).open(folder.join("log")).map_err(|e| e.to_string())?;
    let again = log.try_clone().map_err(|e| e.to_string())?;
    command.stdout(log).stderr(again).spawn().map_err(|e| format!("starting muster: {e}"))
}

fn server(folder: &Path) -> Result<Server, String> {
    Server::of_kubeconfig(&folder.join("kubeconfig"))
}

fn wait_ready(child: &mut Child, folder: &Path) -> Result<(), String> {
    for _ in 0..READY_TRIES {
        let ready = server(folder).and_then(|server| server.get("/readyz"));
        if ready.is_ok_and(|answer| answer.code == 200) {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("muster up ended with {status}: {}", log(folder)));
        }
        std::thread::sleep(READY_PAUSE);
    }
    Err(format!("muster up did not become ready: {}", log(folder)))
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// The binary under test.
pub fn binary() -> Result<PathBuf, String> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = BINARY.get_or_init(|| match std::env::var_os("MUSTER_TEST_BINARY") {
        Some(path) => Ok(PathBuf::from(path)),
        None => build(),
    });
    made.clone()
}

/// Builds the binary with the profile of this very test, whose own file lies in `target/PROFILE/deps`.
fn build() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = exe.ancestors().nth(2).ok_or("the test binary lies in no target folder")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--package", "muster"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().map_err(|e| format!("starting cargo: {e}"))?;
    if !status.success() {
        return Err(format!("building muster ended with {status}"));
    }
    Ok(folder.join("muster"))
}
