//! This machine as a node: what is found out about it, and the parts that make it one.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use muster_api::node::Machine;
use muster_api::port::Api;
use muster_api::ports::{Clock, Entropy};
use muster_api::token;
use muster_control::Controller;
use muster_kubelet::Kubelet;
use muster_kubelet::dns::{self, NameServer, Teller};
use muster_node::local::dns::{Answer, Book, failure};
use muster_node::local::dress::Resolver;
use muster_node::local::machine::Here;
use muster_node::local::ports::Ports;
use muster_node::local::ring::Ring;
use muster_node::local::{AskToken, Local, Setup};
use muster_operator::ports::SystemEntropy;
use muster_process::{Applied, Containers, Engine, Isolation, Layout, Processes, Roster};
use muster_tree::{Text, Tree, tree};

use crate::{cli, private};

/// This program, also when its file was replaced meanwhile.
const OWN_PROGRAM: &str = "/proc/self/exe";
/// The address of a node that only its own process reaches.
const LOOPBACK: &str = "127.0.0.1";
/// A token is replaced when so much of its time is over.
const REFRESH_PERCENT: u32 = 80;
/// The folder of pods.
const PODS: &str = "pods";
/// The file that tells this machine's pods from another's.
const MARK: &str = "machine";
/// Pods that a machine takes, as a kubelet has it.
const PODS_MAX: i64 = 110;
/// The abilities of our kubelet that a real API server asks for.
const FEATURES: [&str; 1] = ["ExtendWebSocketsToKubelet"];

/// Why this machine cannot be a node.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A file or folder.
    #[error("{path}: {source}", path = path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Isolation that was asked for.
    #[error(
        "pods cannot have namespaces of their own here: {0}\n\nhint: `--isolation none` runs them as plain processes"
    )]
    NoNamespaces(String),
    /// The container engine that was asked for.
    #[error("{0}")]
    NoEngine(String),
}

/// What is asked of the node.
pub struct Wanted<'a> {
    /// Its name.
    pub name: Text,
    /// The folder of everything it keeps.
    pub folder: PathBuf,
    /// Whether pods end with this process, however it ends.
    pub passing: bool,
    /// How pods are kept apart.
    pub isolation: cli::Isolation,
    /// Who runs containers.
    pub runtime: cli::Runtime,
    /// Processes and threads of a container, at most.
    pub processes_max: Option<u32>,
    /// Where its kubelet answers, if over the network.
    pub kubelet: Option<SocketAddr>,
    /// Where pods reach the API server; what the Service `kubernetes` says when absent.
    pub server: Option<(Text, u16)>,
    /// For tokens of service accounts.
    pub api: &'a Arc<dyn Api>,
}

/// A node that is ready to start.
pub struct LocalNode {
    /// What tells it from other machines.
    pub mark: Text,
    /// Drives its pods.
    pub controller: Box<dyn Controller>,
    /// Runs their containers.
    pub containers: Arc<dyn Containers>,
    /// Who lives there.
    pub roster: Arc<Roster>,
    /// Knows the names of pods and Services, where it may listen on the usual port.
    pub names: Option<NameServer>,
}

impl LocalNode {
    /// Serves logs and commands of its pods.
    #[must_use]
    pub fn kubelet(&self, clock: &Arc<dyn Clock>) -> Kubelet {
        Kubelet::new(self.containers.clone(), self.roster.clone(), clock.clone())
    }
}

/// Makes this machine a node. Must be called within a tokio runtime.
///
/// # Errors
/// Its folder cannot be used, or the isolation that was asked for is not to be had.
pub fn make(wanted: &Wanted<'_>) -> Result<LocalNode, LocalError> {
    let program = PathBuf::from(OWN_PROGRAM);
    let engine = engine(wanted.runtime)?;
    let isolation = match &engine {
        // The engine keeps them apart: volumes stand at their places.
        Some(_) => Isolation::Namespaces,
        None => choose(wanted.isolation, &program)?,
    };
    let layout = Layout::new(wanted.folder.join(PODS));
    let in_the_way = |source| LocalError::Folder { path: layout.root().into(), source };
    // Without namespaces a container's own user must reach its folder from outside.
    let others_pass = isolation == Isolation::None && own_ids().0 == 0;
    for folder in [wanted.folder.as_path(), layout.root()] {
        let make = if others_pass { private::passage } else { private::folder };
        make(folder).map_err(in_the_way)?;
    }
    let mark = mark(&wanted.folder)?;
    let ring = Arc::new(Ring::default());
    let bell = {
        let ring = ring.clone();
        Box::new(move |id: &muster_process::Id| ring.ring(&id.pod))
    };
    let own = if engine.is_some() { Isolation::None } else { isolation };
    let mut processes = Processes::open(layout.clone(), program, own, bell).map_err(in_the_way)?;
    if wanted.passing {
        processes = processes.passing();
    }
    if let Some((engine, _)) = &engine {
        processes = processes.with_engine(*engine);
    }
    let containers: Arc<dyn Containers> = Arc::new(processes);
    let roster = Arc::new(Roster::default());
    let net = net(&mark);
    let (names, told_names) = name_server(isolation, net, wanted).unzip();
    let setup = Setup {
        names: told_names,
        name: wanted.name.clone(),
        told: Machine {
            runtime: runtime(engine.as_ref()),
            ..told(&wanted.folder, wanted.kubelet, &containers.applied())
        },
        isolation,
        images: engine.is_some(),
        net,
        search_path: std::env::var("PATH").unwrap_or_default().into(),
        user: own_ids(),
        server: wanted.server.clone(),
        ports: (isolation == Isolation::None).then(|| Ports::new(layout.clone())),
        processes_max: wanted.processes_max,
        ask_token: Some(ask_token(wanted.api, &ring)),
        mark: mark.clone(),
    };
    let here = Here::new(containers.clone(), layout);
    let controller = Box::new(Local::new(setup, Box::new(here), ring, roster.clone()));
    Ok(LocalNode { mark, controller, containers, roster, names })
}

