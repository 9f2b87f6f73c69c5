//! The target of a run: an embedded control plane that is started for it, or the cluster of `--kubeconfig`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use muster_cluster::{ConnectError, KubeApi};
use muster_operator::config;
use tempfile::TempDir;

use crate::cli::{RunFlags, UpFlags};
use crate::embedded::{self, Embedded, EmbeddedError};
use crate::settings::{self, SettingsError};

/// There is no API server to run on.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The embedded control plane did not start.
    #[error(transparent)]
    Start(#[from] EmbeddedError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("a temporary folder cannot be made: {0}\n\nhint: set TMPDIR to a folder that can be written to")]
    Folder(std::io::Error),
}

/// The API server of a run.
pub struct TargetServer {
    pub api: KubeApi,
    /// The kubeconfig of the embedded control plane, if it is the target.
    pub own_kubeconfig: Option<PathBuf>,
}

/// The embedded control plane, if it is the target, and its temporary directory.
pub struct RunTarget {
    own: Option<(Embedded, TempDir)>,
}

impl RunTarget {
    /// Connects to the cluster of `--kubeconfig`, or starts the embedded control plane and connects to that.
    ///
    /// # Errors
    /// The control plane does not start, or the API server does not answer.
    pub async fn prepare(flags: &RunFlags) -> Result<(TargetServer, RunTarget), TargetError> {
        if flags.kubeconfig.is_some() {
            let api = KubeApi::connect(flags.kubeconfig.as_deref()).await?;
            return Ok((TargetServer { api, own_kubeconfig: None }, RunTarget { own: None }));
        }
        let folder = tempfile::Builder::new()
            .prefix("muster-run-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .map_err(TargetError::Folder)?;
        let settings =
            settings::resolve(up_flags(flags, folder.path()), config::ConfigFile::default(), None)?;
        let plane = Embedded::start(&settings, embedded::listen(&settings)?)?;
        match KubeApi::connect(Some(plane.kubeconfig())).await {
            Ok(api) => {
                let own_kubeconfig = Some(plane.kubeconfig().to_owned());
                Ok((TargetServer { api, own_kubeconfig }, RunTarget { own: Some((plane, folder)) }))
            }
            Err(error) => {
                // An orderly stop, as at the end of a run.
                plane.stop().await;
                Err(error.into())
            }
        }
    }

    /// Resolves when the embedded control plane crashes; otherwise never.
    pub async fn crashed(&mut self) {
        match &mut self.own {
            Some((plane, _)) => plane.crashed().await,
            None => std::future::pending().await,
        }
    }

    /// Stops the embedded control plane and removes its directory.
    pub async fn stop(self) {
        if let Some((plane, folder)) = self.own {
            plane.stop().await;
            drop(folder);
        }
    }
}

/// The controllers that install CRDs. A dry run needs their kinds for discovery; without objects they do nothing.
const DEFINING: &str = "jobset,queue,trainer";

/// The flags of the equivalent `muster up`. For a dry run: no nodes, and only the controllers that install CRDs.
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
