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
