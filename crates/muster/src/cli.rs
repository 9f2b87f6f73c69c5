//! The command line: subcommands and flags. The doc comments of flags and subcommands are the `--help` text.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_operator::flags::parse_duration;
pub use muster_operator::flags::{Durability, Isolation, LogFormat, LogLevel, OperatorFlags, Runtime};

use crate::run::ranks::{EnvVariable, HostMount};

/// Run batch and AI training workloads on a Kubernetes cluster, or without one.
#[derive(Debug, Parser)]
#[command(name = "muster", version, about, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a control plane on this host.
    Up(Box<UpFlags>),
    /// Submit Jobs, JobSets, TrainJobs or pods and follow them to the end, on an embedded control plane or on a cluster.
    Run(Box<RunFlags>),
    /// Run nodes for an API server: simulated nodes, or this host.
    Node(NodeFlags),
    /// Run the controllers, webhooks and scheduler of Muster against a Kubernetes cluster.
    Operator(OperatorFlags),
    /// Install or upgrade the operator on a cluster: CRDs, RBAC, the Deployment, webhook configurations.
    Install(Box<InstallFlags>),
    /// Explain why a workload is pending: a Workload, Job, JobSet, TrainJob or Pod, or a manifest before it is submitted.
    Why(WhyFlags),
    /// Run the in-place restart agent in a pod of a JobSet; it is configured by environment variables.
    Agent(AgentFlags),
    /// Print the CRDs that the operator needs, for `kubectl apply --server-side -f -`.
    Crds(CrdsFlags),
    /// Save the store of a data directory to a file, or restore it.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Print the version of Muster and of the Kubernetes API that it serves.
    Version,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["files", "ranks"])))]
pub struct RunFlags {
    /// Manifests: a file, a directory (not recursive), or `-` for standard input; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub files: Vec<PathBuf>,
    /// Run N copies of a command as an Indexed Job; each copy gets its index as RANK.
    #[arg(long, value_name = "N", requires = "command", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub ranks: Option<u32>,
    /// An environment variable for the ranks; without a value, that of the current environment; may be repeated.
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]", conflicts_with = "files", value_parser = variable)]
    pub env: Vec<EnvVariable>,
    /// Mount a directory or file of the host into the ranks; may be repeated.
    #[arg(long = "mount", value_name = "HOST:PATH", conflicts_with = "files", value_parser = mount)]
    pub mounts: Vec<HostMount>,
    /// Command of the ranks, after `--`.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "files")]
    pub command: Vec<String>,
    /// The cluster to run on [default: an embedded control plane that ends with the run].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sim_nodes", "nodes", "isolation"])]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of objects without `metadata.namespace` [default: that of the kubeconfig].
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Delete the work when it has not finished after this time, e.g. `90s`, `10m`, `1h30m`.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub timeout: Option<Duration>,
    /// Do not delete the objects afterwards; keep the embedded control plane running until Ctrl-C.
    #[arg(long)]
    pub keep: bool,
    /// Print the objects without submitting them.
    #[arg(long)]
    pub dry_run: bool,
    /// `json`: print the summary as one JSON object on stdout, and logs on stderr. With `--dry-run`: the output format.
    #[arg(short = 'o', long, value_enum)]
    pub output: Option<Output>,
    /// Do not print container logs.
    #[arg(long)]
    pub no_logs: bool,
    /// Do not show progress; print the summary only when the run did not complete.
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Number of simulated nodes.
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub sim_nodes: Option<u32>,
    /// Node and ResourceSlice manifests; each Node becomes a simulated node.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// Isolation of pods on the local node [default: auto].
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// The container runtime of the local node [default: process].
    #[arg(long, value_enum, conflicts_with_all = ["kubeconfig", "sim_nodes", "nodes", "ranks"])]
    pub runtime: Option<Runtime>,
    /// The log level.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// The log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// Parses `NAME[=VALUE]`; without a value the variable must be set in the environment of this process.
fn variable(text: &str) -> Result<EnvVariable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() || name.contains('\0') {
        return Err("write NAME=VALUE, or NAME for the value it has here".to_owned());
    }
    match value.or_else(|| std::env::var(name).ok()) {
        Some(value) => Ok(EnvVariable { name: name.to_owned(), value }),
        None => Err(format!("{name} is not set here: write {name}=VALUE")),
    }
}

