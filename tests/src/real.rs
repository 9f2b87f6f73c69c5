//! A real Kubernetes control plane on loopback: etcd, kube-apiserver and only those controllers that a scenario needs.
//!
//! The binaries come from `KUBEBUILDER_ASSETS` or from the cache directory that `cargo xtask kube` fills. All other files are in a
//! temporary directory.
//!
//! # Invariants
//!
//! - Controllers, operators and nodes stop when the value is dropped, and when the test process exits for any reason: a control plane
//!   that all tests of a process share is never dropped.
//! - etcd and kube-apiserver are reused by the next control plane of the same kind ([`pool`]), which finds no objects of the previous one
//!   ([`wipe`]).

mod audit;
mod backend;
mod components;
mod installed_operator;
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
use self::components::{FRONT_PROXY, NODE_CA, component, controller, gates, kubeconfig, spawn, write};
use self::process::GuardedChild;
use crate::differential::{ApiClient, RequestStep};

pub use self::installed_operator::InstalledOperator;

/// Directory of the binaries, named after their version.
const KUBE: &str = "kube-1.37.1";
/// Bearer token of the only user, an administrator.
pub(crate) const TOKEN: &str = "judge-token";
/// Name of the JobSet CRD.
pub const JOBSET_CRD: &str = "jobsets.jobset.x-k8s.io";
/// Polls of readiness: three minutes in total.
const READY_TRIES: u32 = 1800;
/// Polls for the exit of a terminated process: 15 seconds in total.
const STOP_TRIES: u32 = 750;
const STOP_PAUSE: Duration = Duration::from_millis(20);
const READY_PAUSE: Duration = Duration::from_millis(100);
/// Whether etcd syncs its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// As in production: a write is acknowledged after fsync.
    Synced,
    /// `--unsafe-no-fsync`: faster, for control planes that are discarded.
    Unsynced,
}

/// Whether the API server serves the gang scheduling API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangSupport {
    /// Workloads and PodGroups are served, and pods have `schedulingGroup`.
    Native,
    /// Like `Native`, with all feature-gated fields, which the embedded server has as well.
    AllFields,
    /// The default of kube-apiserver: not served.
    Absent,
}

/// Which CRDs may exist at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingCrds {
    /// None, as on a new server.
    Absent,
    /// Those of an earlier control plane, without objects. Establishing them costs the API server as much CPU time as its own start, and
    /// `muster install` applies them again.
    Allowed,
}

pub use self::pool::never_reuse;

/// A running real control plane.
pub struct RealCluster {
    pub server: ApiClient,
    /// Processes beside the API server, killed on drop in this order.
    processes: Vec<GuardedChild>,
    /// Process ids of muster commands among them, which are terminated gracefully.
    ours: Vec<u32>,
    /// Stdout pipes of operators: a closed pipe would make them exit.
    operator_stdouts: Vec<ChildStdout>,
    /// `None` only during drop.
    backend: Option<Backend>,
    /// Offset in the audit log at which this control plane begins; earlier events belong to a previous one.
    audited_from: u64,
    folder: TempDir,
    _slot: slots::ClusterSlot,
}

impl Drop for RealCluster {
    fn drop(&mut self) {
        self.terminate_muster();
        self.processes.iter_mut().for_each(GuardedChild::end);
        if let Some(backend) = self.backend.take() {
            pool::release(backend);
        }
    }
}

/// Returns the path of a binary of the pinned Kubernetes.
pub fn program(name: &str) -> Result<PathBuf, String> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(|folder| Path::new(&folder).join(name));
    let cached = cache().map(|folder| folder.join(KUBE).join(name));
    let found = [given, cached].into_iter().flatten().find(|path| path.exists());
    found.ok_or_else(|| {
        format!("{name} of {KUBE} is neither in KUBEBUILDER_ASSETS nor in the cache folder: run `cargo xtask kube`")
    })
}

/// Returns the path of an upstream controller, named with its version.
pub fn upstream_program(name: &str) -> Result<PathBuf, String> {
    let found = cache().map(|folder| folder.join("peers").join(name)).filter(|path| path.exists());
    found.ok_or_else(|| format!("{name} is not in the cache folder: run `cargo xtask peers`"))
}

