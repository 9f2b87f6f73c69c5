//! Installation of Muster on a real control plane by `muster install`, with the operator under its own ServiceAccount.
//!
//! # Invariants
//!
//! - No network routes to ClusterIPs here. The Services that the API server calls become an `ExternalName` of `localhost`: it then
//!   connects to localhost at the Service's port, and still verifies the certificate for the Service's name.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tree::{Tree, tree};

use super::components::{kubeconfig_with_token, write};
use super::{READY_PAUSE, READY_TRIES, RealCluster};
use crate::differential::RequestStep;
use crate::ports;

const SERVICES: &str = "/api/v1/namespaces/muster-system/services";
const SERVICE: &str = "muster-webhook";
const VISIBILITY: &str = "muster-visibility";
const TOKEN: &str = "/api/v1/namespaces/muster-system/serviceaccounts/muster-operator/token";
/// Lifetime of the operator's token, longer than any test.
const TOKEN_SECS: i64 = 24 * 60 * 60;

/// The UID of an owner that does not exist.
const ABSENT_UID: &str = "00000000-0000-0000-0000-000000000001";

/// How to start the installed operator.
pub struct InstalledOperator {
    /// Kubeconfig of its ServiceAccount.
    pub kubeconfig: PathBuf,
    /// Address of its webhook server.
    pub webhooks: String,
}

impl InstalledOperator {
    /// Returns the arguments of the installed Deployment, with additional ones.
    #[must_use]
    pub fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let own = ["operator", "--webhook-service", SERVICE, "--webhook-listen", &self.webhooks];
        own.into_iter().chain(more.iter().copied()).collect()
    }
}

impl RealCluster {
    /// Waits until the garbage collector watches JobSets and their children: until it has deleted an object of each kind whose owner does
    /// not exist.
    ///
    /// A collector whose initial lists take longer than 30 seconds starts without them. Before it has listed the JobSets, it does not know
    /// the dependents of a TrainJob and removes the foreground deletion finalizer while the JobSet still exists.
    pub fn wait_for_collector(&self) -> Result<(), String> {
        let owner = tree!({"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": ABSENT_UID});
        let orphans = orphans();
        for (path, object) in &orphans {
            let name = orphan_name(object);
            let metadata = tree!({"name": name, "ownerReferences": [(owner.clone())]});
            self.must("POST", path, &object.with_key("metadata", metadata))?;
        }
        for (path, object) in &orphans {
            self.wait_until_gone(&format!("{path}/{}", orphan_name(object)))?;
        }
        Ok(())
    }

    fn wait_until_gone(&self, path: &str) -> Result<(), String> {
        for _ in 0..READY_TRIES {
            if self.server.get(path)?.code == 404 {
                return Ok(());
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err(format!("the garbage collector never deleted {path}, which has no owner"))
    }

    /// Installs Muster and waits until JobSets are served.
    pub fn install(&self, binary: &Path) -> Result<InstalledOperator, String> {
        self.install_with(binary, &[])
    }

    /// Like [`RealCluster::install`], with additional arguments.
    pub fn install_with(&self, binary: &Path, more: &[&str]) -> Result<InstalledOperator, String> {
        let port = ports::free();
        let mut command = Command::new(binary);
        command
            .args(["install", "--webhook-port", &port.to_string()])
            .args(more)
            .arg("--kubeconfig")
            .arg(self.admin_kubeconfig()?);
        let done = command.output().map_err(|e| format!("{}: {e}", binary.display()))?;
        if !done.status.success() {
            return Err(format!("muster install: {}", String::from_utf8_lossy(&done.stderr)));
        }
        self.installed(port)
    }

    /// Prepares the operator of an installation with this `--webhook-port`: points its Services at localhost and waits until JobSets are
    /// served.
    pub fn installed(&self, port: u16) -> Result<InstalledOperator, String> {
        self.point_services_at_localhost()?;
        for _ in 0..READY_TRIES {
            if self.server.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets")?.code == 200 {
                return Ok(InstalledOperator {
                    kubeconfig: self.operator_kubeconfig()?,
                    webhooks: format!("127.0.0.1:{port}"),
                });
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err("JobSets were never served".to_owned())
    }

    /// Installs Muster, starts its operator with additional arguments and waits until it is leader; returns its process id.
    pub fn install_and_operate(&mut self, binary: &Path, words: &[&str]) -> Result<u32, String> {
        let installed = self.install(binary)?;
        self.start_installed_operator(binary, &installed, words)
    }

    /// Like [`RealCluster::install_and_operate`], with a configuration file: only the webhooks of its controllers are installed.
    pub fn install_and_operate_with_config(
        &mut self,
        binary: &Path,
        config: &str,
        words: &[&str],
    ) -> Result<u32, String> {
        let file = write(self.folder.path(), "configuration.yaml", config)?;
        let config = ["--config", file.as_str()];
        let installed = self.install_with(binary, &config)?;
        self.start_installed_operator(binary, &installed, &[&config, words].concat())
    }

    /// Starts the installed operator with additional arguments and waits until it is leader; returns its process id.
    pub fn start_installed_operator(
        &mut self,
        binary: &Path,
        installed: &InstalledOperator,
        words: &[&str],
    ) -> Result<u32, String> {
        self.start_operator(binary, &installed.args(words), &installed.kubeconfig)
    }

    /// Replaces the installed Services by `ExternalName`s of localhost: there is no cluster network.
    pub fn point_services_at_localhost(&self) -> Result<(), String> {
        for name in [SERVICE, VISIBILITY] {
            let path = format!("{SERVICES}/{name}");
            // Without queueing there is no visibility Service.
            if self.server.get(&path)?.code == 404 {
                continue;
            }
            self.must("DELETE", &path, &tree!({}))?;
            let local = tree!({"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
            self.must("POST", SERVICES, &local)?;
        }
        Ok(())
    }

    fn operator_kubeconfig(&self) -> Result<PathBuf, String> {
        let request = tree!({"spec": {"expirationSeconds": TOKEN_SECS}});
        let token = self.must("POST", TOKEN, &request)?;
        let config = kubeconfig_with_token(self.server.base(), token.str_at(&["status", "token"]));
        write(self.folder.path(), "operator.kubeconfig", &config).map(PathBuf::from)
    }

    fn must(&self, method: &str, path: &str, body: &Tree) -> Result<Tree, String> {
        let answer = self.server.send(method, path, &RequestStep::default(), body.to_json_bytes())?;
        if answer.code < 300 {
            Ok(answer.body)
        } else {
            Err(format!("{method} {path}: {}", answer.body.to_json()))
        }
    }
}

/// Named after the kind: a JobSet creates a Service of its own name.
fn orphan_name(object: &Tree) -> String {
    format!("orphan-{}", object.str_at(&["kind"]).to_lowercase())
}

/// Returns an object of each kind that foreground deletion of a TrainJob waits for, with its collection path.
fn orphans() -> [(&'static str, Tree); 5] {
    let pods = tree!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let job = tree!({"suspend": true, "template": {"spec": pods}});
    let set = tree!({"suspend": true, "replicatedJobs": [{"name": "w", "template": {"spec": job.clone()}}]});
    let claim = tree!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    [
        (
            "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets",
            tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": set}),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            tree!({"apiVersion": "batch/v1", "kind": "Job", "spec": job}),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim}),
        ),
        (
            "/api/v1/namespaces/default/services",
            tree!({"apiVersion": "v1", "kind": "Service", "spec": {"clusterIP": "None"}}),
        ),
        ("/api/v1/namespaces/default/secrets", tree!({"apiVersion": "v1", "kind": "Secret"})),
    ]
}
