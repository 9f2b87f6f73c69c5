//! The words of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs batch and AI-training work on Kubernetes, or without one.
#[derive(Debug, Parser)]
#[command(name = "muster", version, about, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Starts a control plane on this machine.
    Up(Box<UpFlags>),
    /// Simulates nodes for an API server, real or embedded.
    Node(NodeFlags),
    /// Runs beside a real Kubernetes: schedules the pods that name `muster-scheduler`.
    Operator(OperatorFlags),
    /// Prints the version.
    Version,
}

/// The flags of `node`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["sim_nodes", "nodes", "local"])))]
pub struct NodeFlags {
    /// The cluster to join [default: as kubectl would choose].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Number of simulated nodes; they take free names.
    #[arg(long, value_name = "N")]
    pub sim_nodes: Option<u32>,
    /// Node manifests; each becomes a simulated node.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// Keeps volumes in this folder [default: $XDG_DATA_HOME/muster/node].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// This machine as a node that runs processes; not built yet.
    #[arg(long)]
    pub local: bool,
    /// How much to log.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The flags of `operator`.
#[derive(Debug, Args)]
pub struct OperatorFlags {
    /// The cluster to run beside [default: as kubectl would choose].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Controllers to run: comma separated, `*` for all, `-name` leaves one out.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// How much to log.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The flags of `up`. What is not given comes from `--config`, then from the defaults.
#[derive(Debug, Default, Args)]
pub struct UpFlags {
    /// Keeps everything in this folder [default: $XDG_DATA_HOME/muster].
    #[arg(long, value_name = "DIR", conflicts_with = "ephemeral")]
    pub data_dir: Option<PathBuf>,
    /// Keeps nothing: memory only, new credentials on every start.
    #[arg(long)]
    pub ephemeral: bool,
    /// Address to serve on; port 0 picks a free one [default: 127.0.0.1:6443].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Writes a ready-to-use context into this file; other contexts in it are kept.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Number of simulated nodes.
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub sim_nodes: Option<u32>,
    /// Node and ResourceSlice manifests; each Node becomes a simulated node.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// Controllers to run: comma separated, `*` for all, `-name` leaves one out.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// Admission steps to run: comma separated, `*` for all, `-name` leaves one out.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub admission: Option<String>,
    /// Feature gates, e.g. `A=true,B=false`.
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Option<String>,
    /// A `muster.dev/v1alpha1` Configuration; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// When a write counts as kept.
    #[arg(long, value_enum)]
    pub durability: Option<Durability>,
    /// How much to log.
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// How log lines look.
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_words_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn lists_may_begin_with_a_minus() {
        let cli = Cli::try_parse_from(["muster", "up", "--controllers", "-job,-gc"]).unwrap();
        let Command::Up(flags) = cli.command else { panic!("up was asked for") };
        assert_eq!(flags.controllers.as_deref(), Some("-job,-gc"));
    }

    #[test]
    fn either_kept_or_not() {
        assert!(Cli::try_parse_from(["muster", "up", "--ephemeral", "--data-dir", "x"]).is_err());
        assert!(Cli::try_parse_from(["muster", "up", "--sim-nodes", "1", "--nodes", "x"]).is_err());
    }
}