/// Cache directory of `cargo xtask`.
fn cache() -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache")));
    cache.map(|folder| folder.join("muster"))
}

/// Returns the reason why no real control plane can be started, if any.
pub fn missing() -> Option<String> {
    if let Ok(reason) = std::env::var("MUSTER_TEST_WITHOUT_REAL") {
        return Some(reason);
    }
    let mut programs = ["etcd", "kube-apiserver", "kube-controller-manager"].into_iter();
    let reason = programs.find_map(|name| program(name).err())?;
    Some(std::env::var("MUSTER_TEST_REAL_MISSING").unwrap_or(reason))
}

impl RealCluster {
    /// Terminates muster commands gracefully: a killed `muster node` would leave its pods running.
    fn terminate_muster(&mut self) {
        let is_ours = |it: &&mut GuardedChild| self.ours.contains(&it.id());
        let ours: Vec<&mut Child> =
            self.processes.iter_mut().filter(is_ours).map(|it| &mut it.child).collect();
        for child in &ours {
            // It may have exited already.
            let _ =
                Command::new("kill").args(["-TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
        }
        for child in ours {
            let ended = (0..STOP_TRIES).any(|_| {
                std::thread::sleep(STOP_PAUSE);
                !matches!(child.try_wait(), Ok(None))
            });
            if !ended {
                eprintln!("process {} did not exit and is killed", child.id());
            }
        }
    }

    /// Starts a control plane with only the controllers that do not write compared objects.
    pub fn start() -> Result<RealCluster, String> {
        RealCluster::with(&["gc", "namespace"])
    }

    /// Starts a control plane with these controllers, named as in our `--controllers`; `scheduler` is kube-scheduler.
    pub fn with(controllers: &[&str]) -> Result<RealCluster, String> {
        RealCluster::with_disk(Disk::Unsynced, controllers)
    }

    /// Like [`RealCluster::with`], with this durability of etcd.
    pub fn with_disk(disk: Disk, controllers: &[&str]) -> Result<RealCluster, String> {
        let mut real = RealCluster::start_without_controllers(disk)?;
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

    /// Starts kube-controller-manager with only these controllers; returns its process id.
    pub fn start_controllers(&mut self, controllers: &[&str]) -> Result<u32, String> {
        let config = self.admin_kubeconfig()?.display().to_string();
        let names = controllers.iter().map(|name| controller(name)).collect::<Result<Vec<_>, _>>()?;
        let names = format!("--controllers={}", names.join(","));
        // The volume binder handles some claims only in its periodic resync.
        let often = "--pvclaimbinder-sync-period=1s";
        let mut command = component("kube-controller-manager", &config)?;
        self.add(spawn(command.arg(names).arg(often).args(gates(self.backend().gangs)))?)
    }

    /// Starts a process beside the control plane; returns its id.
    pub fn start_process(&mut self, command: &mut Command) -> Result<u32, String> {
        let program = command.get_program().to_owned();
        self.add(command.spawn().map_err(|e| format!("{}: {e}", program.display()))?)
    }

    /// Starts kube-scheduler; returns its process id.
    pub fn start_scheduler(&mut self) -> Result<u32, String> {
        let config = self.admin_kubeconfig()?.display().to_string();
        self.add(spawn(component("kube-scheduler", &config)?.args(gates(self.backend().gangs)))?)
    }

    /// Starts `muster node` with simulated nodes; returns its process id.
    pub fn add_simulated_nodes(&mut self, binary: &Path, nodes: usize) -> Result<u32, String> {
        let data = self.folder.path().join("node").display().to_string();
        self.start_muster(binary, &["node", "--sim-nodes", &nodes.to_string(), "--data-dir", &data])
    }

    /// Starts `muster node --local`, which registers the host as a node of this name; returns its process id.
    pub fn add_local_node(&mut self, binary: &Path, name: &str, isolation: &str) -> Result<u32, String> {
        let data = self.folder.path().join(format!("node-{name}")).display().to_string();
        let authority = self.backend().path().join(NODE_CA).display().to_string();
        let words = ["node", "--local", "--name", name, "--isolation", isolation, "--data-dir", &data];
        self.start_muster(binary, &[&words[..], &["--client-ca", &authority]].concat())
    }

    /// Starts a muster command; returns its process id.
    pub fn start_muster(&mut self, binary: &Path, words: &[&str]) -> Result<u32, String> {
        let config = self.admin_kubeconfig()?;
        let child = spawn(Command::new(binary).args(words).arg("--kubeconfig").arg(config))?;
        self.ours.push(child.id());
        self.add(child)
    }

    /// Starts `muster operator` as administrator, with additional arguments, and waits until it is leader; returns its process id. It
    /// registers its webhooks by URL.
    pub fn start_operator_as_admin(&mut self, binary: &Path, words: &[&str]) -> Result<u32, String> {
        let config = self.admin_kubeconfig()?;
        self.start_operator(binary, &[&["operator"], words].concat(), &config)
    }

    fn start_operator(&mut self, binary: &Path, words: &[&str], config: &Path) -> Result<u32, String> {
        let log = self.folder.path().join("operator.log");
        let complaints = std::fs::File::create(&log).map_err(|e| e.to_string())?;
        let mut command = Command::new(binary);
        command.args(words).arg("--kubeconfig").arg(config);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().map_err(|e| format!("{}: {e}", binary.display()))?;
        let mut stdout = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        self.ours.push(child.id());
        let pid = self.add(child)?;
        let mut line = String::new();
        stdout.read_line(&mut line).map_err(|e| e.to_string())?;
        self.operator_stdouts.push(stdout.into_inner());
        if line.starts_with("muster is the leader") {
            return Ok(pid);
        }
        Err(format!("muster operator: {line}{}", std::fs::read_to_string(&log).unwrap_or_default()))
    }

    /// Returns the audit events of the installed operator.
    #[must_use]
    pub fn audit_events(&self) -> Vec<Tree> {
        let text = std::fs::read(audit::log(self.backend().path())).unwrap_or_default();
        let from = usize::try_from(self.audited_from).unwrap_or(usize::MAX).min(text.len());
        String::from_utf8_lossy(&text[from..])
            .lines()
            .filter_map(|line| Tree::parse(line.as_bytes()).ok())
            .collect()
    }

    /// Returns the stderr of the latest operator.
    #[must_use]
    pub fn operator_log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("operator.log")).unwrap_or_default()
    }

    /// Creates the JobSet CRD.
    pub fn create_jobset_crd(&self, binary: &Path) -> Result<(), String> {
        create_jobset_crd(&self.server, binary)
    }

    /// Creates this JobSet CRD and waits until it is served.
    pub fn create_crd(&self, definition: Vec<u8>) -> Result<(), String> {
        create_crd(&self.server, definition)
    }

    pub(crate) fn admin_kubeconfig(&self) -> Result<PathBuf, String> {
        // Written once: a process started earlier may still be about to read it.
        let path = self.folder.path().join("kubeconfig");
        if path.exists() { Ok(path) } else { self.kubeconfig(self.folder.path(), self.server.base()) }
    }

    pub fn start_without_controllers(disk: Disk) -> Result<RealCluster, String> {
        RealCluster::start_backend(disk, GangSupport::AllFields, ExistingCrds::Absent)
    }

    /// Starts etcd and kube-apiserver, with or without the gang scheduling API.
    pub fn with_gang_support(gangs: GangSupport) -> Result<RealCluster, String> {
        RealCluster::start_backend(Disk::Unsynced, gangs, ExistingCrds::Absent)
    }

    /// Starts etcd and kube-apiserver for an installation of Muster: its CRDs may exist already.
    pub fn for_install(gangs: GangSupport) -> Result<RealCluster, String> {
        RealCluster::start_backend(Disk::Unsynced, gangs, ExistingCrds::Allowed)
    }

    fn start_backend(
        disk: Disk,
        gangs: GangSupport,
        definitions: ExistingCrds,
    ) -> Result<RealCluster, String> {
        let slot = slots::ClusterSlot::take();
        let backend = match pool::take(disk, gangs, definitions) {
            Some(backend) => backend,
            None => slots::starting(|| Backend::start(disk, gangs))?,
        };
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let logged = std::fs::metadata(audit::log(backend.path()));
        Ok(RealCluster {
            server: backend.server(),
            processes: Vec::new(),
            ours: Vec::new(),
            operator_stdouts: Vec::new(),
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

    /// Kills the API server and starts it again on the same port and etcd; returns when it is ready.
    pub fn restart_server(&mut self) -> Result<(), String> {
        self.stop_server()?;
        self.start_server()
    }

    pub fn stop_server(&mut self) -> Result<(), String> {
        self.backend_mut().stop_server()
    }

    /// Starts the API server again on the same port and etcd; returns when it is ready.
    pub fn start_server(&mut self) -> Result<(), String> {
        self.backend_mut().start_server()
    }

    /// Kills a process with SIGKILL and waits for its exit.
    pub fn kill(&mut self, pid: u32) -> Result<(), String> {
        self.remove(pid).map(|mut process| process.end())
    }

    /// Terminates a muster command and waits for its exit. An operator releases its Lease.
    pub fn terminate(&mut self, pid: u32) -> Result<(), String> {
        let mut process = self.remove(pid)?;
        let signalled = Command::new("kill").args(["-TERM", &pid.to_string()]).status();
        signalled.map_err(|e| format!("kill: {e}"))?;
        let ended = (0..STOP_TRIES).any(|_| {
            std::thread::sleep(STOP_PAUSE);
            !matches!(process.child.try_wait(), Ok(None))
        });
        process.end();
        if ended { Ok(()) } else { Err(format!("process {pid} did not exit and is killed")) }
    }

    fn remove(&mut self, pid: u32) -> Result<GuardedChild, String> {
        let found = self.processes.iter().position(|it| it.id() == pid);
        let found = found.ok_or_else(|| format!("{pid} is no process of this plane"))?;
        self.ours.retain(|it| *it != pid);
        Ok(self.processes.remove(found))
    }

    /// Adds a process; the latest is killed first.
    fn add(&mut self, child: Child) -> Result<u32, String> {
        let process = GuardedChild::new(child, None)?;
        let pid = process.id();
        self.processes.insert(0, process);
        Ok(pid)
    }

    /// Writes a kubeconfig of the administrator for `address`: the API server, or a proxy.
    pub fn kubeconfig(&self, folder: &Path, address: &str) -> Result<PathBuf, String> {
        write(folder, "kubeconfig", &kubeconfig(address)).map(PathBuf::from)
    }

    /// Returns the serving certificate of the API server, with its CA.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.backend().path().join("certs").join("apiserver.crt")
    }

    /// Returns the front-proxy client certificate and key of the API server.
    #[must_use]
    pub fn front_proxy(&self) -> [PathBuf; 2] {
        [FRONT_PROXY[1], FRONT_PROXY[2]].map(|name| self.backend().path().join(name))
    }

    /// Returns the bearer token of the administrator.
    #[must_use]
    pub fn token(&self) -> &'static str {
        TOKEN
    }

    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(GuardedChild::id).chain(self.backend().pids()).collect()
    }
}

/// Creates the JobSet CRD that `muster crds` prints, and waits until it is served.
pub(crate) fn create_jobset_crd(server: &ApiClient, binary: &Path) -> Result<(), String> {
    create_crd(server, crd_manifest(binary, JOBSET_CRD)?.to_json_bytes())
}

/// Returns the CRD of this name that `muster crds` prints.
pub fn crd_manifest(binary: &Path, name: &str) -> Result<Tree, String> {
    let printed = Command::new(binary).args(["crds", "--output", "json"]).output();
    let printed = printed.map_err(|e| format!("{}: {e}", binary.display()))?.stdout;
    let all = Tree::parse(&printed).map_err(|e| e.to_string())?;
    let found = all.items_at(&["items"]).iter().find(|it| it.str_at(&["metadata", "name"]) == name);
    found.cloned().ok_or_else(|| format!("muster crds does not print {name}"))
}

fn create_crd(server: &ApiClient, definition: Vec<u8>) -> Result<(), String> {
    let all = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = server.send("POST", all, &RequestStep::default(), definition)?;
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
