//! Upstream's Kueue beside a real plane, as its own installation has it: its definitions with their conversion, its
//! webhooks, its configuration and the certificates that it makes itself, all as its Go module publishes them.
//!
//! What needs a cluster around it is different: it leads without an election, there are no requests for its health, its metrics or
//! its visibility, it says less than its installation has it say, and the API server finds it on loopback. Of its
//! integrations only that with Jobs is on, and of its webhooks those of its own kinds are registered.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use muster_api::queue::consts::GROUP;
use muster_tests::corpus;
use muster_tests::differential::{ApiClient, RequestStep};
use muster_tests::real::{RealCluster, upstream_program};
use muster_tree::{Tree, tree};

/// The program, as `cargo xtask peers` names it, and the module it is built from.
pub const PROGRAM: &str = "kueue-v0.19.2";
const MODULE: &str = "sigs.k8s.io/kueue@v0.19.2";
const DEFINITIONS: &str = "config/components/crd/bases";
const WEBHOOKS: &str = "config/components/webhook";
const CONFIGURATION: &str = "config/components/manager";
/// The kinds that its webhooks convert.
const CONVERTED: [&str; 5] = ["localqueues", "clusterqueues", "cohorts", "workloads", "multikueueclusters"];
const NAMESPACE: &str = "kueue-system";
const SERVICE: &str = "kueue-webhook-service";
const SECRET: &str = "kueue-webhook-server-cert";
const LOG: &str = "kueue.log";
/// How much of that is shown.
const LOG_LINES: usize = 5;
/// How long it may take to make its certificates.
const SECRET_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// The limits of its client, in requests per second.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Limits {
    /// 50, and 100 at once: those under which its figures are published.
    Published,
    /// Those of its installation.
    Stock,
    Lifted,
}

/// Why it cannot be started here, if so.
pub fn missing() -> Option<String> {
    upstream_program(PROGRAM).err()
}

/// Defines its kinds and starts it, with its files in this folder; returns the process.
pub fn start(real: &mut RealCluster, folder: &Path, limits: Limits) -> Result<u32, String> {
    let program = upstream_program(PROGRAM)?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(|e| e.to_string())?;
    install(&real.server, free.port())?;
    let certificates = folder.join("certificates");
    fs::create_dir_all(&certificates).map_err(|e| e.to_string())?;
    let config = folder.join("config.yaml");
    let text = configuration(&certificates, free.port(), limits)?.to_json();
    fs::write(&config, text).map_err(|e| e.to_string())?;
    let complaints = File::create(folder.join(LOG)).map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.env("KUBECONFIG", real.kubeconfig(folder, real.server.base())?).arg("--config").arg(config);
    command.args(["--feature-gates=VisibilityOnDemand=false", "--zap-log-level=error"]);
    let pid = real.start_process(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints))?;
    mount(&real.server, &certificates)?;
    Ok(pid)
}

/// The end of what it said.
pub fn log_tail(folder: &Path) -> String {
    let said = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn install(server: &ApiClient, port: u16) -> Result<(), String> {
    for definition in corpus::documents_of(MODULE, DEFINITIONS)? {
        let converts = CONVERTED.contains(&definition.str_at(&["spec", "names", "plural"]));
        let client = tree!({"service": place(port, "/convert")});
        let conversion = tree!({"strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
        let definition =
            if converts { definition.with(&["spec", "conversion"], conversion) } else { definition };
        make(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition)?;
    }
    let named = |name: &str| tree!({"name": name, "namespace": NAMESPACE});
    let space = tree!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    make(server, "/api/v1/namespaces", &space)?;
    let secret = tree!({"apiVersion": "v1", "kind": "Secret", "metadata": named(SECRET)});
    make(server, &format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret)?;
    // The API server calls such a service under another name, and expects the certificate of the service.
    let service = tree!({"apiVersion": "v1", "kind": "Service", "metadata": named(SERVICE),
        "spec": {"type": "ExternalName", "externalName": "localhost"}});
    make(server, &format!("/api/v1/namespaces/{NAMESPACE}/services"), &service)?;
    register(server, port)
}

/// Registers its webhooks of its own kinds, under the names that its installation gives them.
fn register(server: &ApiClient, port: u16) -> Result<(), String> {
    for all in corpus::documents_of(MODULE, WEBHOOKS)? {
        let kind = all.str_at(&["kind"]).to_owned();
        if !kind.ends_with("WebhookConfiguration") {
            continue;
        }
        let name = format!("kueue-{}", all.str_at(&["metadata", "name"]));
        let hooks = all.items_at(&["webhooks"]).iter().filter(|hook| is_of_own_kind(hook));
        let hooks = hooks.map(|hook| {
            let path = hook.str_at(&["clientConfig", "service", "path"]);
            hook.with(&["clientConfig"], tree!({"service": place(port, path)}))
        });
        let all = all.with(&["metadata"], tree!({"name": name})).with(&["webhooks"], Tree::list(hooks));
        let path = format!("/apis/admissionregistration.k8s.io/v1/{}s", kind.to_lowercase());
        make(server, &path, &all)?;
    }
    Ok(())
}

fn is_of_own_kind(hook: &Tree) -> bool {
    let mut rules = hook.items_at(&["rules"]).iter();
    rules.any(|rule| rule.items_at(&["apiGroups"]).iter().any(|group| group.as_str() == Some(GROUP)))
}

fn place(port: u16, path: &str) -> Tree {
    tree!({"namespace": NAMESPACE, "name": SERVICE, "path": path, "port": i64::from(port)})
}

fn make(server: &ApiClient, path: &str, object: &Tree) -> Result<(), String> {
    let made = server.send("POST", path, &RequestStep::default(), object.to_json_bytes())?;
    if made.code == 201 { Ok(()) } else { Err(format!("{path}: {}", made.body.to_json())) }
}

/// The configuration of its installation, with what is different here.
fn configuration(certificates: &Path, port: u16, limits: Limits) -> Result<Tree, String> {
    let published = corpus::documents_of(MODULE, CONFIGURATION)?;
    let published = published.iter().find(|it| it.str_at(&["kind"]) == "Configuration");
    let published = published.ok_or_else(|| format!("{MODULE} publishes no configuration"))?;
    let client = match limits {
        Limits::Published => tree!({"qps": 50, "burst": 100}),
        Limits::Stock => published.at(&["clientConnection"]).cloned().unwrap_or_default(),
        Limits::Lifted => tree!({"qps": -1, "burst": 100}),
    };
    let certificates = certificates.display().to_string();
    Ok(published.merge(&tree!({
        "health": {"healthProbeBindAddress": "0"}, "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": i64::from(port), "certDir": certificates},
        "leaderElection": {"leaderElect": false}, "clientConnection": client,
        "integrations": {"frameworks": ["batch/job"]}})))
}

/// Puts the certificates that it made in its folder, as a node would that mounts the Secret.
fn mount(server: &ApiClient, folder: &Path) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let secret = server.get(&format!("/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}"))?.body;
        let data = secret.entries_at(&["data"]);
        for (name, value) in data {
            let bytes = BASE64_STANDARD.decode(value.as_str().unwrap_or_default());
            let bytes = bytes.map_err(|e| format!("{SECRET}: {name}: {e}"))?;
            fs::write(folder.join(name.as_str()), bytes).map_err(|e| e.to_string())?;
        }
        if !data.is_empty() {
            return Ok(());
        }
        if began.elapsed() > SECRET_MAX {
            return Err(format!("Kueue made no certificates within {SECRET_MAX:?}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
