//! Our embedded server as a user starts it: `muster up` in a process of its own.
//!
//! # Invariants
//!
//! - The binary is the one in `MUSTER_TEST_BINARY`, or it is built first, so that plain `cargo test` works.
//! - The server stops when the value is dropped, and when the test process is killed.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;

use crate::differential::ApiClient;

/// Polls of readiness, and the interval between them: three minutes in total.
const READY_TRIES: u32 = 1800;
const READY_PAUSE: Duration = Duration::from_millis(100);

const TICKS_PER_SEC: f64 = 100.0;
const PAGE_BYTES: u64 = 4096;

/// Shell script that runs a program and stops it when stdin is closed, which the kernel does when the test process exits for any
/// reason.
const GUARD: &str = r#""$@" & server=$!; cat >/dev/null; kill "$server"; wait "$server""#;

/// Builds a command that stops the program when stdin is closed.
pub(crate) fn guarded(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "sh"]).arg(program);
    command
}

/// A running `muster up`.
pub struct EmbeddedServer {
    folder: TempDir,
    /// Absent for a server that the test did not start.
    child: Option<Child>,
    kubeconfig: PathBuf,
}

impl Drop for EmbeddedServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Closing stdin makes the guard send SIGTERM; the server may have been killed before.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

impl EmbeddedServer {
    /// Returns the server that all tests of a process share: in memory, with three simulated nodes. `MUSTER_TEST_KUBECONFIG` replaces it by
    /// an existing server, to test the tests.
    pub fn shared() -> &'static EmbeddedServer {
        static PLANE: OnceLock<EmbeddedServer> = OnceLock::new();
        PLANE.get_or_init(|| match std::env::var_os("MUSTER_TEST_KUBECONFIG") {
            Some(path) => EmbeddedServer::existing(PathBuf::from(path)).expect("a folder can be made"),
            None => EmbeddedServer::start(&["--ephemeral", "--sim-nodes", "3"]).expect("muster up is ready"),
        })
    }

    fn existing(kubeconfig: PathBuf) -> Result<EmbeddedServer, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        Ok(EmbeddedServer { folder, child: None, kubeconfig })
    }

    /// Starts a server with additional arguments of `muster up`.
    pub fn start(args: &[&str]) -> Result<EmbeddedServer, String> {
        EmbeddedServer::start_in(&std::env::temp_dir(), args)
    }

    /// Starts a server with this `TMPDIR`.
    pub fn start_in(temporary: &Path, args: &[&str]) -> Result<EmbeddedServer, String> {
        let mut command = guarded(&binary()?);
        EmbeddedServer::spawn_ready(command.env("TMPDIR", temporary), args)
    }

    /// Starts a server with this `PATH`, in which its local node finds the programs of pods.
    pub fn start_with_path(path: &str, args: &[&str]) -> Result<EmbeddedServer, String> {
        let mut command = guarded(&binary()?);
        EmbeddedServer::spawn_ready(command.env("PATH", path), args)
    }

    fn spawn_ready(command: &mut Command, args: &[&str]) -> Result<EmbeddedServer, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        command.args(up(folder.path())).args(args).stdin(Stdio::piped());
        let mut child = spawn(command, folder.path())?;
        wait_ready(&mut child, folder.path())?;
        let kubeconfig = folder.path().join("kubeconfig");
        Ok(EmbeddedServer { folder, child: Some(child), kubeconfig })
    }

    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A directory for files of the test, removed with the server.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.folder.path()
    }

    pub fn server(&self) -> Result<ApiClient, String> {
        server(self.folder.path())
    }
}

/// A server with a data directory that can be killed and restarted.
pub struct RestartableServer {
    folder: TempDir,
    args: Vec<String>,
    child: Option<Child>,
}

impl Drop for RestartableServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl RestartableServer {
    /// Starts a server with an empty data directory and no controllers, so that only the test writes and advances the resource version.
    pub fn start() -> Result<RestartableServer, String> {
        RestartableServer::with_args(&["--controllers", ""])
    }

    /// Starts a server with an empty data directory and additional arguments of `muster up`.
    pub fn with_args(args: &[&str]) -> Result<RestartableServer, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut mortal = RestartableServer { folder, args, child: None };
        mortal.restart()?;
        Ok(mortal)
    }

    /// Returns CPU seconds since the last start, and resident memory in bytes; 0 where `/proc` is missing.
    #[must_use]
    pub fn usage(&self) -> (f64, u64) {
        let read = |file: &str| {
            let pid = self.child.as_ref().map_or(0, Child::id);
            std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
        };
        // The command name in parentheses may contain spaces; the numbers follow it.
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u32>().ok()).unwrap_or(0);
        let cpu_secs = f64::from(ticks(11) + ticks(12)) / TICKS_PER_SEC;
        let pages = read("statm").split_whitespace().nth(1).and_then(|f| f.parse::<u64>().ok());
        (cpu_secs, pages.unwrap_or(0) * PAGE_BYTES)
    }

    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sets the additional arguments for the next start.
    pub fn set_args(&mut self, args: &[&str]) {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
    }

    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Starts the server on the same data.
    pub fn restart(&mut self) -> Result<(), String> {
        let path = self.folder.path();
        let _ = std::fs::remove_file(path.join("kubeconfig"));
        let mut command = Command::new(binary()?);
        command.args(up(path)).arg("--data-dir").arg(self.data_dir()).args(&self.args);
        let child = spawn(command.stdin(Stdio::null()), path)?;
        wait_ready(self.child.insert(child), path)
    }

    pub fn server(&self) -> Result<ApiClient, String> {
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

fn server(folder: &Path) -> Result<ApiClient, String> {
    ApiClient::of_kubeconfig(&folder.join("kubeconfig"))
}

fn wait_ready(child: &mut Child, folder: &Path) -> Result<(), String> {
    for _ in 0..READY_TRIES {
        let ready = server(folder).and_then(|server| server.get("/readyz"));
        if ready.is_ok_and(|answer| answer.code == 200) {
            return Ok(());
        }
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("muster up exited with {status}: {}", log(folder)));
        }
        std::thread::sleep(READY_PAUSE);
    }
    Err(format!("muster up did not become ready: {}", log(folder)))
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Returns the binary under test.
pub fn binary() -> Result<PathBuf, String> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = BINARY.get_or_init(|| match std::env::var_os("MUSTER_TEST_BINARY") {
        Some(path) => Ok(PathBuf::from(path)),
        None => build(),
    });
    made.clone()
}

/// Builds the binary with the profile of the running test, which is in `target/PROFILE/deps`.
fn build() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| e.to_string())?;
    let folder = exe.ancestors().nth(2).ok_or("the test executable is not in a target directory")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(["build", "--quiet", "--package", "muster"]);
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().map_err(|e| format!("starting cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo build exited with {status}"));
    }
    Ok(folder.join("muster"))
}
