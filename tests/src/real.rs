//! A real Kubernetes on loopback: etcd, kube-apiserver and, of the controller manager, only what the scenarios need.
//!
//! The binaries come from `KUBEBUILDER_ASSETS` or from the cache folder that `cargo xtask kube` fills. Everything else
//! lives in a temporary folder.
//!
//! # Invariants
//!
//! - The processes end with the value, and with the test process however that ends: a plane shared by all tests of a
//!   process is never dropped.

mod audit;
mod installed;
mod parts;
mod slots;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use muster_tree::Tree;
use tempfile::TempDir;

use self::parts::{
    FRONT_PROXY, NODE_AUTHORITY, apiserver, component, controller, etcd, gates, kubeconfig, spawn, write,
};
use crate::differential::{Server, Step};
use crate::ports;

pub use self::installed::Installed;

/// The version the binaries are built from.
const KUBE: &str = "kube-1.37.1";
/// The only user.
pub(crate) const TOKEN: &str = "judge-token";
/// The definition of JobSets.
pub const JOBSETS: &str = "jobsets.jobset.x-k8s.io";
/// How long the server may take to be ready.
const READY_TRIES: u32 = 1800;
/// How long a command of ours may take to end.
const STOP_TRIES: u32 = 750;
const STOP_PAUSE: Duration = Duration::from_millis(20);
/// The pause between two looks.
const READY_PAUSE: Duration = Duration::from_millis(100);
/// Ends the processes given as arguments when its own input closes, which it does when the test process is gone.
const GUARD: &str = r#"cat >/dev/null; kill -9 "$@""#;
/// Whether etcd waits for the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// As in production: a write is acknowledged when the disk has it.
    Synced,
    /// `--unsafe-no-fsync`: quicker, for planes that end with their test.
    Unsynced,
}

/// Whether the API server has the kinds of gangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gangs {
    /// Workloads and PodGroups are served, and pods have a field for their group.
    Native,
    /// The same, and all that their objects can say at most: ours keeps those fields, too.
    Whole,
    /// As every server is unless told otherwise: neither.
    Absent,
}

/// A running real plane.
pub struct Real {
    /// Talks to it as an administrator.
    pub server: Server,
    /// Ended when dropped, in this order.
    processes: Vec<Child>,
    /// Those of them that are commands of ours.
    ours: Vec<u32>,
    /// What operators say; they would end if nobody listened.
    heard: Vec<ChildStdout>,
    guards: Vec<Child>,
    /// The ports of etcd and of the API server, and the process of the latter.
    ports: (u16, u16),
    apiserver: u32,
    gangs: Gangs,
    folder: TempDir,
    _slot: slots::Running,
}

