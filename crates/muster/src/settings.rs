//! The resolved settings of `muster up`: flags, then the configuration file, then defaults.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use muster_control::schedule::Packing;
use muster_install::names::NAMESPACE;
use muster_operator::config::{ConfigFile, UpstreamDocuments};
use muster_operator::gates::{self, GateError};
use muster_operator::names::{self, CONTROLLERS, UnknownName};
use muster_operator::queues::{self, QueueConfigError};
use muster_operator::training;

use crate::cli::{Durability, Isolation, LogFormat, LogLevel, Runtime, UpFlags};

/// The default port, that of kube-apiserver.
const PORT: u16 = 6443;

/// Where the store keeps objects: in memory, or in a data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageLocation {
    Ephemeral,
    Directory(PathBuf),
}

/// The nodes of the embedded control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeSetup {
    /// One node, this host.
    Local,
    /// A number of simulated nodes.
    Simulated(u32),
    /// Simulated nodes from the manifests of a file.
    File(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// The data directory, or memory.
    pub storage: StorageLocation,
    pub listen: SocketAddr,
    /// `--kubeconfig`: a file to write a context into, beside the one in the data directory.
    pub kubeconfig: Option<PathBuf>,
    pub nodes: NodeSetup,
    pub controllers: BTreeSet<String>,
    /// Names of the admission plugins that run.
    pub admission: BTreeSet<String>,
    pub gates: gates::FeatureGates,
    /// Whether admission rejects pods of a JobSet if they have a resource claim with the name of one that the JobSet adds.
    pub reject_overrides: bool,
    pub documents: UpstreamDocuments,
    /// The queueing configuration (Kueue's, and our own).
    pub queues: muster_queue::kinds::config::QueueConfig,
    /// The TrainJob configuration (Trainer's, and our own).
    pub training: training::TrainJobSettings,
    /// The resources that the scheduler bin-packs by.
    pub packing: Packing,
    /// Isolation of pods on the local node.
    pub isolation: Isolation,
    /// The container runtime of the local node.
    pub runtime: Runtime,
    /// The PID limit of a container (processes and threads); `None` is unlimited.
    pub pod_pids_limit: Option<u32>,
    /// The fsync policy of the store.
    pub durability: Durability,
    pub log_level: LogLevel,
    pub log_format: LogFormat,
}

/// An invalid flag or configuration file.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error(transparent)]
    Name(#[from] UnknownName),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Queues(#[from] QueueConfigError),
    /// No default data directory can be derived from the environment.
    #[error(
        "neither XDG_DATA_HOME nor HOME is set\n\nhint: name a folder with `--data-dir`, or use `--ephemeral`"
    )]
    NoHome,
}

/// Merges flags, configuration file and defaults; flags take precedence. `home` is the default data directory.
///
/// # Errors
/// A controller, admission plugin or feature gate is unknown, or there is no data directory.
pub fn resolve(flags: UpFlags, file: ConfigFile, home: Option<PathBuf>) -> Result<Settings, SettingsError> {
    let ConfigFile { config: file, gates: brought, documents: kept, .. } = file;
    let list = |flag: Option<String>, file: Option<Vec<String>>| {
        flag.or_else(|| file.map(|words| words.join(","))).unwrap_or_else(|| "*".to_owned())
    };
    let place = match (flags.ephemeral, flags.data_dir) {
        (true, _) => StorageLocation::Ephemeral,
        (false, Some(folder)) => StorageLocation::Directory(folder),
        (false, None) if file.ephemeral => StorageLocation::Ephemeral,
        (false, None) => StorageLocation::Directory(file.data_dir.or(home).ok_or(SettingsError::NoHome)?),
    };
    let nodes = match (flags.sim_nodes, flags.nodes, file.sim_nodes, file.nodes) {
        (Some(count), ..) | (None, None, Some(count), _) => NodeSetup::Simulated(count),
        (None, Some(path), ..) | (None, None, None, Some(path)) => NodeSetup::File(path),
        (None, None, None, None) => NodeSetup::Local,
    };
    let controllers = names::select("controller", &list(flags.controllers, file.controllers), &CONTROLLERS)?;
    let steps = names::admission_step_names();
    let admission = names::select("admission step", &list(flags.admission, file.admission), &steps)?;
    let brought = brought.iter().map(|(name, on)| (name.as_str(), *on));
    let from_file = brought.chain(file.feature_gates.iter().map(|(name, on)| (name.as_str(), *on)));
    let from_flags = gates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
    Ok(Settings {
        storage: place,
        listen: flags.listen.or(file.listen).unwrap_or_else(|| (Ipv4Addr::LOCALHOST, PORT).into()),
        kubeconfig: flags.kubeconfig.or(file.kubeconfig),
        nodes,
        controllers,
        admission,
        gates: gates::resolve(from_file.chain(from_flags))?,
        reject_overrides: file.resource_claims.reject_overrides,
        queues: queues::settings(&kept, NAMESPACE)?,
        training: training::settings(&file.trainjob, &kept, training::EMBEDDED_DELETIONS_MAX),
        documents: kept,
        packing: file.packing.unwrap_or_default().into(),
        isolation: flags.isolation.or(file.isolation).unwrap_or_default(),
        runtime: flags.runtime.or(file.runtime).unwrap_or_default(),
        pod_pids_limit: file.pod_pids_limit,
        durability: flags.durability.or(file.durability).unwrap_or(Durability::Strict),
        log_level: flags.log_level.or(file.log_level).unwrap_or(LogLevel::Warn),
        log_format: flags.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
    })
}

