//! The local node: this host as a node. Detects its capacity and isolation, and builds the kubelet, the container
//! runtime and the cluster DNS.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::client::Api;
use muster_api::environment::{Clock, Entropy};
use muster_api::node::MachineInfo;
use muster_api::token;
use muster_control::Controller;
use muster_kubelet::KubeletServer;
use muster_kubelet::dns::{self, DnsResolver, DnsServer};
use muster_node::local::container_spec::ClusterDns;
use muster_node::local::dns::{Answer, Book, failure};
use muster_node::local::host::LocalHost;
use muster_node::local::host_ports::HostPorts;
use muster_node::local::pleg::PodEvents;
use muster_node::local::{LocalKubelet, LocalKubeletConfig, RequestToken};
use muster_operator::ports::SystemEntropy;
use muster_process::{
    ContainerEngine, ContainerRuntime, Isolation, IsolationFeature, PodDirs, PodRegistry, ProcessRuntime,
};
use muster_tree::{Text, Tree, tree};

use crate::{cli, secure_fs};

/// The running executable. The path stays valid when an upgrade replaces the file, so that supervisors are of the same
/// version as this process.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The address of a node if its kubelet API is not served over the network.
const LOOPBACK: &str = "127.0.0.1";
/// A token is renewed when this share of its lifetime has passed, as the kubelet does.
const REFRESH_PERCENT: u32 = 80;
/// The subdirectory of pods.
const PODS: &str = "pods";
/// The file with the machine ID, by which the node recognizes its own Node object and pods.
const MACHINE_ID_FILE: &str = "machine";
/// The pod capacity, the kubelet's default for `maxPods`.
const PODS_MAX: i64 = 110;
/// The node's declared features: a kube-apiserver checks for them before it uses the kubelet API in that way.
const FEATURES: [&str; 1] = ["ExtendWebSocketsToKubelet"];

/// The local node cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A file or directory cannot be used.
    #[error("{path}: {source}", path = path.display())]
    Directory { path: PathBuf, source: io::Error },
    /// `--isolation namespaces` on a host that does not allow them.
    #[error(
        "pods cannot have namespaces of their own here: {0}\n\nhint: `--isolation none` runs them as plain processes"
    )]
    NoNamespaces(String),
    /// The container engine of `--runtime` does not respond.
    #[error("{0}")]
    NoEngine(String),
}

/// Options of the local node.
pub struct LocalNodeOptions<'a> {
    pub name: Text,
    /// The data directory of the node: pods, volumes, machine ID.
    pub dir: PathBuf,
    /// Whether pods are killed when this process ends, even by SIGKILL.
    pub ephemeral: bool,
    /// Isolation of pods.
    pub isolation: cli::Isolation,
    pub runtime: cli::Runtime,
    /// The PID limit of a container (processes and threads); `None` is unlimited.
    pub processes_max: Option<u32>,
    /// The address of the kubelet API, if it is served over the network.
    pub kubelet: Option<SocketAddr>,
    /// Address and port at which pods reach the API server; if absent, those of the Service `kubernetes`.
    pub server: Option<(Text, u16)>,
    /// Requests ServiceAccount tokens.
    pub api: &'a Arc<dyn Api>,
}

/// The parts of the local node, before the control loop runs them.
pub struct LocalNode {
    /// The machine ID.
    pub machine_id: Text,
    pub controller: Box<dyn Controller>,
    pub containers: Arc<dyn ContainerRuntime>,
    pub registry: Arc<PodRegistry>,
    /// The cluster DNS, if it could bind port 53.
    pub dns: Option<DnsServer>,
}

impl LocalNode {
    /// Builds the kubelet API server of its pods.
    #[must_use]
    pub fn kubelet(&self, clock: &Arc<dyn Clock>) -> KubeletServer {
        KubeletServer::new(self.containers.clone(), self.registry.clone(), clock.clone())
    }
}

