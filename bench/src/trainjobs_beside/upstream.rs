//! Upstream's Trainer beside a real plane, as its own installation has it: its definitions, its webhooks and its
//! configuration as its Go module publishes them.
//!
//! What needs a cluster around it is different: it leads without an election, its health and metrics endpoints are off,
//! its certificate is made here, it says less than its installation has it say, and the API server finds its webhooks on
//! loopback.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use muster_api::train::consts::GROUP;
use muster_tests::corpus;
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::real::{RealCluster, upstream_program};
use muster_tests::upstream_jobset::certificate;
use muster_tree::{Tree, tree};

/// Where definitions are made.
pub const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The program, as `cargo xtask peers` names it, and the module it is built from.
const PROGRAM: &str = "trainer-v2.1.0";
const MODULE: &str = "github.com/kubeflow/trainer/v2@v2.1.0";
const CRDS: &str = "manifests/base/crds";
const WEBHOOKS: &str = "manifests/base/webhook";
const CONFIGURATION: &str = "manifests/base/manager";
/// Where it looks for its certificate, below the folder for temporary files.
const CERTIFICATES: &str = "k8s-webhook-server/serving-certs";
const LOG: &str = "trainer.log";
/// How much of that is shown.
const LOG_LINES: usize = 5;
/// How often it is looked whether a kind is served, and how long apart.
const SERVED_TRIES: usize = 300;
const SERVED_PAUSE: Duration = Duration::from_millis(100);

/// The limits of its client, in requests per second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// Those of its installation.
    Stock,
    /// More than it can send.
    Lifted,
}

/// Why it cannot be started here, if so.
pub fn missing() -> Option<String> {
    upstream_program(PROGRAM).err()
}

/// Defines its kinds, and waits until they are served: it looks for them once, when it starts.
pub fn define(server: &ApiClient) -> Result<(), String> {
    let all = corpus::documents_of(MODULE, CRDS)?;
    let ours = |it: &&Tree| {
        it.str_at(&["kind"]) == "CustomResourceDefinition" && it.str_at(&["spec", "group"]) == GROUP
    };
    for definition in all.iter().filter(ours) {
        make(server, DEFINITIONS, definition)?;
        served(server, definition.str_at(&["spec", "names", "plural"]))?;
    }
    Ok(())
}

/// Waits until a kind is served and listed by discovery.
fn served(server: &ApiClient, plural: &str) -> Result<(), String> {
    for _ in 0..SERVED_TRIES {
        let told = server.get(&format!("/apis/{GROUP}/v1alpha1"))?;
        let is_told = told.body.items_at(&["resources"]).iter().any(|it| it.str_at(&["name"]) == plural);
        if is_told && server.get(&format!("/apis/{GROUP}/v1alpha1/{plural}"))?.code == 200 {
            return Ok(());
        }
        thread::sleep(SERVED_PAUSE);
    }
    Err(format!("{plural} are never served"))
}

/// Starts it with its files in this folder, and has the server ask its webhooks; returns the process.
pub fn start(real: &mut RealCluster, folder: &Path, limits: Limits) -> Result<u32, String> {
    let program = upstream_program(PROGRAM)?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(|e| e.to_string())?;
    let port = free.port();
    let certificates = folder.join(CERTIFICATES);
    fs::create_dir_all(&certificates).map_err(|e| e.to_string())?;
    let authority = certificate(&certificates).map_err(|e| format!("making a certificate: {e}"))?;
    let config = folder.join("config.yaml");
    fs::write(&config, configuration(port, limits)?.to_json()).map_err(|e| e.to_string())?;
    let complaints = File::create(folder.join(LOG)).map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.env("KUBECONFIG", real.kubeconfig(folder, real.server.base())?).env("TMPDIR", folder);
    command.arg("--config").arg(config).arg("--zap-log-level=error");
    let pid = real.start_process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints))?;
    register(&real.server, port, &authority)?;
    Ok(pid)
}

/// The end of what it said.
pub fn log_tail(folder: &Path) -> String {
    let said = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// Registers its webhooks at its address.
fn register(server: &ApiClient, port: u16, authority: &str) -> Result<(), String> {
    for all in corpus::documents_of(MODULE, WEBHOOKS)? {
        let kind = all.str_at(&["kind"]).to_owned();
        if !kind.ends_with("WebhookConfiguration") {
            continue;
        }
        let hook = |hook: &Tree| {
            let url =
                format!("https://127.0.0.1:{port}{}", hook.str_at(&["clientConfig", "service", "path"]));
            hook.with(&["clientConfig"], tree!({"url": url, "caBundle": authority}))
        };
        let hooks = all.items_at(&["webhooks"]).iter().map(hook);
        let name = format!("{}.{GROUP}", if kind.starts_with('V') { "validator" } else { "defaulter" });
        let all = all.with(&["metadata"], tree!({"name": name})).with(&["webhooks"], Tree::list(hooks));
        make(server, &format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase()), &all)?;
    }
    Ok(())
}

pub fn make(server: &ApiClient, path: &str, object: &Tree) -> Result<(), String> {
    let made = server.send("POST", path, &RequestStep::default(), object.to_json_bytes())?;
    if made.code == 201 { Ok(()) } else { Err(format!("{path}: {}", made.body.to_json())) }
}

/// The configuration of its installation, with what is different here.
fn configuration(port: u16, limits: Limits) -> Result<Tree, String> {
    let published = corpus::documents_of(MODULE, CONFIGURATION)?;
    let published = published.iter().find(|it| it.str_at(&["kind"]) == "Configuration");
    let published = published.ok_or_else(|| format!("{MODULE} publishes no configuration"))?;
    let client = match limits {
        Limits::Stock => published.at(&["clientConnection"]).cloned().unwrap_or_default(),
        Limits::Lifted => tree!({"qps": 1_000_000, "burst": 1_000_000}),
    };
    Ok(published.merge(&tree!({
        "health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": i64::from(port)},
        "leaderElection": {"leaderElect": false}, "certManagement": {"enable": false},
        "clientConnection": client})))
}
