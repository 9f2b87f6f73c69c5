//! The upstream JobSet controller, as its own installation starts it but for what needs a cluster around it: its
//! webhooks are served and registered nowhere, it leads without an election, and nobody asks it for its health.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use muster_tests::real::{Real, peer};

/// The program, as `cargo xtask peers` names it.
pub const PROGRAM: &str = "jobset-v0.10.1";
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

/// Starts it beside a real plane, with its files in this folder; returns the process.
pub fn start(real: &mut Real, folder: &Path, limits: Limits) -> Result<u32, String> {
    let program = peer(PROGRAM)?;
    let kubeconfig = real.kubeconfig(folder, real.server.base())?;
    certificate(folder).map_err(|e| format!("making a certificate: {e}"))?;
    let config = folder.join("config.yaml");
    fs::write(&config, configuration(folder, limits)?).map_err(|e| e.to_string())?;
    let complaints = File::create(folder.join(LOG)).map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.arg("--kubeconfig").arg(kubeconfig).arg("--config").arg(config);
    command.args(["--metrics-bind-address=0", "--health-probe-bind-address=0"]);
    real.start_other(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(complaints))
}

/// The end of what it said.
pub fn last_words(folder: &Path) -> String {
    let said = fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

fn configuration(folder: &Path, limits: Limits) -> Result<String, String> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(|e| e.to_string())?;
    let client = match limits {
        Limits::Stock => "",
        Limits::Lifted => "clientConnection: {qps: 1000000, burst: 1000000}\n",
    };
    Ok(format!(
        "apiVersion: config.jobset.x-k8s.io/v1alpha1\nkind: Configuration\n\
         internalCertManagement: {{enable: false}}\nleaderElection: {{leaderElect: false}}\n\
         webhook: {{host: 127.0.0.1, port: {}, certDir: '{}'}}\n{client}",
        free.port(),
        folder.display()
    ))
}

/// What its webhooks would show if anybody called them; it does not start without.
fn certificate(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let key = rcgen::KeyPair::generate()?;
    let certificate = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
    fs::write(folder.join("tls.crt"), certificate.pem())?;
    fs::write(folder.join("tls.key"), key.serialize_pem())?;
    Ok(())
}