/// Builds the local node. Must be called within a tokio runtime.
///
/// # Errors
/// The data directory cannot be used, the container engine does not respond, or the isolation is not available.
pub fn create_local_node(wanted: &LocalNodeOptions<'_>) -> Result<LocalNode, LocalError> {
    let program = PathBuf::from(OWN_PROGRAM);
    let engine = engine(wanted.runtime)?;
    let isolation = match &engine {
        // A container engine isolates its containers itself, and mounts volumes at their paths.
        Some(_) => Isolation::Namespaces,
        None => select_isolation(wanted.isolation, &program)?,
    };
    let layout = PodDirs::new(wanted.dir.join(PODS));
    let in_the_way = |source| LocalError::Directory { path: layout.root().into(), source };
    // Without namespaces, a container that runs as another user (possible only if this process is root) reaches its
    // volumes through these directories, and needs search permission on them.
    let others_pass = isolation == Isolation::None && own_ids().0 == 0;
    for folder in [wanted.dir.as_path(), layout.root()] {
        let make = if others_pass { secure_fs::traversable_dir } else { secure_fs::private_dir };
        make(folder).map_err(in_the_way)?;
    }
    let mark = machine_id(&wanted.dir)?;
    let ring = Arc::new(PodEvents::default());
    let bell = {
        let ring = ring.clone();
        Box::new(move |id: &muster_process::RunId| ring.ring(&id.pod))
    };
    let own = if engine.is_some() { Isolation::None } else { isolation };
    let mut processes = ProcessRuntime::open(layout.clone(), program, own, bell).map_err(in_the_way)?;
    if wanted.ephemeral {
        processes = processes.passing();
    }
    if let Some((engine, _)) = &engine {
        processes = processes.with_engine(*engine);
    }
    let containers: Arc<dyn ContainerRuntime> = Arc::new(processes);
    let roster = Arc::new(PodRegistry::default());
    let net = net(&mark);
    let (names, told_names) = name_server(isolation, net, wanted).unzip();
    let setup = LocalKubeletConfig {
        names: told_names,
        name: wanted.name.clone(),
        told: MachineInfo {
            runtime: runtime(engine.as_ref()),
            ..machine_info(&wanted.dir, wanted.kubelet, &containers.isolation_features())
        },
        isolation,
        images: engine.is_some(),
        net,
        search_path: std::env::var("PATH").unwrap_or_default().into(),
        user: own_ids(),
        server: wanted.server.clone(),
        ports: (isolation == Isolation::None).then(|| HostPorts::new(layout.clone())),
        processes_max: wanted.processes_max,
        ask_token: Some(ask_token(wanted.api, &ring)),
        mark: mark.clone(),
    };
    let here = LocalHost::new(containers.clone(), layout);
    let controller = Box::new(LocalKubelet::new(setup, Box::new(here), ring, roster.clone()));
    Ok(LocalNode { machine_id: mark, controller, containers, registry: roster, dns: names })
}

/// The container engine of `--runtime` and its version; `None` for processes.
fn engine(asked: cli::Runtime) -> Result<Option<(ContainerEngine, String)>, LocalError> {
    let engine = match asked {
        cli::Runtime::Process => return Ok(None),
        cli::Runtime::Docker => ContainerEngine::Docker,
        cli::Runtime::Podman => ContainerEngine::Podman,
    };
    let version = engine.version().map_err(LocalError::NoEngine)?;
    Ok(Some((engine, version)))
}

/// `status.nodeInfo.containerRuntimeVersion`.
fn runtime(engine: Option<&(ContainerEngine, String)>) -> Text {
    match engine {
        Some((engine, version)) => format!("{}://{version}", engine.program()).into(),
        None => concat!("process://", env!("CARGO_PKG_VERSION")).into(),
    }
}

fn select_isolation(asked: cli::Isolation, program: &Path) -> Result<Isolation, LocalError> {
    if asked == cli::Isolation::None {
        return Ok(Isolation::None);
    }
    match (muster_process::namespaces_missing(program), asked) {
        (None, _) => Ok(Isolation::Namespaces),
        (Some(why), cli::Isolation::Namespaces) => Err(LocalError::NoNamespaces(why)),
        (Some(why), _) => {
            tracing::warn!(%why, "pods run as plain processes: no namespaces, volumes below $MUSTER_POD_ROOT");
            Ok(Isolation::None)
        }
    }
}

