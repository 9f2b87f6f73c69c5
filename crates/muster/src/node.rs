//! `muster node`: simulated nodes for any API server.

use std::io;
use std::sync::Arc;

use muster_api::ports::Entropy;
use muster_cluster::{CALLS_IN_FLIGHT_MAX, ConnectError, KubeApi};
use muster_control::LoopOptions;
use muster_control::run::{Shell, Tidings};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::cli::NodeFlags;
use crate::nodes::{self, NodesError};
use crate::ports::{SystemClock, SystemEntropy};
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
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
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
    let controller = nodes::read(&asked)?.controller(&mark());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Signals count from here on: a stop during the start is a stop as well.
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    let api = runtime.block_on(KubeApi::connect(flags.kubeconfig.as_deref()))?;
    let server = api.server().to_owned();
    // Replies of twice as many as can be under way: the next ones are ready when a slot is free.
    let options = LoopOptions { calls_in_flight_max: 2 * CALLS_IN_FLIGHT_MAX };
    let (crash, mut crashed) = oneshot::channel();
    let tidings = Tidings {
        ready: Box::new(move || announce(&server)),
        crashed: Box::new(move || {
            let _ = crash.send(());
        }),
    };
    // Outside the runtime: the loop has a thread of its own and may wait.
    let shell =
        Shell::start(Arc::new(api), Arc::new(SystemClock), vec![Box::new(controller)], options, tidings)?;
    let ended = runtime.block_on(async {
        tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            Ok(()) = &mut crashed => Err(NodeError::Crashed),
        }
    });
    shell.stop();
    ended
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
