//! `muster node`: runs nodes for an API server: simulated nodes, or this host.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use muster_api::client::Api;
use muster_api::environment::{Clock, Entropy};
use muster_kubelet::dns::DnsServer;
use muster_kubelet::{KubeletListener, KubeletServer, ListenError};
use muster_operator::cluster_runtime::{ClusterRuntime, ClusterRuntimeError, RunOutcome};
use muster_operator::log;
use muster_operator::ports::{SystemClock, SystemEntropy};
use muster_store::{DirectoryLock, OpenError};

use crate::cli::NodeFlags;
use crate::local::{LocalError, LocalNode};
use crate::nodes::{self, NodesError};
use crate::settings::{SettingsError, StorageLocation};
use crate::{local, secure_fs, settings};

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The local node did not start.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// `--nodes` is invalid.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// Another process uses the data directory.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// There is no data directory.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The address of the kubelet API cannot be bound.
    #[error("listening on {address}: {source}\n\nhint: choose another address with `--listen`")]
    Listen { address: SocketAddr, source: io::Error },
    /// `--client-ca` cannot be read.
    #[error("{path}: {source}", path = path.display())]
    Authority { path: PathBuf, source: io::Error },
    #[error(
        "the kubeconfig names no certificate authority, so nobody could ask for logs and commands\n\nhint: name one with `--client-ca FILE`"
    )]
    NoAuthority,
    #[error(transparent)]
    Kubelet(#[from] ListenError),
    #[error(transparent)]
    Runtime(#[from] ClusterRuntimeError),
    #[error(
        "the node controllers crashed; the error is logged above\n\nhint: start again, and report the error"
    )]
    Crashed,
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Runs until SIGINT, SIGTERM or a crash.
///
/// # Errors
/// The nodes did not start, or crashed.
pub fn run(flags: &NodeFlags) -> Result<(), NodeError> {
    log::start(flags.log_level, flags.log_format);
    let asked = match (flags.sim_nodes, &flags.nodes) {
        (Some(count), _) => settings::NodeSetup::Simulated(count),
        (None, Some(path)) => settings::NodeSetup::File(path.clone()),
        (None, None) => settings::NodeSetup::Local,
    };
    let place = place(flags)?;
    let mut away = ClusterRuntime::connect(flags.kubeconfig.as_deref())?;
    let local = flags.local.then(|| local_node(flags, &place, &away)).transpose()?;
    let (local, beside) = local.unzip();
    let nodes = nodes::read(&asked, local)?;
    let controllers = nodes.with_volumes(&process_identity(), Box::new(nodes::volume_dirs(&place)?));
    let local = flags.local;
    let end = away.run_controllers(
        controllers,
        move |server| announce(server, local),
        |_| {},
        std::future::pending(),
    )?;
    if let Some(beside) = beside {
        beside.kubelet.stop();
    }
    match end {
        RunOutcome::Crashed => Err(NodeError::Crashed),
        RunOutcome::Stopped | RunOutcome::Cancelled => Ok(()),
    }
}

/// The directory of pods and volumes: `--data-dir`, or the default.
fn place(flags: &NodeFlags) -> Result<StorageLocation, NodeError> {
    let folder = flags.data_dir.clone().or_else(|| settings::data_home().map(|home| home.join("node")));
    folder.map(StorageLocation::Directory).ok_or(NodeError::Settings(SettingsError::NoHome))
}

/// A random identity that this process writes on its simulated nodes, so that two `muster node` processes do not
/// maintain the same Node objects.
fn process_identity() -> String {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    format!("node-{:016x}", u64::from_le_bytes(bytes))
}

/// The servers of the local node; dropping them stops them.
struct NodeServices {
    kubelet: Arc<KubeletServer>,
    _listening: KubeletListener,
    _names: Option<DnsServer>,
    _lock: DirectoryLock,
}

/// Builds the local node and starts its servers.
fn local_node(
    flags: &NodeFlags,
    place: &StorageLocation,
    away: &ClusterRuntime,
) -> Result<(LocalNode, NodeServices), NodeError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = flags.name.clone().unwrap_or_else(|| host.trim().to_lowercase());
    // Bind first: the Node object publishes this port, and port 0 is resolved by the bind.
    let listener = TcpListener::bind(flags.listen)
        .map_err(|source| NodeError::Listen { address: flags.listen, source })?;
    let api: Arc<dyn Api> = Arc::new(away.api().clone());
    let folder = nodes::node_dir(place)?;
    secure_fs::private_dir(&folder)?;
    // Two nodes on one data directory would both manage the containers of the same pods.
    let lock = DirectoryLock::take(&folder)?;
    let _inside = away.enter();
    let mut node = local::create_local_node(&local::LocalNodeOptions {
        name: name.as_str().into(),
        dir: folder.clone(),
        ephemeral: false,
        isolation: flags.isolation,
        runtime: flags.runtime,
        processes_max: None,
        server: away.api().host(),
        kubelet: Some(listener.local_addr()?),
        api: &api,
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let kubelet = Arc::new(node.kubelet(&clock));
    let listening = kubelet.listen(listener, &authority(flags, away)?, &name)?;
    let names = node.dns.take();
    Ok((node, NodeServices { kubelet, _listening: listening, _names: names, _lock: lock }))
}

/// The CA (PEM) that client certificates of the kubelet API are verified against.
fn authority(flags: &NodeFlags, away: &ClusterRuntime) -> Result<String, NodeError> {
    match &flags.client_ca {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|source| NodeError::Authority { path: path.clone(), source }),
        None if away.api().ca_pem().is_empty() => Err(NodeError::NoAuthority),
        None => Ok(away.api().ca_pem().to_owned()),
    }
}

/// Prints the line that scripts wait for.
#[expect(clippy::print_stdout, reason = "that the nodes join is the data of this command")]
fn announce(server: &str, local: bool) {
    let who = if local { "this machine joins" } else { "simulated nodes join" };
    println!("{who} {server}");
}
