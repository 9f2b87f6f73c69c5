//! The port of the kubelet to its host; tests and the simulator implement their own.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use muster_api::pod_run_spec::ProbeHandler;
use muster_process::prober::{self, OnProbeResult};
use muster_process::{ContainerRuntime, PodDirs, RunId};

use super::container_spec::{self, Volume};

pub trait NodeHost: Send {
    fn containers(&self) -> &dyn ContainerRuntime;

    /// The directories of pods.
    fn layout(&self) -> &PodDirs;

    /// Sets up a volume. Idempotent.
    fn lay(&mut self, volume: &Volume) -> Result<(), String>;

    /// Writes the pod's `/etc/hosts` in place: containers have the inode bind-mounted.
    fn write_hosts(&mut self, uid: &str, text: &str) -> Result<(), String>;

    /// Starts a probe or hook; `done` is called later from another thread.
    fn check(
        &mut self,
        id: &RunId,
        address: &str,
        check: &ProbeHandler,
        timeout: Duration,
        done: OnProbeResult,
    );
}

/// The host of this process.
pub struct LocalHost {
    containers: Arc<dyn ContainerRuntime>,
    layout: PodDirs,
}

impl LocalHost {
    /// Uses this container runtime.
    #[must_use]
    pub fn new(containers: Arc<dyn ContainerRuntime>, layout: PodDirs) -> LocalHost {
        LocalHost { containers, layout }
    }
}

impl NodeHost for LocalHost {
    fn containers(&self) -> &dyn ContainerRuntime {
        &*self.containers
    }

    fn layout(&self) -> &PodDirs {
        &self.layout
    }

    fn lay(&mut self, volume: &Volume) -> Result<(), String> {
        container_spec::set_up_volume(volume)
    }

    fn write_hosts(&mut self, uid: &str, text: &str) -> Result<(), String> {
        let path = self.layout.hosts(uid);
        let write = || -> io::Result<()> {
            std::fs::create_dir_all(self.layout.pod(uid))?;
            // Overwrites, then truncates: a concurrent lookup must not see an empty file.
            let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
            file.write_all(text.as_bytes())?;
            file.set_len(text.len() as u64)
        };
        write().map_err(|error| format!("{}: {error}", path.display()))
    }

    fn check(
        &mut self,
        id: &RunId,
        address: &str,
        check: &ProbeHandler,
        timeout: Duration,
        done: OnProbeResult,
    ) {
        prober::run_probe(
            self.containers.clone(),
            id.clone(),
            address.to_owned(),
            check.clone(),
            timeout,
            done,
        );
    }
}
