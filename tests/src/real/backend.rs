//! etcd and kube-apiserver: the part of a real control plane that is reused.

use std::path::Path;

use tempfile::TempDir;

use super::components::{apiserver, etcd};
use super::process::GuardedChild;
use super::{Disk, GangSupport, READY_PAUSE, READY_TRIES, TOKEN};
use crate::differential::ApiClient;
use crate::ports;

/// A running etcd and its kube-apiserver.
pub(super) struct Backend {
    pub disk: Disk,
    pub gangs: GangSupport,
    /// `None` while a test has stopped it.
    apiserver: Option<GuardedChild>,
    etcd: GuardedChild,
    /// Ports of etcd and of the API server.
    ports: (u16, u16),
    folder: TempDir,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.apiserver.iter_mut().for_each(GuardedChild::end);
        self.etcd.end();
    }
}

impl Backend {
    /// Starts both and waits until the server is ready.
    pub fn start(disk: Disk, gangs: GangSupport) -> Result<Backend, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let [client, peer, secure] = [(); 3].map(|()| ports::free());
        let etcd = etcd(folder.path(), client, peer, disk)?;
        // It runs until the test process exits, which does not remove directories: the guard does.
        let etcd = GuardedChild::new(etcd, Some(folder.path()))?;
        let mut backend = Backend { disk, gangs, apiserver: None, etcd, ports: (client, secure), folder };
        backend.start_server()?;
        Ok(backend)
    }

    /// Starts the API server and waits until it is ready.
    pub fn start_server(&mut self) -> Result<(), String> {
        let (etcd, secure) = self.ports;
        let child = apiserver(self.folder.path(), etcd, secure, self.gangs)?;
        self.apiserver = Some(GuardedChild::new(child, None)?);
        let server = self.server();
        for _ in 0..READY_TRIES {
            if server.get("/readyz").is_ok_and(|answer| answer.code == 200) {
                return Ok(());
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err("the real kube-apiserver did not become ready".into())
    }

    pub fn stop_server(&mut self) -> Result<(), String> {
        let mut server = self.apiserver.take().ok_or("the API server is stopped already")?;
        server.end();
        Ok(())
    }

    /// Returns an administrator client.
    pub fn server(&self) -> ApiClient {
        ApiClient::new(&format!("https://127.0.0.1:{}", self.ports.1), TOKEN)
    }

    /// Directory of certificates, keys and logs.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.apiserver.iter().map(GuardedChild::id).chain([self.etcd.id()])
    }
}