impl Drop for Real {
    fn drop(&mut self) {
        self.stop_ours();
        // The guards go first: later the numbers of the processes may be another's.
        for child in self.guards.iter_mut().chain(&mut self.processes) {
            // Already gone is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A program of the pinned Kubernetes: in `KUBEBUILDER_ASSETS` or else in the cache folder.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| Path::new(&folder).join(name));
    let cached = cache().map(|folder| folder.join(KUBE).join(name));
    let found = [given, cached].into_iter().flatten().find(|path| path.exists());
    found.ok_or_else(|| {
        format!("{name} of {KUBE} is neither in KUBEBUILDER_ASSETS nor in the cache folder: run `cargo xtask kube`")
    })
}

/// The program of an upstream controller, named with its version.
pub fn peer(name: &str) -> Result<PathBuf, String> {
    let found = cache().map(|folder| folder.join("peers").join(name)).filter(|path| path.exists());
    found.ok_or_else(|| format!("{name} is not in the cache folder: run `cargo xtask peers`"))
}

/// Where `cargo xtask` keeps what it builds of others.
fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.map(|folder| folder.join("muster"))
}

/// Why no real plane can be started here, if so.
pub fn missing() -> Option<String> {
    if let Ok(reason) = std::env::var("MUSTER_TEST_WITHOUT_REAL") {
        return Some(reason);
    }
    let mut programs = ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter();
    let reason = programs.find_map(|name| program(name).err())?;
    Some(std::env::var("MUSTER_TEST_REAL_MISSING").unwrap_or(reason))
}

impl Real {
    /// A node of ours that is killed leaves its pods running, so ours are asked to end.
    fn stop_ours(&mut self) {
        let is_ours = |child: &&mut Child| self.ours.contains(&child.id());
        let ours: Vec<&mut Child> = self.processes.iter_mut().filter(is_ours).collect();
        for child in &ours {
            // Already gone is fine.
            let _ =
                Command::new("kill").args(["-TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
        }
        for child in ours {
            let ended = (0..STOP_TRIES).any(|_| {
                std::thread::sleep(STOP_PAUSE);
                !matches!(child.try_wait(), Ok(None))
            });
            if !ended {
                eprintln!("process {} of ours does not end and is killed", child.id());
            }
        }
    }

    /// Starts one with the only controllers that do not write into the objects that are compared.
    pub fn start() -> Result<Real, String> {
        Real::with(&["gc", "namespace"])
    }

    /// Starts one with these controllers, by the names that our `--controllers` has; `scheduler` is one of them.
    pub fn with(controllers: &[&str]) -> Result<Real, String> {
        Real::with_disk(Disk::Unsynced, controllers)
    }

    /// The same, with etcd on this kind of disk.
    pub fn with_disk(disk: Disk, controllers: &[&str]) -> Result<Real, String> {
        let mut real = Real::start_without_controllers(disk)?;
        let (scheduler, others): (Vec<&str>, Vec<&str>) =
            controllers.iter().partition(|name| **name == "scheduler");
        if !others.is_empty() {
            real.start_controllers(&others)?;
        }
        if !scheduler.is_empty() {
            real.start_scheduler()?;
        }
        Ok(real)
    }

    /// Starts the controller manager with these controllers alone; returns the process.
    pub fn start_controllers(&mut self, controllers: &[&str]) -> Result<u32, String> {
        let config = self.own_kubeconfig()?.display().to_string();
        let names = controllers.iter().map(|name| controller(name)).collect::<Result<Vec<_>, _>>()?;
        let names = format!("--controllers={}", names.join(","));
        // Some claims are only looked at again by the clock.
        let often = "--pvclaimbinder-sync-period=1s";
        let mut command = component("kube-controller-manager", &config)?;
        self.add(spawn(command.arg(names).arg(often).args(gates(self.gangs)))?)
    }

    /// Starts another's program beside it, as the command says; returns the process.
    pub fn start_other(&mut self, command: &mut Command) -> Result<u32, String> {
        let program = command.get_program().to_owned();
        self.add(command.spawn().map_err(|e| format!("{}: {e}", program.display()))?)
    }

    /// Starts kube-scheduler; returns the process.
    pub fn start_scheduler(&mut self) -> Result<u32, String> {
        let config = self.own_kubeconfig()?.display().to_string();
        self.add(spawn(component("kube-scheduler", &config)?.args(gates(self.gangs)))?)
    }

    /// Gives it simulated nodes, which are ours on either plane; returns the process that plays them.
    pub fn join(&mut self, binary: &Path, nodes: usize) -> Result<u32, String> {
        let data = self.folder.path().join("node").display().to_string();
        self.start_ours(binary, &["node", "--sim-nodes", &nodes.to_string(), "--data-dir", &data])
    }

    /// Makes this machine a node of it, under this name, in this isolation; returns the process.
    pub fn join_local(&mut self, binary: &Path, name: &str, isolation: &str) -> Result<u32, String> {
        let data = self.folder.path().join(format!("node-{name}")).display().to_string();
        let authority = self.folder.path().join(NODE_AUTHORITY).display().to_string();
        let words = ["node", "--local", "--name", name, "--isolation", isolation, "--data-dir", &data];
        self.start_ours(binary, &[&words[..], &["--client-ca", &authority]].concat())
    }

    /// Starts a command of ours beside it; returns the process.
    pub fn start_ours(&mut self, binary: &Path, words: &[&str]) -> Result<u32, String> {
        let config = self.own_kubeconfig()?;
        let child = spawn(Command::new(binary).args(words).arg("--kubeconfig").arg(config))?;
        self.ours.push(child.id());
        self.add(child)
    }

    /// Starts `muster operator` beside it with these further words and waits until it is in charge; returns the process.
    /// It has the rights of an administrator, and registers its webhooks itself.
    pub fn operate(&mut self, binary: &Path, words: &[&str]) -> Result<u32, String> {
        let config = self.own_kubeconfig()?;
        self.start_operator(binary, &[&["operator"], words].concat(), &config)
    }

    fn start_operator(&mut self, binary: &Path, words: &[&str], config: &Path) -> Result<u32, String> {
        let log = self.folder.path().join("operator.log");
        let complaints = std::fs::File::create(&log).map_err(|e| e.to_string())?;
        let mut command = Command::new(binary);
        command.args(words).arg("--kubeconfig").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", binary.display()))?;
        let mut said = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        self.ours.push(child.id());
        let pid = self.add(child)?;
        let mut line = String::new();
        said.read_line(&mut line).map_err(|e| e.to_string())?;
        self.heard.push(said.into_inner());
        if line.starts_with("muster is in charge") {
            return Ok(pid);
        }
        Err(format!("muster operator: {line}{}", std::fs::read_to_string(&log).unwrap_or_default()))
    }

    /// What the installed operator has asked for, in the words of the server: one event a line.
    #[must_use]
    pub fn audited(&self) -> Vec<Tree> {
        let text = std::fs::read_to_string(audit::log(self.folder.path())).unwrap_or_default();
        text.lines().filter_map(|line| Tree::parse(line.as_bytes()).ok()).collect()
    }

    /// What the latest operator has complained about.
    #[must_use]
    pub fn complaints(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("operator.log")).unwrap_or_default()
    }

    /// Tells it what JobSets are.
    pub fn define_jobsets(&self, binary: &Path) -> Result<(), String> {
        define_jobsets(&self.server, binary)
    }

    /// Tells it what JobSets are, by this definition.
    pub fn define(&self, definition: Vec<u8>) -> Result<(), String> {
        define(&self.server, definition)
    }

    pub(crate) fn own_kubeconfig(&self) -> Result<PathBuf, String> {
        // Written once: a process started before may still be about to read it.
        let path = self.folder.path().join("kubeconfig");
        if path.exists() { Ok(path) } else { self.kubeconfig(self.folder.path(), self.server.base()) }
    }

    /// Starts only etcd and kube-apiserver.
    pub fn start_without_controllers(disk: Disk) -> Result<Real, String> {
        Real::bare(disk, Gangs::Whole)
    }

    /// The same, with or without the kinds of gangs.
    pub fn with_gangs(gangs: Gangs) -> Result<Real, String> {
        Real::bare(Disk::Unsynced, gangs)
    }

    fn bare(disk: Disk, gangs: Gangs) -> Result<Real, String> {
        let slot = slots::Running::take();
        slots::starting(|| Real::started(disk, gangs, slot))
    }

    fn started(disk: Disk, gangs: Gangs, slot: slots::Running) -> Result<Real, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let [client, peer, secure] = [(); 3].map(|()| ports::free());
        let server = Server::new(&format!("https://127.0.0.1:{secure}"), TOKEN);
        let mut real = Real {
            server,
            processes: Vec::new(),
            ours: Vec::new(),
            heard: Vec::new(),
            guards: Vec::new(),
            ports: (client, secure),
            apiserver: 0,
            gangs,
            folder,
            _slot: slot,
        };
        real.add(etcd(real.folder.path(), client, peer, disk)?)?;
        real.start_server()?;
        real.wait()?;
        Ok(real)
    }

