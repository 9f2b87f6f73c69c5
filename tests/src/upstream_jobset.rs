//! Runs the upstream JobSet controller with the configuration of its own installation, except for what needs a cluster: no leader
//! election, no health probes, and webhooks registered by URL, if at all.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_tree::{Tree, tree};

use crate::differential::{ApiClient, RequestStep};
use crate::ports;
use crate::real::{RealCluster, upstream_program};

/// File name of the program that `cargo xtask peers` builds.
pub const PROGRAM: &str = "jobset-v0.10.1";
/// Returns the reason why the controller cannot be started, if any.
pub fn missing() -> Option<String> {
    let reason = upstream_program(PROGRAM).err()?;
    Some(std::env::var("MUSTER_TEST_PEER_MISSING").unwrap_or(reason))
}

/// Webhooks: path, name, whether mutating, resource, operations.
type Hook = (&'static str, &'static str, bool, &'static str, &'static [&'static str]);
const HOOKS: [Hook; 4] = [
    ("/mutate-jobset-x-k8s-io-v1alpha2-jobset", "mjobset.kb.io", true, "jobsets", &["CREATE"]),
    ("/mutate--v1-pod", "mpod.kb.io", true, "pods", &["CREATE"]),
    ("/validate-jobset-x-k8s-io-v1alpha2-jobset", "vjobset.kb.io", false, "jobsets", &["CREATE", "UPDATE"]),
    ("/validate--v1-pod", "vpod.kb.io", false, "pods", &["CREATE"]),
];
/// File with the controller's stderr.
const LOG: &str = "controller.log";
/// Lines of the log that an error shows.
const LOG_LINES: usize = 5;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClientLimits {
    /// Upstream's default: 500 requests per second.
    Stock,
    Lifted,
}

pub struct UpstreamController {
    pub pid: u32,
    port: u16,
    /// Base64 CA bundle of its webhooks.
    authority: String,
}

/// Starts the controller for a real control plane, with its files in this directory.
pub fn start(
    real: &mut RealCluster,
    folder: &Path,
    limits: ClientLimits,
) -> Result<UpstreamController, String> {
    let program = upstream_program(PROGRAM)?;
    let kubeconfig = real.kubeconfig(folder, real.server.base())?;
    let authority = certificate(folder).map_err(|e| format!("making a certificate: {e}"))?;
    let config = folder.join("config.yaml");
    let port = ports::free();
    fs::write(&config, configuration(folder, port, limits)).map_err(|e| e.to_string())?;
    let complaints = File::create(folder.join(LOG)).map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--config").arg(config);
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    let pid = real.start_process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints))?;
    Ok(UpstreamController { pid, port, authority })
}

impl UpstreamController {
    /// Registers its webhooks under the names of the upstream installation.
    pub fn register(&self, server: &ApiClient) -> Result<(), String> {
        for (changes, word) in [(true, "Mutating"), (false, "Validating")] {
            let kind = format!("{word}WebhookConfiguration");
            let low = word.to_lowercase();
            let name = format!("jobset-{low}-webhook-configuration");
            let hooks: Vec<Tree> =
                HOOKS.iter().filter(|hook| hook.2 == changes).map(|hook| self.hook(hook)).collect();
            let all = tree!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name.clone()}, "webhooks": Tree::list(hooks)});
            let path = format!("/apis/admissionregistration.k8s.io/v1/{low}webhookconfigurations");
            // Replaces a registration of an earlier controller.
            server.send("DELETE", &format!("{path}/{name}"), &RequestStep::default(), Vec::new())?;
            let made = server.send("POST", &path, &RequestStep::default(), all.to_json_bytes())?;
            if made.code != 201 {
                return Err(made.body.to_json());
            }
        }
        Ok(())
    }

    fn hook(&self, (path, name, _, plural, operations): &Hook) -> Tree {
        let (group, version) = if *plural == "pods" { ("", "v1") } else { ("jobset.x-k8s.io", "v1alpha2") };
        let ours =
            tree!({"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]});
        let selected = if *plural == "pods" { ours } else { tree!({}) };
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        let list = |words: &[&str]| Tree::list(words.iter().map(|it| Tree::from(*it)).collect::<Vec<_>>());
        let rule = tree!({"apiGroups": list(&[group]), "apiVersions": list(&[version]),
            "operations": list(operations), "resources": list(&[plural])});
        tree!({"name": *name, "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "objectSelector": selected, "clientConfig": {"url": url, "caBundle": self.authority.clone()},
            "rules": [rule]})
    }
}

/// Returns the last lines of the log.
pub fn log_tail(folder: &Path) -> String {
    let log = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn configuration(folder: &Path, port: u16, limits: ClientLimits) -> String {
    let client = match limits {
        ClientLimits::Stock => "",
        ClientLimits::Lifted => "clientConnection: {qps: 1000000, burst: 1000000}\n",
    };
    format!(
        "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n\
         internalCertManagement: {{enable: false}}\nleaderElection: {{leaderElect: false}}\n\
         webhook: {{host: 127.0.0.1, port: {port}, certDir: '{}'}}\n{client}",
        folder.display()
    )
}

/// Writes a self-signed serving certificate for localhost; returns the CA bundle.
pub fn certificate(folder: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let key = rcgen::KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(BASE64_STANDARD.encode(certificate.pem()))
}