/// The machine ID; generated once per data directory, so that it survives restarts.
fn machine_id(folder: &Path) -> Result<Text, LocalError> {
    let path = folder.join(MACHINE_ID_FILE);
    let in_the_way = |source| LocalError::Directory { path: path.clone(), source };
    match fs::read_to_string(&path) {
        Ok(text) if !text.trim().is_empty() => return Ok(text.trim().into()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(in_the_way(error)),
        _ => {}
    }
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    let text = format!("local-{:016x}", u64::from_le_bytes(bytes));
    fs::create_dir_all(folder).and_then(|()| fs::write(&path, &text)).map_err(in_the_way)?;
    Ok(text.into())
}

/// The /16 of pod IPs, in 127.0.0.0/8. It is derived from the machine ID, so that two nodes on one host rarely share
/// one.
fn net(mark: &str) -> [u8; 2] {
    const FIRST: u8 = 16;
    const COUNT: u32 = 224;
    let sum = mark.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    [127, FIRST + u8::try_from(sum % COUNT).expect("a remainder of less than 256")]
}

/// Adapts the DNS records of the node to the DNS server.
struct Reader(Arc<Book>);

impl DnsResolver for Reader {
    fn resolve(&self, query: &[u8], room: usize) -> dns::DnsOutcome {
        match self.0.answer(query, room) {
            Answer::Reply(reply) => dns::DnsOutcome::Reply(reply),
            Answer::Elsewhere => dns::DnsOutcome::Forward,
            Answer::Nothing => dns::DnsOutcome::Drop,
        }
    }

    fn server_failure(&self, query: &[u8]) -> Option<Vec<u8>> {
        failure(query)
    }
}

/// The cluster DNS. It needs port 53, because resolv.conf cannot name a port, and namespaces, because only there a pod
/// has a resolv.conf of its own.
fn name_server(
    isolation: Isolation,
    net: [u8; 2],
    wanted: &LocalNodeOptions<'_>,
) -> Option<(DnsServer, (Arc<Book>, ClusterDns))> {
    if isolation == Isolation::None {
        return None;
    }
    let server = wanted.server.as_ref().and_then(|(host, _)| host.parse().ok());
    let book = Arc::new(Book::new(server));
    let host = dns::HostResolvConf::read(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    // The last address of the /16 is never assigned to a pod.
    let at = Ipv4Addr::new(net[0], net[1], u8::MAX, u8::MAX);
    let started = DnsServer::start(at.into(), Arc::new(Reader(book.clone())), host.servers);
    let names = started.inspect_err(|error| tracing::info!(%at, %error, "no name server for pods")).ok()?;
    if !names.is_default_port() {
        tracing::info!(
            "no name server for pods: port 53 may not be had; names of pods are in their hosts files"
        );
        return None;
    }
    let search = host.search.iter().map(|it| Text::from(it.as_str())).collect();
    Some((names, (book, ClusterDns { address: at.to_string().into(), search })))
}

fn machine_info(folder: &Path, kubelet: Option<SocketAddr>, applied: &[IsolationFeature]) -> MachineInfo {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = read("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    MachineInfo {
        capacity: capacity(folder),
        address: kubelet.map_or_else(|| LOOPBACK.into(), |at| at.ip().to_string().into()),
        port: kubelet.map(|at| at.port()),
        arch: match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        }
        .into(),
        kernel: read("/proc/sys/kernel/osrelease").trim().into(),
        system: system.unwrap_or("Linux").trim_matches('"').into(),
        runtime: Text::new(),
        features: FEATURES.iter().map(|word| Text::from(*word)).collect(),
        conditions: applied.iter().map(condition).collect(),
    }
}

fn condition(one: &IsolationFeature) -> (Text, bool, Text, Text) {
    let kind = Text::from(format!("muster.dev/{}", one.name.replace(' ', "-")));
    match &one.missing {
        None => (kind, true, "Applied".into(), format!("applied to pods: {}", one.name).into()),
        Some(why) => (kind, false, "NotApplied".into(), why.as_str().into()),
    }
}

fn capacity(folder: &Path) -> Tree {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let memory = memory.and_then(|text| text.trim().strip_suffix(" kB")).unwrap_or("1048576");
    let disk = muster_process::disk_bytes(folder).unwrap_or(0);
    tree!({"cpu": cores.to_string(), "memory": format!("{memory}Ki"), "pods": PODS_MAX.to_string(),
        "ephemeral-storage": format!("{}Ki", disk / 1024)})
}

/// UID and GID of this process.
fn own_ids() -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()))
}

fn ask_token(api: &Arc<dyn Api>, ring: &Arc<PodEvents>) -> RequestToken {
    let (api, ring) = (api.clone(), ring.clone());
    Box::new(move |pod, audience, seconds, now| {
        let (call, uid) = token::request(pod, audience, seconds);
        let (ring, audience) = (ring.clone(), audience.to_owned());
        let refresh = now + Duration::from_secs(seconds.unsigned_abs()) * REFRESH_PERCENT / 100;
        let heard = move |reply: Result<muster_api::client::ApiObject, _>| match reply {
            Ok(object) => ring.leave_token(&uid, &audience, token::issued_token(&object.tree), refresh),
            Err(refusal) => tracing::warn!(?refusal, "no token of a service account; it is asked for again"),
        };
        api.send(call, Box::new(heard));
    })
}