/// Parses `HOST:PATH`. Whether `HOST` exists is checked later, by [`HostMount::found`].
fn mount(text: &str) -> Result<HostMount, String> {
    let (host, path) = text.split_once(':').ok_or("write HOST:PATH, such as /data:/data")?;
    if host.is_empty() || !path.starts_with('/') || path.contains(':') {
        return Err("HOST is a path of this machine, PATH an absolute one in the pod".to_owned());
    }
    Ok(HostMount { host: host.into(), path: path.into() })
}

/// The upper bound of `--ranks`: all of them may run on one host.
const RANKS_MAX: i64 = 1_000;

/// The format of `-o`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["sim_nodes", "nodes", "local"])))]
pub struct NodeFlags {
    /// Kubeconfig of the cluster to join [default: as kubectl chooses it].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Number of simulated nodes; their names do not clash with existing nodes.
    #[arg(long, value_name = "N")]
    pub sim_nodes: Option<u32>,
    /// Node manifests; each becomes a simulated node.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// The directory of pods and volumes [default: $XDG_DATA_HOME/muster/node].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Register this host as a node that runs pods.
    #[arg(long)]
    pub local: bool,
    /// The name of the local node [default: the host name].
    #[arg(long, requires = "local")]
    pub name: Option<String>,
    /// Isolation of pods on the local node.
    #[arg(long, value_enum, default_value_t = Isolation::Auto, requires = "local")]
    pub isolation: Isolation,
    /// The container runtime of the local node.
    #[arg(long, value_enum, default_value_t = Runtime::Process, requires = "local")]
    pub runtime: Runtime,
    /// The address of the kubelet API (logs, exec, attach, port-forward); the API server must reach it.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "local")]
    pub listen: SocketAddr,
    /// The CA that verifies client certificates of the kubelet API [default: the CA of the kubeconfig].
    #[arg(long, value_name = "FILE", requires = "local")]
    pub client_ca: Option<PathBuf>,
    /// The log level.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// The log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["what", "file"])))]
pub struct WhyFlags {
    /// The object, such as `job/train`; workload, job, jobset, trainjob or pod.
    #[arg(value_name = "KIND/NAME")]
    pub what: Option<String>,
    /// A manifest instead: explain whether it would be admitted if it were submitted now; `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE|-")]
    pub file: Option<String>,
    /// The namespace of the object [default: that of the kubeconfig].
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The cluster [default: as kubectl would choose].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Print the explanation as data instead of text.
    #[arg(short = 'o', long, value_enum)]
    pub output: Option<Output>,
}

#[derive(Debug, Args)]
pub struct CrdsFlags {
    /// The output format.
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Yaml)]
    pub output: Output,
}

#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save all objects, keys and certificates of a data directory that no server is using.
    Save(SnapshotFlags),
    /// Restore a snapshot into an empty data directory.
    Restore(SnapshotFlags),
}

