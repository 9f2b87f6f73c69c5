//! The flags of `muster operator`, and the enumerations that flags and the configuration file share.
//!
//! Doc comments of flags and values are their `--help` texts.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// The flags of `operator`. They override `--config`, which overrides the defaults.
#[derive(Debug, Default, Args)]
pub struct OperatorFlags {
    /// Kubeconfig of the cluster [default: as kubectl chooses it, or in-cluster].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Configuration file: a `muster.dev/v1alpha1` Configuration and those of JobSet, Kueue and Trainer; flags override it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Controllers to enable: comma-separated, `*` for all, `-name` disables one.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// Admission steps to serve as webhooks: comma-separated, `*` for all, `-name` disables one.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub admission: Option<String>,
    /// Feature gates, e.g. `A=true,B=false`.
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Option<String>,
    /// Namespace of the Lease, the certificate Secret and the webhook Service [default: $POD_NAMESPACE, else muster-system].
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Service of that namespace through which the API server calls the webhooks; `muster install` creates it [default: none,
    /// webhooks are registered by URL].
    #[arg(long, value_name = "NAME")]
    pub webhook_service: Option<String>,
    /// Listen address of the webhooks; port 0 picks a free one [default: 127.0.0.1:0, behind a Service [::]:9443].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub webhook_listen: Option<SocketAddr>,
    /// Listen address of `/healthz`, `/readyz` and `/metrics`, plain HTTP [default: disabled].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub health_listen: Option<SocketAddr>,
    /// Further listen address of `/metrics`, for Prometheus [default: disabled].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics_listen: Option<SocketAddr>,
    /// Listen address of `/debug`, a dump of watches, workqueues and requests in flight; loopback only [default: disabled].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub debug_listen: Option<SocketAddr>,
    /// Lifetime of the serving certificates behind a Service; renewed at two thirds [default: 8760h].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "webhook_service")]
    pub certificate_lifetime: Option<Duration>,
    /// Lifetime of the CA that signs them [default: 87600h].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "webhook_service")]
    pub authority_lifetime: Option<Duration>,
    /// Propagation delay of a new CA: how long API servers and replicas may take to observe it [default: 10m].
    #[arg(long, value_name = "TIME", value_parser = parse_duration, requires = "webhook_service")]
    pub authority_pause: Option<Duration>,
    /// Log level [default: warn].
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// Log format [default: text].
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
}

/// Parses `90s`, `10m`, `1h30m`.
///
/// # Errors
/// The text is not a duration, or a negative one.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let span: jiff::SignedDuration =
        text.parse().map_err(|_| "write a duration such as 90s, 10m or 1h30m".to_owned())?;
    Duration::try_from(span).map_err(|_| "a duration cannot be negative".to_owned())
}

/// Isolation of pods on the local node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Linux namespaces where the host supports them, else plain processes.
    #[default]
    Auto,
    /// User, mount, PID, UTS and IPC namespaces; fails where the host does not support them.
    Namespaces,
    /// Plain processes; volumes are mounted below `$MUSTER_POD_ROOT`.
    None,
}

/// Container runtime of the local node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// Processes that run host binaries; images are ignored.
    #[default]
    Process,
    /// docker, with container images.
    Docker,
    /// podman, with container images.
    Podman,
}

/// The fsync policy of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// fsync before a write is acknowledged.
    Strict,
    /// Acknowledge at once, fsync within 100 ms; a crash may lose that much.
    Relaxed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Text,
    /// One JSON object per line.
    Json,
}
