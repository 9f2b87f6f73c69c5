//! `muster node`: nodes for any API server, simulated ones or this machine.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use muster_api::port::Api;
use muster_api::ports::{Clock, Entropy};
use muster_kubelet::dns::NameServer;
use muster_kubelet::{Kubelet, ListenError, Listening};
use muster_operator::away::{Away, AwayError, End};
use muster_operator::log;
use muster_operator::ports::{SystemClock, SystemEntropy};
use muster_store::{FolderLock, OpenError};

use crate::cli::NodeFlags;
use crate::local::{LocalError, LocalNode};
use crate::nodes::{self, NodesError};
use crate::settings::{Place, SettingsError};
use crate::{local, private, settings};

/// Why `node` ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// This machine cannot be a node.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The file of nodes.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The folder is another's.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The folder of volumes.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The address for logs and commands.
    #[error("listening on {address}: {source}\n\nhint: choose another address with `--listen`")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The file of an authority.
    #[error("{path}: {source}", path = path.display())]
    Authority {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is none.
    #[error(
        "the kubeconfig names no certificate authority, so nobody could ask for logs and commands\n\nhint: name one with `--client-ca FILE`"
    )]
    NoAuthority,
    /// Logs and commands.
    #[error(transparent)]
    Kubelet(#[from] ListenError),
    /// No connection.
    #[error(transparent)]
    Away(#[from] AwayError),
    /// The nodes.
    #[error(
        "the nodes ended by an error of their own, told above\n\nhint: start again, and report the error"
    )]
    Crashed,
    /// The system.
    #[error("starting: {0}")]
    System(#[from] io::Error),
}

/// Runs until a signal comes.
///
/// # Errors
/// When it could not start.
pub fn run(flags: &NodeFlags) -> Result<(), NodeError> {
    log::start(flags.log_level, flags.log_format);
    let asked = match (flags.sim_nodes, &flags.nodes) {
        (Some(count), _) => settings::Nodes::Simulated(count),
        (None, Some(path)) => settings::Nodes::File(path.clone()),
        (None, None) => settings::Nodes::Local,
    };
    let place = place(flags)?;
    let mut away = Away::connect(flags.kubeconfig.as_deref())?;
    let local = flags.local.then(|| local_node(flags, &place, &away)).transpose()?;
    let (local, beside) = local.unzip();
    let nodes = nodes::read(&asked, local)?;
    let controllers = nodes.with_volumes(&mark(), Box::new(nodes::folders(&place)?));
    let local = flags.local;
    let end = away.run(controllers, move |server| announce(server, local), |_| {}, std::future::pending())?;
    if let Some(beside) = beside {
        beside.kubelet.stop();
    }
    match end {
        End::Crashed => Err(NodeError::Crashed),
        End::Stopped | End::Beside => Ok(()),
    }
}

/// Where volumes are: in the folder that was named, or in the user's.
fn place(flags: &NodeFlags) -> Result<Place, NodeError> {
    let folder = flags.data_dir.clone().or_else(|| settings::data_home().map(|home| home.join("node")));
    folder.map(Place::Folder).ok_or(NodeError::Settings(SettingsError::NoHome))
}

/// Tells the nodes of this process from those of any other.
fn mark() -> String {
    let mut bytes = [0; 8];
    SystemEntropy.fill(&mut bytes);
    format!("node-{:016x}", u64::from_le_bytes(bytes))
}

/// What serves beside the node that this machine is; ends with this value.
struct Beside {
    kubelet: Arc<Kubelet>,
    _listening: Listening,
    _names: Option<NameServer>,
    _lock: FolderLock,
}

/// This machine as a node of that server, and what serves beside it.
fn local_node(flags: &NodeFlags, place: &Place, away: &Away) -> Result<(LocalNode, Beside), NodeError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = flags.name.clone().unwrap_or_else(|| host.trim().to_lowercase());
    let listener = TcpListener::bind(flags.listen)
        .map_err(|source| NodeError::Listen { address: flags.listen, source })?;
    let api: Arc<dyn Api> = Arc::new(away.api().clone());
    let folder = nodes::home(place)?;
    private::folder(&folder)?;
    // Two nodes on one folder would run the same pods twice.
    let lock = FolderLock::take(&folder)?;
    let _inside = away.enter();
    let mut node = local::make(&local::Wanted {
        name: name.as_str().into(),
        folder: folder.clone(),
        passing: false,
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
    let names = node.names.take();
    Ok((node, Beside { kubelet, _listening: listening, _names: names, _lock: lock }))
}

/// Who certifies those that may ask for logs and commands.
fn authority(flags: &NodeFlags, away: &Away) -> Result<String, NodeError> {
    match &flags.client_ca {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|source| NodeError::Authority { path: path.clone(), source }),
        None if away.api().authority().is_empty() => Err(NodeError::NoAuthority),
        None => Ok(away.api().authority().to_owned()),
    }
}

/// The line that scripts wait for.
#[expect(clippy::print_stdout, reason = "that the nodes join is the data of this command")]
fn announce(server: &str, local: bool) {
    let who = if local { "this machine joins" } else { "simulated nodes join" };
    println!("{who} {server}");
}
