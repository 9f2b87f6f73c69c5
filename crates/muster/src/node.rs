//! `muster node`: simulated nodes for any API server.

use std::io;

use muster_api::ports::Entropy;
use muster_node::provision::Provisioner;

use crate::away::{Away, AwayError, End};
use crate::cli::NodeFlags;
use crate::nodes::{self, NodesError};
use crate::ports::SystemEntropy;
use crate::settings::{Place, SettingsError};
use crate::{log, settings};

/// Why `node` ended.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// No local node yet.
    #[error(
        "this machine cannot be a node yet: processes are not run\n\nhint: `--sim-nodes N` makes simulated nodes"
    )]
    Local,
    /// The file of nodes.
    #[error(transparent)]
    Nodes(#[from] NodesError),
    /// The folder of volumes.
    #[error(transparent)]
    Settings(#[from] SettingsError),
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
        (None, None) => return Err(NodeError::Local),
    };
    let mark = mark();
    let mut controllers = nodes::read(&asked)?.controllers(&mark);
    let folders = nodes::folders(&place(flags)?);
    controllers.push(Box::new(Provisioner::new(&mark, Box::new(folders))));
    let mut away = Away::connect(flags.kubeconfig.as_deref())?;
    match away.run(controllers, announce, std::future::pending())? {
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

/// The line that scripts wait for.
#[expect(clippy::print_stdout, reason = "that the nodes join is the data of this command")]
fn announce(server: &str) {
    println!("simulated nodes join {server}");
}
