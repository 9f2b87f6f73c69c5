//! The flags of `muster operator`, and the values that flags and the configuration file have in common.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// The flags of `operator`. What is not given comes from `--config`, then from the defaults.
#[derive(Debug, Default, Args)]
pub struct OperatorFlags {
    /// The cluster to run beside [default: as kubectl would choose].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// A `muster.dev/v1alpha1` Configuration, with those of JobSet, Kueue and Trainer beside it; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Controllers to run: comma separated, `*` for all, `-name` leaves one out.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// Admission steps to run, as webhooks: comma separated, `*` for all, `-name` leaves one out.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub admission: Option<String>,
    /// Feature gates, e.g. `A=true,B=false`.
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Option<String>,
    /// The namespace of what it keeps on the cluster [default: $POD_NAMESPACE, else muster-system].
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The API server asks the webhooks through this Service of that namespace, which `muster install` makes [default:
    /// at the address where they listen, which it must reach].
    #[arg(long, value_name = "NAME")]
    pub webhook_service: Option<String>,
    /// Where webhooks listen; port 0 picks a free one [default: 127.0.0.1:0, behind a Service 0.0.0.0:9443].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub webhook_listen: Option<SocketAddr>,
    /// Where `/healthz`, `/readyz` and `/metrics` are served, in plain HTTP [default: nowhere].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub health_listen: Option<SocketAddr>,
    /// Where `/metrics` is served besides, for Prometheus at another address than probes ask [default: nowhere].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics_listen: Option<SocketAddr>,
    /// Where `/debug` shows watches, queues and calls under way: an address of loopback [default: nowhere].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub debug_listen: Option<SocketAddr>,
    /// How long the certificates of webhooks behind a Service last; renewed at two thirds [default: 8760h].
    #[arg(long, value_name = "TIME", value_parser = time_span, requires = "webhook_service")]
    pub certificate_lifetime: Option<Duration>,
    /// How long the authority that certifies them lasts [default: 87600h].
    #[arg(long, value_name = "TIME", value_parser = time_span, requires = "webhook_service")]
    pub authority_lifetime: Option<Duration>,
    /// How long API servers and replicas may take to hear of another authority [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = time_span, requires = "webhook_service")]
    pub authority_pause: Option<Duration>,
    /// How much to log [default: warn].
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// How log lines look [default: text].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Reads `90s`, `10m`, `1h30m`.
///
/// # Errors
/// For other text, and for a negative time.
pub fn time_span(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "write for example 90s, 10m or 1h30m".to_owned())?;
    Duration::try_from(span).map_err(|_| "a time cannot be negative".to_owned())
}

/// How pods of this machine are kept apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Namespaces where this machine allows them, else plain processes.
    #[default]
    Auto,
    /// Own user, mount, process, host-name and IPC namespaces, or none at all.
    Namespaces,
    /// Plain processes; volumes are below `$MUSTER_POD_ROOT`.
    None,
}

/// Who runs containers on this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Processes with the programs of this machine; images are only names.
    #[default]
    Process,
    /// docker, with real images.
    Docker,
    /// podman, with real images.
    Podman,
}

/// When a write counts as kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When the disk has it.
    Strict,
    /// At once; the disk follows within 100 ms and a crash may lose that much.
    Relaxed,
}

/// How much to log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// Also what looks wrong.
    Warn,
    /// Also what happens.
    Info,
    /// Also each request.
    Debug,
    /// Everything.
    Trace,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object per line.
    Json,
}
