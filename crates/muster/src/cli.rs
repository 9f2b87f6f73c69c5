//! The words of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_operator::flags::time_span;
pub use muster_operator::flags::{Durability, Isolation, LogFormat, LogLevel, OperatorFlags, Runtime};

use crate::run::ranks::{HostMount, Variable};

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
    /// Runs work and shows how it goes: on a control plane started for it, or on a server that is named.
    Run(Box<RunFlags>),
    /// Gives nodes to an API server, real or embedded: simulated ones, or this machine.
    Node(NodeFlags),
    /// Runs beside a real Kubernetes: runs and admits JobSets, and schedules the pods that name `muster-scheduler`.
    Operator(OperatorFlags),
    /// Installs the operator on a cluster, or brings it up to date: definitions, rights, the Deployment, webhooks.
    Install(Box<InstallFlags>),
    /// Tells why something waits: a Workload, Job, JobSet or Pod, or a manifest that is not submitted yet.
    Why(WhyFlags),
    /// Runs in pods of JobSets that restart in place; environment variables tell it which.
    Agent(AgentFlags),
    /// Prints the definitions of kinds that a cluster has to know, for `kubectl apply --server-side -f -`.
    Crds(CrdsFlags),
    /// Saves the store of a data folder in one file, or restores it.
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Prints the version.
    Version,
}

/// The flags of `run`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["files", "ranks"])))]
pub struct RunFlags {
    /// Manifests: a file, a folder (not the folders inside it), or `-` for standard input; may be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR|-")]
    pub files: Vec<PathBuf>,
    /// Runs a command so many times, side by side, each copy with its RANK.
    #[arg(long, value_name = "N", requires = "command", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    pub ranks: Option<u32>,
    /// A variable for the ranks, with its value or with the one it has here; may be repeated.
    #[arg(short = 'e', long = "env", value_name = "NAME[=VALUE]", conflicts_with = "files", value_parser = variable)]
    pub env: Vec<Variable>,
    /// A folder or file of this machine that the ranks see at a path; may be repeated.
    #[arg(long = "mount", value_name = "HOST:PATH", conflicts_with = "files", value_parser = mount)]
    pub mounts: Vec<HostMount>,
    /// The command of the ranks, after `--`.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "files")]
    pub command: Vec<String>,
    /// The server to run on [default: a control plane of its own, gone afterwards].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sim_nodes", "nodes", "isolation"])]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of objects that name none.
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Ends the work after this time, e.g. `90s`, `10m`, `1h30m`.
    #[arg(long, value_name = "TIME", value_parser = time_span)]
    pub timeout: Option<Duration>,
    /// Leaves everything as it is afterwards; a control plane of its own stays until a signal comes.
    #[arg(long)]
    pub keep: bool,
    /// Prints what would be submitted, and submits nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// `json`: the summary as one JSON object on stdout, log lines on stderr. With `--dry-run`: how to print.
    #[arg(short = 'o', long, value_enum)]
    pub output: Option<Output>,
    /// Prints no log lines.
    #[arg(long)]
    pub no_logs: bool,
    /// Shows no progress, and a summary only when something went wrong.
    #[arg(short = 'q', long)]
    pub quiet: bool,
    /// Number of simulated nodes.
    #[arg(long, value_name = "N", conflicts_with = "nodes")]
    pub sim_nodes: Option<u32>,
    /// Node and ResourceSlice manifests; each Node becomes a simulated node.
    #[arg(long, value_name = "FILE")]
    pub nodes: Option<PathBuf>,
    /// How pods of this machine are kept apart [default: auto].
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// Who runs containers on this machine [default: process].
    #[arg(long, value_enum, conflicts_with_all = ["kubeconfig", "sim_nodes", "nodes", "ranks"])]
    pub runtime: Option<Runtime>,
    /// How much to log.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// `NAME[=VALUE]`.
fn variable(text: &str) -> Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    if name.is_empty() || name.contains('\0') {
        return Err("write NAME=VALUE, or NAME for the value it has here".to_owned());
    }
    match value.or_else(|| std::env::var(name).ok()) {
        Some(value) => Ok(Variable { name: name.to_owned(), value }),
        None => Err(format!("{name} is not set here: write {name}=VALUE")),
    }
}

