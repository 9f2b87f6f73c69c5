//! A real Kubernetes on loopback: etcd, kube-apiserver and, of the controller manager, only what the scenarios need.
//!
//! The binaries come from `KUBEBUILDER_ASSETS` or from the cache folder that `cargo xtask kube` fills. Everything else
//! lives in a temporary folder, and the processes end with the value.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::differential::Server;

/// The version the binaries are built from.
const KUBE: &str = "kube-1.37.1";
/// The only user.
const TOKEN: &str = "judge-token";
/// How long the server may take to be ready.
const READY_TRIES: u32 = 600;
/// The pause between two looks.
const READY_PAUSE: Duration = Duration::from_millis(100);

/// A running real plane.
pub struct Real {
    /// Talks to it as an administrator.
    pub server: Server,
    /// Ended when dropped, in this order.
    processes: Vec<Child>,
    folder: TempDir,
}

impl Drop for Real {
    fn drop(&mut self) {
        for child in &mut self.processes {
            // Already gone is fine.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The folder for the binaries of the pinned Kubernetes, whether they are there or not.
pub fn folder() -> Result<PathBuf, String> {
    let given = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    let folder = given.or_else(|| cache.map(|c| c.join("muster").join(KUBE)));
    folder.ok_or_else(|| "neither KUBEBUILDER_ASSETS nor HOME is set".to_owned())
}

/// Where the binaries are, or why there are none.
pub fn assets() -> Result<PathBuf, String> {
    let folder = folder()?;
    for name in ["etcd", "kube-apiserver", "kube-controller-manager"] {
        if !folder.join(name).exists() {
            return Err(format!("{} is not there: run `cargo xtask kube`", folder.join(name).display()));
        }
    }
    Ok(folder)
}

impl Real {
    /// Starts one.
    pub fn start() -> Result<Real, String> {
        let mut real = Real::start_without_controllers()?;
        let config = write(real.folder.path(), "kubeconfig", &kubeconfig(&real.server))?;
        let [port, ..] = free_ports()?;
        real.processes.insert(0, controllers(&assets()?, &config, port)?);
        Ok(real)
    }

    /// Starts only etcd and kube-apiserver.
    pub fn start_without_controllers() -> Result<Real, String> {
        let assets = assets()?;
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let [client, peer, secure, _] = free_ports()?;
        let mut processes = vec![etcd(&assets, folder.path(), client, peer)?];
        let server = Server::new(&format!("https://127.0.0.1:{secure}"), TOKEN);
        processes.insert(0, apiserver(&assets, folder.path(), client, secure)?);
        let real = Real { server, processes, folder };
        real.wait()?;
        Ok(real)
    }

    /// Its processes.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().map(Child::id).collect()
    }

    fn wait(&self) -> Result<(), String> {
        for _ in 0..READY_TRIES {
            if self.server.get("/readyz").is_ok_and(|answer| answer.code == 200) {
                return Ok(());
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err("the real kube-apiserver did not become ready".into())
    }
}

fn free_ports() -> Result<[u16; 4], String> {
    let mut ports = [0; 4];
    // All are held until all are known, so that they differ.
    let mut held = Vec::new();
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|e| e.to_string())?;
        *port = listener.local_addr().map_err(|e| e.to_string())?.port();
        held.push(listener);
    }
    Ok(ports)
}

fn etcd(assets: &Path, folder: &Path, client: u16, peer: u16) -> Result<Child, String> {
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    spawn(Command::new(assets.join("etcd")).args([
        "--data-dir",
        &folder.join("etcd").display().to_string(),
        "--listen-client-urls",
        &client,
        "--advertise-client-urls",
        &client,
        "--listen-peer-urls",
        &peer,
        "--initial-advertise-peer-urls",
        &peer,
        "--initial-cluster",
        &format!("default={peer}"),
        "--unsafe-no-fsync",
        "--log-level",
        "error",
    ]))
}

fn apiserver(assets: &Path, folder: &Path, etcd: u16, secure: u16) -> Result<Child, String> {
    let key = rcgen::KeyPair::generate().map_err(|e| e.to_string())?;
    let public = write(folder, "service-accounts.pub", &key.public_key_pem())?;
    let key = write(folder, "service-accounts.key", &key.serialize_pem())?;
    let tokens = write(folder, "tokens.csv", &format!("{TOKEN},admin,admin,\"system:masters\"\n"))?;
    let versions = ["scheduling.k8s.io/v1beta1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2"];
    let versions: Vec<String> = versions.iter().map(|v| format!("{v}=true")).collect();
    spawn(
        Command::new(assets.join("kube-apiserver"))
            .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={secure}"))
            .arg(format!("--cert-dir={}", folder.join("certs").display()))
            .arg(format!("--service-account-key-file={public}"))
            .arg(format!("--service-account-signing-key-file={key}"))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.96.0.0/16")
            .arg(format!("--token-auth-file={tokens}"))
            .arg("--authorization-mode=RBAC")
            .arg("--feature-gates=GenericWorkload=true")
            .arg(format!("--runtime-config={}", versions.join(",")))
            // Ours leaves the token volume to the node, see the spec of admission.
            .arg("--disable-admission-plugins=ServiceAccount"),
    )
}

/// Only what deletes: every other controller would write into the objects that are compared.
fn controllers(assets: &Path, kubeconfig: &str, port: u16) -> Result<Child, String> {
    spawn(
        Command::new(assets.join("kube-controller-manager"))
            .arg(format!("--kubeconfig={kubeconfig}"))
            .arg(format!("--authentication-kubeconfig={kubeconfig}"))
            .arg(format!("--authorization-kubeconfig={kubeconfig}"))
            .arg("--leader-elect=false")
            .arg("--bind-address=127.0.0.1")
            .arg(format!("--secure-port={port}"))
            .arg("--controllers=garbage-collector-controller,namespace-controller"),
    )
}

fn kubeconfig(server: &Server) -> String {
    let base = server.base();
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: real\n\
         clusters: [{{name: real, cluster: {{server: '{base}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: admin, user: {{token: {TOKEN}}}}}]\n\
         contexts: [{{name: real, context: {{cluster: real, user: admin}}}}]\n"
    )
}

fn write(folder: &Path, name: &str, text: &str) -> Result<String, String> {
    let path = folder.join(name);
    std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path.display().to_string())
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let program = command.get_program().to_owned();
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|e| format!("{}: {e}", program.display()))
}