/// The container engine that was asked for, and its version.
fn engine(asked: cli::Runtime) -> Result<Option<(Engine, String)>, LocalError> {
    let engine = match asked {
        cli::Runtime::Process => return Ok(None),
        cli::Runtime::Docker => Engine::Docker,
        cli::Runtime::Podman => Engine::Podman,
    };
    let version = engine.version().map_err(LocalError::NoEngine)?;
    Ok(Some((engine, version)))
}

/// What the node says runs its containers.
fn runtime(engine: Option<&(Engine, String)>) -> Text {
    match engine {
        Some((engine, version)) => format!("{}://{version}", engine.program()).into(),
        None => concat!("process://", env!("CARGO_PKG_VERSION")).into(),
    }
}

fn choose(asked: cli::Isolation, program: &Path) -> Result<Isolation, LocalError> {
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

/// What tells this machine from others; made once for a folder.
fn mark(folder: &Path) -> Result<Text, LocalError> {
    let path = folder.join(MARK);
    let in_the_way = |source| LocalError::Folder { path: path.clone(), source };
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

/// The addresses of its pods: of loopback, and seldom those of another muster on this machine.
fn net(mark: &str) -> [u8; 2] {
    const FIRST: u8 = 16;
    const COUNT: u32 = 224;
    let sum = mark.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    [127, FIRST + u8::try_from(sum % COUNT).expect("a remainder of less than 256")]
}

/// Answers for a book of names.
struct Reader(Arc<Book>);

impl Teller for Reader {
    fn tell(&self, query: &[u8], room: usize) -> dns::Told {
        match self.0.answer(query, room) {
            Answer::Reply(reply) => dns::Told::Reply(reply),
            Answer::Elsewhere => dns::Told::Elsewhere,
            Answer::Nothing => dns::Told::Nothing,
        }
    }

    fn failure(&self, query: &[u8]) -> Option<Vec<u8>> {
        failure(query)
    }
}

/// A name server for pods: only where files can name it, which they do without a port, and pods can have such files.
fn name_server(
    isolation: Isolation,
    net: [u8; 2],
    wanted: &Wanted<'_>,
) -> Option<(NameServer, (Arc<Book>, Resolver))> {
    if isolation == Isolation::None {
        return None;
    }
    let server = wanted.server.as_ref().and_then(|(host, _)| host.parse().ok());
    let book = Arc::new(Book::new(server));
    let host = dns::Host::read(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    // The last address of the net is never a pod's.
    let at = Ipv4Addr::new(net[0], net[1], u8::MAX, u8::MAX);
    let started = NameServer::start(at.into(), Arc::new(Reader(book.clone())), host.servers);
    let names = started.inspect_err(|error| tracing::info!(%at, %error, "no name server for pods")).ok()?;
    if !names.is_usual() {
        tracing::info!(
            "no name server for pods: port 53 may not be had; names of pods are in their hosts files"
        );
        return None;
    }
    let search = host.search.iter().map(|it| Text::from(it.as_str())).collect();
    Some((names, (book, Resolver { address: at.to_string().into(), search })))
}

fn told(folder: &Path, kubelet: Option<SocketAddr>, applied: &[Applied]) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let system = read("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Machine {
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

fn condition(one: &Applied) -> (Text, bool, Text, Text) {
    let kind = Text::from(format!("muster.dev/{}", one.what.replace(' ', "-")));
    match &one.missing {
        None => (kind, true, "Applied".into(), format!("applied to pods: {}", one.what).into()),
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

/// User and group number of this process.
fn own_ids() -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").map_or((0, 0), |own| (own.uid(), own.gid()))
}

fn ask_token(api: &Arc<dyn Api>, ring: &Arc<Ring>) -> AskToken {
    let (api, ring) = (api.clone(), ring.clone());
    Box::new(move |pod, audience, seconds, now| {
        let (call, uid) = token::request(pod, audience, seconds);
        let (ring, audience) = (ring.clone(), audience.to_owned());
        let refresh = now + Duration::from_secs(seconds.unsigned_abs()) * REFRESH_PERCENT / 100;
        let heard = move |reply: Result<muster_api::port::Object, _>| match reply {
            Ok(object) => ring.leave_token(&uid, &audience, token::of(&object.tree), refresh),
            Err(refusal) => tracing::warn!(?refusal, "no token of a service account; it is asked for again"),
        };
        api.call(call, Box::new(heard));
    })
}