    fn start_server(&mut self) -> Result<(), String> {
        let (etcd, secure) = self.ports;
        self.apiserver = self.add(apiserver(self.folder.path(), etcd, secure, self.gangs)?)?;
        Ok(())
    }

    /// Kills the API server and starts it again, on the same port and the same etcd; returns when it is ready.
    pub fn restart_server(&mut self) -> Result<(), String> {
        self.stop_server()?;
        self.start_server_again()
    }

    /// Kills the API server.
    pub fn stop_server(&mut self) -> Result<(), String> {
        self.kill(self.apiserver)
    }

    /// Starts it again, on the same port and the same etcd; returns when it is ready.
    pub fn start_server_again(&mut self) -> Result<(), String> {
        self.start_server()?;
        self.wait()
    }

    /// Kills a process of it as `kill -9` does, and waits for its end.
    pub fn kill(&mut self, pid: u32) -> Result<(), String> {
        let found = self.processes.iter().position(|child| child.id() == pid);
        let found = found.ok_or_else(|| format!("{pid} is no process of this plane"))?;
        // The guard goes first: later the number may be another's. Guards stand in the other order.
        let mut guard = self.guards.remove(self.guards.len() - 1 - found);
        let mut child = self.processes.remove(found);
        self.ours.retain(|it| *it != pid);
        let ended = [&mut guard, &mut child].map(|it| it.kill().and_then(|()| it.wait()));
        ended.into_iter().try_for_each(|it| it.map(|_| ()).map_err(|e| format!("killing {pid}: {e}")))
    }

