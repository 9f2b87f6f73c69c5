//! etcd and kube-apiserver: the part of a real plane that is started once and serves one plane after the other.

use std::path::Path;

use tempfile::TempDir;

use super::parts::{apiserver, etcd};
use super::process::Guarded;
use super::{Disk, Gangs, READY_PAUSE, READY_TRIES, TOKEN};
use crate::differential::Server;
use crate::ports;

/// A running etcd and the kube-apiserver before it.
pub(super) struct Backend {
    pub disk: Disk,
    pub gangs: Gangs,
    /// Absent while a test has stopped it.
    apiserver: Option<Guarded>,
    etcd: Guarded,
    /// The ports of etcd and of the API server.
    ports: (u16, u16),
    folder: TempDir,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.apiserver.iter_mut().for_each(Guarded::end);
        self.etcd.end();
    }
}

impl Backend {
    /// Starts both and waits until the server is ready.
    pub fn start(disk: Disk, gangs: Gangs) -> Result<Backend, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let [client, peer, secure] = [(); 3].map(|()| ports::free());
        let etcd = etcd(folder.path(), client, peer, disk)?;
        // It stays until the test process ends, which removes no folders.
        let etcd = Guarded::new(etcd, Some(folder.path()))?;
        let mut backend = Backend { disk, gangs, apiserver: None, etcd, ports: (client, secure), folder };
        backend.start_server()?;
        Ok(backend)
    }

    /// Starts the API server and waits until it is ready.
    pub fn start_server(&mut self) -> Result<(), String> {
        let (etcd, secure) = self.ports;
        let child = apiserver(self.folder.path(), etcd, secure, self.gangs)?;
        self.apiserver = Some(Guarded::new(child, None)?);
        let server = self.server();
        for _ in 0..READY_TRIES {
            if server.get("/readyz").is_ok_and(|answer| answer.code == 200) {
                return Ok(());
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err("the real kube-apiserver did not become ready".into())
    }

    /// Kills the API server.
    pub fn stop_server(&mut self) -> Result<(), String> {
        let mut server = self.apiserver.take().ok_or("the API server is stopped already")?;
        server.end();
        Ok(())
    }

    /// Talks to it as an administrator.
    pub fn server(&self) -> Server {
        Server::new(&format!("https://127.0.0.1:{}", self.ports.1), TOKEN)
    }

    /// Where its certificates, keys and logs are.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn pids(&self) -> impl Iterator<Item = u32> {
        self.apiserver.iter().map(Guarded::id).chain([self.etcd.id()])
    }
}
