//! Where the work runs: the embedded plane, started for it, or a server that was named.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use muster_cluster::{ConnectError, KubeApi};
use muster_operator::config;
use tempfile::TempDir;

use crate::cli::{RunFlags, UpFlags};
use crate::embedded::{self, Embedded, EmbeddedError};
use crate::settings::{self, SettingsError};

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    /// Flags.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Ours did not start.
    #[error(transparent)]
    Start(#[from] EmbeddedError),
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// No folder.
    #[error("a temporary folder cannot be made: {0}\n\nhint: set TMPDIR to a folder that can be written to")]
    Folder(std::io::Error),
}

/// A server to talk to.
pub struct Site {
    /// The connection.
    pub api: KubeApi,
    /// The kubeconfig of a plane of our own.
    pub own_kubeconfig: Option<PathBuf>,
}

/// The embedded plane, if there is one. Its folder goes with it.
pub struct Ground {
    own: Option<(Embedded, TempDir)>,
}

impl Ground {
    /// Connects, to a plane that is started for it unless a kubeconfig is named.
    ///
    /// # Errors
    /// There is no server.
    pub async fn prepare(flags: &RunFlags) -> Result<(Site, Ground), GroundError> {
        if flags.kubeconfig.is_some() {
            let api = KubeApi::connect(flags.kubeconfig.as_deref()).await?;
            return Ok((Site { api, own_kubeconfig: None }, Ground { own: None }));
        }
        let folder = tempfile::Builder::new()
            .prefix("muster-run-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(GroundError::Folder)?;
        let settings = settings::settle(up_flags(flags, folder.path()), config::File::default(), None)?;
        let plane = Embedded::start(&settings, embedded::listen(&settings)?)?;
        match KubeApi::connect(Some(plane.kubeconfig())).await {
            Ok(api) => {
                let own_kubeconfig = Some(plane.kubeconfig().to_owned());
                Ok((Site { api, own_kubeconfig }, Ground { own: Some((plane, folder)) }))
            }
            Err(error) => {
                plane.stop().await;
                Err(error.into())
            }
        }
    }

    /// Waits until our plane has ended by an error of its own; for ever, if there is none.
    pub async fn crashed(&mut self) {
        match &mut self.own {
            Some((plane, _)) => plane.crashed().await,
            None => std::future::pending().await,
        }
    }

    /// Stops our plane and removes its folder.
    pub async fn stop(self) {
        if let Some((plane, folder)) = self.own {
            plane.stop().await;
            drop(folder);
        }
    }
}

/// Who brings the definitions of kinds, and does nothing as long as there is nothing.
const DEFINING: &str = "jobset,queue,trainer";

/// What `up` would have been asked. A dry run asks a server that does nothing.
fn up_flags(flags: &RunFlags, folder: &Path) -> UpFlags {
    let idle = flags.dry_run.then(|| (Some(0), Some(DEFINING.to_owned())));
    let (sim_nodes, controllers) = idle.unwrap_or((flags.sim_nodes, None));
    UpFlags {
        ephemeral: true,
        listen: Some((std::net::Ipv4Addr::LOCALHOST, 0).into()),
        kubeconfig: Some(folder.join("kubeconfig")),
        nodes: flags.nodes.clone().filter(|_| !flags.dry_run),
        sim_nodes,
        controllers,
        isolation: flags.isolation,
        runtime: flags.runtime,
        ..UpFlags::default()
    }
}