    /// Takes charge of a process: the latest is the first to be ended.
    fn add(&mut self, child: Child) -> Result<u32, String> {
        let pid = child.id();
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "sh", &child.id().to_string()]).stdin(Stdio::piped()).stderr(Stdio::null());
        self.processes.insert(0, child);
        self.guards.push(guard.spawn().map_err(|e| format!("starting sh: {e}"))?);
        Ok(pid)
    }

    /// Writes a kubeconfig for its administrator, who calls it at `address`: its own, or that of somebody between.
    pub fn kubeconfig(&self, folder: &Path, address: &str) -> Result<PathBuf, String> {
        write(folder, "kubeconfig", &kubeconfig(address)).map(PathBuf::from)
    }

    /// The file with the certificate of its API server, and who signed it.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certs").join("apiserver.crt")
    }

    /// The files with what its API server shows to those it hands groups on to: the certificate and its key.
    #[must_use]
    pub fn front_proxy(&self) -> [PathBuf; 2] {
        [FRONT_PROXY[1], FRONT_PROXY[2]].map(|name| self.folder.path().join(name))
    }

    /// The bearer token of its administrator.
    #[must_use]
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    /// Its processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Child::id).collect()
    }

    fn wait(&self) -> Result<(), String> {
        for _ in 0..READY_TRIES {
            if self.server.get("/readyz").is_ok_and(|answer| answer.code == 200) {
                return Ok(());
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err("the real kube-apiserver did not become ready".into())
    }
}

/// Tells a server what JobSets are, by the definition that `muster crds` prints, and waits until it serves them.
pub(crate) fn define_jobsets(server: &Server, binary: &Path) -> Result<(), String> {
    define(server, definition(binary, JOBSETS)?.to_json_bytes())
}

/// The definition of this name among those that `muster crds` prints.
pub fn definition(binary: &Path, name: &str) -> Result<Tree, String> {
    let printed = Command::new(binary).args(["crds", "--output", "json"]).output();
    let printed = printed.map_err(|e| format!("{}: {e}", binary.display()))?.stdout;
    let all = Tree::parse(&printed).map_err(|e| e.to_string())?;
    let found = all.items_at(&["items"]).iter().find(|it| it.str_at(&["metadata", "name"]) == name);
    found.cloned().ok_or_else(|| format!("muster crds does not print {name}"))
}

fn define(server: &Server, definition: Vec<u8>) -> Result<(), String> {
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = server.send("POST", all, &Step::default(), definition)?;
    if made.code != 201 {
        return Err(made.body.to_json());
    }
    for _ in 0..READY_TRIES {
        if server.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets")?.code == 200 {
            return Ok(());
        }
        std::thread::sleep(READY_PAUSE);
    }
    Err("JobSets were never served".to_owned())
}
