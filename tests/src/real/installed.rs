//! A real plane on which Muster is installed: by `muster install`, with its operator under its own ServiceAccount.
//!
//! # Invariants
//!
//! - Nothing routes to the address of a Service here, so that those which an API server asks are made an `ExternalName` of
//!   this machine: it then asks `localhost` at the port of the Service, and still wants the certificate of the Service's
//!   name.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tree::{Tree, tree};

use super::parts::{kubeconfig_of, write};
use super::{READY_PAUSE, READY_TRIES, Real};
use crate::differential::Step;
use crate::ports;

const SERVICES: &str = "/api/v1/namespaces/muster-system/services";
const SERVICE: &str = "muster-webhook";
const VISIBILITY: &str = "muster-visibility";
const TOKEN: &str = "/api/v1/namespaces/muster-system/serviceaccounts/muster-operator/token";
/// Longer than any test takes.
const TOKEN_SECS: i64 = 24 * 60 * 60;

/// The UID of an owner that does not exist.
const ABSENT_UID: &str = "00000000-0000-0000-0000-000000000001";

/// An installed operator: how it is started.
pub struct Installed {
    /// The kubeconfig of its ServiceAccount.
    pub kubeconfig: PathBuf,
    /// Where the API server asks its webhooks.
    pub webhooks: String,
}

impl Installed {
    /// The words that start it as it is installed, with these further ones.
    #[must_use]
    pub fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let own = ["operator", "--webhook-service", SERVICE, "--webhook-listen", &self.webhooks];
        own.into_iter().chain(more.iter().copied()).collect()
    }
}

impl Real {
    /// Waits until the garbage collector follows JobSets and what they own: until it has deleted one object of each kind
    /// whose owner does not exist.
    ///
    /// A collector whose first lists take longer than 30 seconds starts without them. Until it has read the JobSets it does
    /// not know that one belongs to a TrainJob, and takes the finalizer of foreground deletion off the TrainJob while the
    /// JobSet is still there.
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
    pub fn install(&self, binary: &Path) -> Result<Installed, String> {
        self.install_with(binary, &[])
    }

    /// The same, with these further words.
    pub fn install_with(&self, binary: &Path, more: &[&str]) -> Result<Installed, String> {
        let port = ports::free();
        let mut command = Command::new(binary);
        command
            .args(["install", "--webhook-port", &port.to_string()])
            .args(more)
            .arg("--kubeconfig")
            .arg(self.own_kubeconfig()?);
        let done = command.output().map_err(|e| format!("{}: {e}", binary.display()))?;
        if !done.status.success() {
            return Err(format!("muster install: {}", String::from_utf8_lossy(&done.stderr)));
        }
        self.installed(port)
    }

    /// How the operator of an installation is started that was just made with this `--webhook-port`: its Services lead to this
    /// machine, and JobSets are served.
    pub fn installed(&self, port: u16) -> Result<Installed, String> {
        self.lead_to_this_machine()?;
        for _ in 0..READY_TRIES {
            if self.server.get("/apis/jobset.x-k8s.io/v1alpha2/jobsets")?.code == 200 {
                return Ok(Installed { kubeconfig: self.account()?, webhooks: format!("127.0.0.1:{port}") });
            }
            std::thread::sleep(READY_PAUSE);
        }
        Err("JobSets were never served".to_owned())
    }

    /// Installs Muster, starts its operator with these further words and waits until it is in charge; the process.
    pub fn operate_installed(&mut self, binary: &Path, words: &[&str]) -> Result<u32, String> {
        let installed = self.install(binary)?;
        self.operate_as(binary, &installed, words)
    }

    /// The same as this configuration says: what is installed asks only about what is run.
    pub fn operate_configured(&mut self, binary: &Path, config: &str, words: &[&str]) -> Result<u32, String> {
        let file = write(self.folder.path(), "configuration.yaml", config)?;
        let config = ["--config", file.as_str()];
        let installed = self.install_with(binary, &config)?;
        self.operate_as(binary, &installed, &[&config, words].concat())
    }

    /// Starts the operator that is installed, with these further words, and waits until it is in charge; the process.
    pub fn operate_as(
        &mut self,
        binary: &Path,
        installed: &Installed,
        words: &[&str],
    ) -> Result<u32, String> {
        self.start_operator(binary, &installed.words(words), &installed.kubeconfig)
    }

    /// Has the Services that were installed lead to this machine: no cluster is there to which they could.
    pub fn lead_to_this_machine(&self) -> Result<(), String> {
        for name in [SERVICE, VISIBILITY] {
            let path = format!("{SERVICES}/{name}");
            // Without queues nobody asks about them.
            if self.server.get(&path)?.code == 404 {
                continue;
            }
            self.must("DELETE", &path, &tree!({}))?;
            let local = tree!({"metadata": {"name": name}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
            self.must("POST", SERVICES, &local)?;
        }
        Ok(())
    }

    /// Writes the kubeconfig of the operator's ServiceAccount.
    fn account(&self) -> Result<PathBuf, String> {
        let asked = tree!({"spec": {"expirationSeconds": TOKEN_SECS}});
        let token = self.must("POST", TOKEN, &asked)?;
        let config = kubeconfig_of(self.server.base(), token.str_at(&["status", "token"]));
        write(self.folder.path(), "operator.kubeconfig", &config).map(PathBuf::from)
    }

    fn must(&self, method: &str, path: &str, body: &Tree) -> Result<Tree, String> {
        let answer = self.server.send(method, path, &Step::default(), body.to_json_bytes())?;
        if answer.code < 300 {
            Ok(answer.body)
        } else {
            Err(format!("{method} {path}: {}", answer.body.to_json()))
        }
    }
}

/// By kind: a JobSet makes a Service of its own name.
fn orphan_name(object: &Tree) -> String {
    format!("orphan-{}", object.str_at(&["kind"]).to_lowercase())
}

/// An object of each kind that foreground deletion of a TrainJob waits for, with the path of its collection.
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