/// `HOST:PATH`.
fn mount(text: &str) -> Result<HostMount, String> {
    let (host, path) = text.split_once(':').ok_or("write HOST:PATH, such as /data:/data")?;
    if host.is_empty() || !path.starts_with('/') || path.contains(':') {
        return Err("HOST is a path of this machine, PATH an absolute one in the pod".to_owned());
    }
    Ok(HostMount { host: host.into(), path: path.into() })
}

/// Copies of a command that one machine is asked to run.
const RANKS_MAX: i64 = 1_000;

/// How something is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// YAML.
    Yaml,
    /// JSON.
    Json,
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
    /// This machine as a node that runs pods as processes.
    #[arg(long)]
    pub local: bool,
    /// The name of the node that this machine is [default: its host name].
    #[arg(long, requires = "local")]
    pub name: Option<String>,
    /// How pods of this machine are kept apart.
    #[arg(long, value_enum, default_value_t = Isolation::Auto, requires = "local")]
    pub isolation: Isolation,
    /// Who runs containers on this machine.
    #[arg(long, value_enum, default_value_t = Runtime::Process, requires = "local")]
    pub runtime: Runtime,
    /// Where the API server asks for logs and commands; it must reach this address.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0", requires = "local")]
    pub listen: SocketAddr,
    /// Who may ask: callers with a certificate of this authority [default: that of the kubeconfig].
    #[arg(long, value_name = "FILE", requires = "local")]
    pub client_ca: Option<PathBuf>,
    /// How much to log.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The flags of `why`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true).args(["what", "file"])))]
pub struct WhyFlags {
    /// What waits, such as `job/train`; workload, job, jobset, trainjob or pod.
    #[arg(value_name = "KIND/NAME")]
    pub what: Option<String>,
    /// A manifest instead: what would become of it, if it were submitted now; `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE|-")]
    pub file: Option<String>,
    /// Its namespace [default: that of the kubeconfig].
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The server to ask [default: as kubectl would choose].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Prints data instead of sentences.
    #[arg(short = 'o', long, value_enum)]
    pub output: Option<Output>,
}

/// The flags of `crds`.
#[derive(Debug, Args)]
pub struct CrdsFlags {
    /// How to print.
    #[arg(short = 'o', long, value_enum, default_value_t = Output::Yaml)]
    pub output: Output,
}

/// What to do with a snapshot.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Saves all objects, keys and certificates of a data folder that no server uses.
    Save(SnapshotFlags),
    /// Restores them into an empty data folder.
    Restore(SnapshotFlags),
}

/// The flags of `snapshot`.
#[derive(Debug, Args)]
pub struct SnapshotFlags {
    /// The snapshot; it holds keys and is readable by its owner only.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The data folder [default: $XDG_DATA_HOME/muster].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// The flags of `agent`.
#[derive(Debug, Args)]
pub struct AgentFlags {
    /// How much to log.
    #[arg(long, value_enum, default_value_t = LogLevel::Warn)]
    pub log_level: LogLevel,
    /// How log lines look.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

/// The flags of `install`.
#[derive(Debug, Args)]
pub struct InstallFlags {
    /// The cluster to install on [default: as kubectl would choose].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The namespace of the operator [default: muster-system].
    #[arg(long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// The image of the operator [default: muster, in this version].
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// How many operators there are: one works, all answer webhooks [default: 2].
    #[arg(long, value_name = "N")]
    pub replicas: Option<u32>,
    /// The port of the Service of the webhooks [default: 443].
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub webhook_port: Option<u16>,
    /// The operator's configuration: `muster.dev/v1alpha1`, and those of JobSet, Kueue and Trainer beside it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Stops other controllers of JobSets, queues or TrainJobs that run on the cluster, and takes their place.
    #[arg(long)]
    pub take_over: bool,
    /// Leaves out the ClusterTrainingRuntimes that are shipped.
    #[arg(long)]
    pub without_runtimes: bool,
    /// Prints what would be installed, without asking any cluster.
    #[arg(long)]
    pub dry_run: bool,
    /// How to print: with `--dry-run` the objects [default: yaml], without it what became of each [default: lines].
    #[arg(short = 'o', long, value_enum)]
    pub output: Option<Output>,
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
    /// A `muster.dev/v1alpha1` Configuration, with those of JobSet, Kueue and Trainer beside it; flags win over it.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// How pods of this machine are kept apart [default: auto].
    #[arg(long, value_enum)]
    pub isolation: Option<Isolation>,
    /// Who runs containers on this machine [default: process].
    #[arg(long, value_enum)]
    pub runtime: Option<Runtime>,
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
