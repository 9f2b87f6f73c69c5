//! The upstream JobSet controller, as its own installation starts it but for what needs a cluster around it: it leads
//! without an election, nobody asks it for its health, and its webhooks are registered by their address if at all.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_tree::{Tree, tree};

use crate::differential::{Server, Step};
use crate::ports;
use crate::real::{Real, peer};

/// The program, as `cargo xtask peers` names it.
pub const PROGRAM: &str = "jobset-v0.10.1";
/// Why it cannot be started here, if so.
pub fn missing() -> Option<String> {
    let reason = peer(PROGRAM).err()?;
    Some(std::env::var("MUSTER_TEST_PEER_MISSING").unwrap_or(reason))
}

/// Its webhooks: path, name, whether they change what is created, the kind, and what is done to it.
type Hook = (&'static str, &'static str, bool, &'static str, &'static [&'static str]);
const HOOKS: [Hook; 4] = [
    ("/mutate-jobset-x-k8s-io-v1alpha2-jobset", "mjobset.kb.io", true, "jobsets", &["CREATE"]),
    ("/mutate--v1-pod", "mpod.kb.io", true, "pods", &["CREATE"]),
    ("/validate-jobset-x-k8s-io-v1alpha2-jobset", "vjobset.kb.io", false, "jobsets", &["CREATE", "UPDATE"]),
    ("/validate--v1-pod", "vpod.kb.io", false, "pods", &["CREATE"]),
];
/// Where it complains.
const LOG: &str = "controller.log";
/// How much of that is shown.
const LOG_LINES: usize = 5;

/// The limits of its client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// Its own: 500 requests per second.
    Stock,
    /// More than it can send.
    Lifted,
}

/// The controller at work.
pub struct Upstream {
    /// The process.
    pub pid: u32,
    port: u16,
    /// What certifies its webhooks.
    authority: String,
}

/// Starts it beside a real plane, with its files in this folder.
pub fn start(real: &mut Real, folder: &Path, limits: Limits) -> Result<Upstream, String> {
    let program = peer(PROGRAM)?;
    let kubeconfig = real.kubeconfig(folder, real.server.base())?;
    let authority = certificate(folder).map_err(|e| format!("making a certificate: {e}"))?;
    let config = folder.join("config.yaml");
    let port = ports::free();
    fs::write(&config, configuration(folder, port, limits)).map_err(|e| e.to_string())?;
    let complaints = File::create(folder.join(LOG)).map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--config").arg(config);
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    let pid = real.start_other(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints))?;
    Ok(Upstream { pid, port, authority })
}

impl Upstream {
    /// Has a server ask its webhooks, under the names that its installation gives them.
    pub fn register(&self, server: &Server) -> Result<(), String> {
        for (changes, word) in [(true, "Mutating"), (false, "Validating")] {
            let kind = format!("{word}WebhookConfiguration");
            let low = word.to_lowercase();
            let name = format!("jobset-{low}-webhook-configuration");
            let hooks: Vec<Tree> =
                HOOKS.iter().filter(|hook| hook.2 == changes).map(|hook| self.hook(hook)).collect();
            let all = tree!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
                "metadata": {"name": name.clone()}, "webhooks": Tree::list(hooks)});
            let path = format!("/apis/admissionregistration.k8s.io/v1/{low}webhookconfigurations");
            // What another left under the name goes as a whole.
            server.send("DELETE", &format!("{path}/{name}"), &Step::default(), Vec::new())?;
            let made = server.send("POST", &path, &Step::default(), all.to_json_bytes())?;
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

/// The end of what it said.
pub fn last_words(folder: &Path) -> String {
    let said = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn configuration(folder: &Path, port: u16, limits: Limits) -> String {
    let client = match limits {
        Limits::Stock => "",
        Limits::Lifted => "clientConnection: {qps: 1000000, burst: 1000000}\n",
    };
    format!(
        "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n\
         internalCertManagement: {{enable: false}}\nleaderElection: {{leaderElect: false}}\n\
         webhook: {{host: 127.0.0.1, port: {port}, certDir: '{}'}}\n{client}",
        folder.display()
    )
}

/// Makes what webhooks on this machine show, in files of this folder; how that is known to others.
pub fn certificate(folder: &Path) -> Result<String, Box<dyn std::error::Error>> {
    let key = rcgen::KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = rcgen::CertificateParams::new(names)?.self_signed(&key)?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(BASE64_STANDARD.encode(certificate.pem()))
}