/// `$XDG_DATA_HOME/muster`, or `~/.local/share/muster` as the XDG specification defaults it.
#[must_use]
pub fn data_home() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(base.join("muster"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_operator::config::{Config, PackingMode};

    fn said(ours: Config) -> ConfigFile {
        ConfigFile { config: ours, ..ConfigFile::default() }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let ours = || Config { ephemeral: true, log_level: Some(LogLevel::Info), ..Config::default() };
        let file = || said(ours());
        let settled = resolve(UpFlags::default(), file(), None).unwrap();
        assert_eq!(settled.storage, StorageLocation::Ephemeral);
        assert_eq!(settled.log_level, LogLevel::Info);
        assert_eq!(settled.listen, "127.0.0.1:6443".parse().unwrap());
        assert_eq!(settled.controllers.len(), CONTROLLERS.len());
        assert_eq!(settled.packing, Packing::Devices);
        let packed = said(Config { packing: Some(PackingMode::Everything), ..ours() });
        assert_eq!(resolve(UpFlags::default(), packed, None).unwrap().packing, Packing::Everything);
        assert_eq!(settled.runtime, Runtime::Process);
        let named = || said(Config { runtime: Some(Runtime::Podman), ..ours() });
        assert_eq!(resolve(UpFlags::default(), named(), None).unwrap().runtime, Runtime::Podman);
        let asked = UpFlags { runtime: Some(Runtime::Docker), ..UpFlags::default() };
        assert_eq!(resolve(asked, named(), None).unwrap().runtime, Runtime::Docker);
        let flags =
            UpFlags { data_dir: Some("d".into()), controllers: Some("-job".into()), ..UpFlags::default() };
        let settled = resolve(flags, file(), None).unwrap();
        assert_eq!(settled.storage, StorageLocation::Directory("d".into()));
        assert!(!settled.controllers.contains("job") && settled.controllers.contains("gc"));
    }

    #[test]
    fn gates_of_our_document_win_over_those_that_were_brought_along() {
        let gates = [("InPlaceRestart".to_owned(), true), ("RestartJob".to_owned(), true)].to_vec();
        let ours = Config { feature_gates: [("RestartJob".to_owned(), false)].into(), ..Config::default() };
        let flags = UpFlags { ephemeral: true, ..UpFlags::default() };
        let settled =
            resolve(flags, ConfigFile { config: ours, gates, ..ConfigFile::default() }, None).unwrap();
        assert_eq!((settled.gates["InPlaceRestart"], settled.gates["RestartJob"]), (true, false));
    }

    #[test]
    fn without_a_home_a_folder_must_be_named() {
        let refused = resolve(UpFlags::default(), ConfigFile::default(), None).unwrap_err();
        assert!(refused.to_string().contains("--data-dir"));
    }

    #[test]
    fn unknown_names_are_errors_that_list_the_known_ones() {
        for (flags, words) in [
            (
                UpFlags { controllers: Some("jobs".into()), ..UpFlags::default() },
                "known are job, gc, namespace",
            ),
            (UpFlags { admission: Some("x".into()), ..UpFlags::default() }, "known are NamespaceLifecycle"),
            (UpFlags { feature_gates: Some("X=true".into()), ..UpFlags::default() }, "known are Generic"),
        ] {
            let error = resolve(flags, ConfigFile::default(), Some("h".into())).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
