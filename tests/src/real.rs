//! A real Kubernetes on loopback: etcd, kube-apiserver and, of the controller manager, only what the scenarios need.
//!
//! The binaries come from `KUBEBUILDER_ASSETS` or from the cache folder that `cargo xtask kube` fills. Everything else
//! lives in a temporary folder.
//!
//! # Invariants
//!
//! - Controllers, operators and nodes end with the value, and with the test process however that ends: a plane shared by all
//!   tests of a process is never dropped.
//! - etcd and kube-apiserver stay for the next plane of the same kind ([`pool`]), which finds them without any object of the
//!   one before ([`wipe`]).

mod audit;
mod backend;
mod installed;
mod parts;
mod pool;
mod process;
mod slots;
mod wipe;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use muster_tree::Tree;
use tempfile::TempDir;

use self::backend::Backend;
use self::parts::{FRONT_PROXY, NODE_AUTHORITY, component, controller, gates, kubeconfig, spawn, write};
use self::process::Guarded;
use crate::differential::{Server, Step};

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

/// Which CRDs a plane may begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Definitions {
    /// None: as a new server.
    Absent,
    /// Those of an earlier plane may be there, without objects. Establishing them costs the API server as much CPU time as its own
    /// start, and `muster install` applies them again.
    Left,
}

/// Whether etcd and kube-apiserver may serve one plane after the other.
pub use self::pool::never_reuse;

/// A running real plane.
pub struct Real {
    /// Talks to it as an administrator.
    pub server: Server,
    /// What runs beside the API server; ended when dropped, in this order.
    processes: Vec<Guarded>,
    /// Those of them that are commands of ours.
    ours: Vec<u32>,
    /// What operators say; they would end if nobody listened.
    heard: Vec<ChildStdout>,
    /// Present until the value is dropped.
    backend: Option<Backend>,
    /// Where the audit log of this plane begins: what is before belongs to an earlier one.
    audited_from: u64,
    folder: TempDir,
    _slot: slots::Running,
}