#[derive(Debug, Args)]
pub struct SnapshotFlags {
    /// The snapshot file; it contains private keys, so its mode is 0600.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The data directory [default: $XDG_DATA_HOME/muster].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AgentFlags {
    /// The log level.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// The log format.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Args)]
pub struct InstallFlags {
    /// Kubeconfig of the cluster [default: as kubectl chooses it].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of the operator [default: muster-system].
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Image of the operator [default: muster, in this version].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Replicas of the operator: one leader reconciles, all serve webhooks [default: 2].
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    /// The port of the webhook Service [default: 443].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub webhook_port: Option<u16>,
    /// The configuration file of the operator: `muster.dev/v1alpha1`, and those of JobSet, Kueue and Trainer beside it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Scale down other controllers of JobSets, queues or TrainJobs on the cluster, and replace them.
    #[arg(long)]
    pub take_over: bool,
    /// Do not install the shipped ClusterTrainingRuntimes.
    #[arg(long)]
    pub without_runtimes: bool,
    /// Print the manifests without connecting to a cluster.
    #[arg(long)]
    pub dry_run: bool,
    /// The output format: with `--dry-run` of the manifests [default: yaml], else of the results [default: lines].
    #[arg(short = 'o', long, value_enum)]
    pub output: Option<Output>,
}

/// The flags of `up`. A flag that is absent is read from `--config`, then defaulted.
#[derive(Debug, Default, Args)]
pub struct UpFlags {
    /// The data directory [default: $XDG_DATA_HOME/muster].
    #[arg(long, value_name = "DIR", conflicts_with = "ephemeral")]
    pub data_dir: Option<PathBuf>,
    /// Keep all data in memory, and create new credentials on every start.
    #[arg(long)]
    pub ephemeral: bool,
    /// The address of the API server; port 0 picks a free port [default: 127.0.0.1:6443].
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Write a ready-to-use context into this file; other contexts in it are kept.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Number of simulated nodes.
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub sim_nodes: Option<u32>,
    /// Node and ResourceSlice manifests; each Node becomes a simulated node.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// Controllers to enable: comma-separated, `*` for all, `-name` disables one.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub controllers: Option<String>,
    /// Admission plugins to run: comma separated, `*` for all, `-name` omits one.
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    pub admission: Option<String>,
    /// Feature gates, e.g. `A=true,B=false`.
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Option<String>,
    /// Configuration file: a `muster.dev/v1alpha1` Configuration and those of JobSet, Kueue and Trainer; flags override it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Isolation of pods on the local node [default: auto].
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// The container runtime of the local node [default: process].
    #[arg(long, value_enum)]
    pub runtime: Option<Runtime>,
    /// The fsync policy: when a write is acknowledged.
    #[arg(long, value_enum)]
    pub durability: Option<Durability>,
    /// The log level.
    #[arg(long, value_enum)]
    pub log_level: Option<LogLevel>,
    /// The log format.
    #[arg(long, value_enum)]
    pub log_format: Option<LogFormat>,
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
    fn files_or_ranks() {
        let run = |args: &[&str]| {
            let all = ["muster", "run"].into_iter().chain(args.iter().copied());
            Cli::try_parse_from(all).map(|cli| match cli.command {
                Command::Run(flags) => *flags,
                _ => panic!("run was asked for"),
            })
        };
        assert_eq!(run(&["-f", "a", "-f", "-"]).unwrap().files.len(), 2);
        let ranks = run(&["--ranks", "4", "--timeout", "1h30m", "--", "sh", "-c", "x"]).unwrap();
        assert_eq!(ranks.command, ["sh", "-c", "x"]);
        assert_eq!(ranks.timeout, Some(Duration::from_secs(5400)));
        let ranks =
            run(&["--ranks", "1", "-e", "A=b=c", "--env", "PATH", "--mount", "data:/d", "--", "x"]).unwrap();
        assert_eq!((ranks.env[0].name.as_str(), ranks.env[0].value.as_str()), ("A", "b=c"));
        assert_eq!(ranks.env[1].value, std::env::var("PATH").unwrap());
        assert_eq!(ranks.mounts[0].path, PathBuf::from("/d"));
        for wrong in [
            &[][..],
            &["--ranks", "4"],
            &["--ranks", "0", "--", "x"],
            &["-f", "a", "--", "x"],
            &["-f", "a", "--ranks", "2", "--", "x"],
            &["-f", "a", "--timeout", "soon"],
            &["-f", "a", "--timeout", "-1s"],
            &["-f", "a", "--kubeconfig", "k", "--sim-nodes", "1"],
            &["-f", "a", "--kubeconfig", "k", "--runtime", "podman"],
            &["--ranks", "2", "--runtime", "podman", "--", "x"],
            &["-f", "a", "--runtime", "runc"],
            &["-f", "a", "-e", "A=b"],
            &["-f", "a", "--mount", "/a:/b"],
            &["--ranks", "2", "-e", "=b", "--", "x"],
            &["--ranks", "2", "-e", "SURELY_NOT_SET_ANYWHERE", "--", "x"],
            &["--ranks", "2", "--mount", "/a", "--", "x"],
            &["--ranks", "2", "--mount", "/a:b", "--", "x"],
        ] {
            assert!(run(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_name_or_a_manifest_is_explained() {
        let why =
            |args: &[&str]| Cli::try_parse_from(["muster", "why"].into_iter().chain(args.iter().copied()));
        assert!(why(&["job/a", "-n", "x", "-o", "json"]).is_ok() && why(&["-f", "-"]).is_ok());
        assert!(why(&[]).is_err() && why(&["job/a", "-f", "x"]).is_err());
    }

    #[test]
    fn either_kept_or_not() {
        assert!(Cli::try_parse_from(["muster", "up", "--ephemeral", "--data-dir", "x"]).is_err());
        assert!(Cli::try_parse_from(["muster", "up", "--sim-nodes", "1", "--nodes", "x"]).is_err());
    }
}