impl Drop for Real {
    fn drop(&mut self) {
        self.stop_ours();
        self.processes.iter_mut().for_each(Guarded::end);
        if let Some(backend) = self.backend.take() {
            pool::give_back(backend);
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
        let is_ours = |it: &&mut Guarded| self.ours.contains(&it.id());
        let ours: Vec<&mut Child> =
            self.processes.iter_mut().filter(is_ours).map(|it| &mut it.child).collect();
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
        self.add(spawn(command.arg(names).arg(often).args(gates(self.backend().gangs)))?)
    }

    /// Starts another's program beside it, as the command says; returns the process.
    pub fn start_other(&mut self, command: &mut Command) -> Result<u32, String> {
        let program = command.get_program().to_owned();
        self.add(command.spawn().map_err(|e| format!("{}: {e}", program.display()))?)
    }

    /// Starts kube-scheduler; returns the process.
    pub fn start_scheduler(&mut self) -> Result<u32, String> {
        let config = self.own_kubeconfig()?.display().to_string();
        self.add(spawn(component("kube-scheduler", &config)?.args(gates(self.backend().gangs)))?)
    }

    /// Gives it simulated nodes, which are ours on either plane; returns the process that plays them.
    pub fn join(&mut self, binary: &Path, nodes: usize) -> Result<u32, String> {
        let data = self.folder.path().join("node").display().to_string();
        self.start_ours(binary, &["node", "--sim-nodes", &nodes.to_string(), "--data-dir", &data])
    }

    /// Makes this machine a node of it, under this name, in this isolation; returns the process.
    pub fn join_local(&mut self, binary: &Path, name: &str, isolation: &str) -> Result<u32, String> {
        let data = self.folder.path().join(format!("node-{name}")).display().to_string();
        let authority = self.backend().path().join(NODE_AUTHORITY).display().to_string();
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
        let text = std::fs::read(audit::log(self.backend().path())).unwrap_or_default();
        let from = usize::try_from(self.audited_from).unwrap_or(usize::MAX).min(text.len());
        String::from_utf8_lossy(&text[from..])
            .lines()
            .filter_map(|line| Tree::parse(line.as_bytes()).ok())
            .collect()
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
        Real::bare(disk, Gangs::Whole, Definitions::Absent)
    }

    /// The same, with or without the kinds of gangs.
    pub fn with_gangs(gangs: Gangs) -> Result<Real, String> {
        Real::bare(Disk::Unsynced, gangs, Definitions::Absent)
    }

    /// The same, to install Muster on.
    pub fn to_install_on(gangs: Gangs) -> Result<Real, String> {
        Real::bare(Disk::Unsynced, gangs, Definitions::Left)
    }

    fn bare(disk: Disk, gangs: Gangs, definitions: Definitions) -> Result<Real, String> {
        let slot = slots::Running::take();
        let backend = match pool::take(disk, gangs, definitions) {
            Some(backend) => backend,
            None => slots::starting(|| Backend::start(disk, gangs))?,
        };
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let logged = std::fs::metadata(audit::log(backend.path()));
        Ok(Real {
            server: backend.server(),
            processes: Vec::new(),
            ours: Vec::new(),
            heard: Vec::new(),
            backend: Some(backend),
            audited_from: logged.map_or(0, |it| it.len()),
            folder,
            _slot: slot,
        })
    }

    fn backend(&self) -> &Backend {
        self.backend.as_ref().expect("it is there until the plane is dropped")
    }

    fn backend_mut(&mut self) -> &mut Backend {
        self.backend.as_mut().expect("it is there until the plane is dropped")
    }

    /// Kills the API server and starts it again, on the same port and the same etcd; returns when it is ready.
    pub fn restart_server(&mut self) -> Result<(), String> {
        self.stop_server()?;
        self.start_server_again()
    }

    /// Kills the API server.
    pub fn stop_server(&mut self) -> Result<(), String> {
        self.backend_mut().stop_server()
    }

    /// Starts it again, on the same port and the same etcd; returns when it is ready.
    pub fn start_server_again(&mut self) -> Result<(), String> {
        self.backend_mut().start_server()
    }

    /// Kills a process beside the API server as `kill -9` does, and waits for its end.
    pub fn kill(&mut self, pid: u32) -> Result<(), String> {
        self.remove(pid).map(|mut process| process.end())
    }

    /// Asks a command of ours to end, and waits for its end: an operator gives its lease back.
    pub fn terminate(&mut self, pid: u32) -> Result<(), String> {
        let mut process = self.remove(pid)?;
        let asked = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        asked.map_err(|e| format!("kill: {e}"))?;
        let ended = (0..STOP_TRIES).any(|_| {
            std::thread::sleep(STOP_PAUSE);
            !matches!(process.child.try_wait(), Ok(None))
        });
        process.end();
        if ended { Ok(()) } else { Err(format!("process {pid} of ours does not end and is killed")) }
    }

    fn remove(&mut self, pid: u32) -> Result<Guarded, String> {
        let found = self.processes.iter().position(|it| it.id() == pid);
        let found = found.ok_or_else(|| format!("{pid} is no process of this plane"))?;
        self.ours.retain(|it| *it != pid);
        Ok(self.processes.remove(found))
    }

    /// Takes charge of a process: the latest is the first to be ended.
    fn add(&mut self, child: Child) -> Result<u32, String> {
        let process = Guarded::new(child, None)?;
        let pid = process.id();
        self.processes.insert(0, process);
        Ok(pid)
    }

    /// Writes a kubeconfig for its administrator, who calls it at `address`: its own, or that of somebody between.
    pub fn kubeconfig(&self, folder: &Path, address: &str) -> Result<PathBuf, String> {
        write(folder, "kubeconfig", &kubeconfig(address)).map(PathBuf::from)
    }

    /// The file with the certificate of its API server, and who signed it.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.backend().path().join("certs").join("apiserver.crt")
    }

    /// The files with what its API server shows to those it hands groups on to: the certificate and its key.
    #[must_use]
    pub fn front_proxy(&self) -> [PathBuf; 2] {
        [FRONT_PROXY[1], FRONT_PROXY[2]].map(|name| self.backend().path().join(name))
    }

    /// The bearer token of its administrator.
    #[must_use]
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    /// Its processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Guarded::id).chain(self.backend().pids()).collect()
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
