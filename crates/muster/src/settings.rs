//! What `up` was asked, after flags, file and defaults were put together.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use muster_control::schedule::Packing;
use muster_install::names::NAMESPACE;
use muster_operator::config::{File, Kept};
use muster_operator::gates::{self, GateError};
use muster_operator::names::{self, CONTROLLERS, UnknownName};
use muster_operator::queues::{self, WrongQueues};
use muster_operator::training;

use crate::cli::{Durability, Isolation, LogFormat, LogLevel, Runtime, UpFlags};

/// The port when none is asked for: the usual one of an API server.
const PORT: u16 = 6443;

/// Where objects are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In memory.
    Ephemeral,
    /// In this folder.
    Folder(PathBuf),
}

/// Which nodes there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    /// The one this machine is.
    Local,
    /// So many simulated ones.
    Simulated(u32),
    /// Those of a file.
    File(PathBuf),
}

/// Everything `up` needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where objects are kept.
    pub place: Place,
    /// Where to listen.
    pub listen: SocketAddr,
    /// The kubeconfig that was asked for.
    pub kubeconfig: Option<PathBuf>,
    /// Nodes.
    pub nodes: Nodes,
    /// Controllers that run.
    pub controllers: BTreeSet<String>,
    /// Admission steps that run.
    pub admission: BTreeSet<String>,
    /// Feature gates.
    pub gates: gates::Chosen,
    /// Whether pods of JobSets may not bring a device claim of the same name as one of theirs.
    pub reject_overrides: bool,
    /// Documents of others.
    pub kept: Kept,
    /// What is configured of queues.
    pub queues: muster_queue::kinds::config::Settings,
    /// What is configured of TrainJobs.
    pub training: training::Configured,
    /// What nodes are filled up by.
    pub packing: Packing,
    /// How pods of this machine are kept apart.
    pub isolation: Isolation,
    /// Who runs containers on this machine.
    pub runtime: Runtime,
    /// Processes and threads of a container, at most.
    pub pod_pids_limit: Option<u32>,
    /// Whether writes wait for the disk.
    pub durability: Durability,
    /// How much to log.
    pub log_level: LogLevel,
    /// How log lines look.
    pub log_format: LogFormat,
}

/// What is wrong with flags or file.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A name.
    #[error(transparent)]
    Name(#[from] UnknownName),
    /// A gate.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// Queues.
    #[error(transparent)]
    Queues(#[from] WrongQueues),
    /// There is no home.
    #[error(
        "neither XDG_DATA_HOME nor HOME is set\n\nhint: name a folder with `--data-dir`, or use `--ephemeral`"
    )]
    NoHome,
}

/// Puts flags, file and defaults together; flags win. `home` is the folder for data of this user.
///
/// # Errors
/// For unknown names.
pub fn settle(flags: UpFlags, file: File, home: Option<PathBuf>) -> Result<Settings, SettingsError> {
    let File { ours: file, gates: brought, kept, .. } = file;
    let list = |flag: Option<String>, file: Option<Vec<String>>| {
        flag.or_else(|| file.map(|words| words.join(","))).unwrap_or_else(|| "*".to_owned())
    };
    let place = match (flags.ephemeral, flags.data_dir) {
        (true, _) => Place::Ephemeral,
        (false, Some(folder)) => Place::Folder(folder),
        (false, None) if file.ephemeral => Place::Ephemeral,
        (false, None) => Place::Folder(file.data_dir.or(home).ok_or(SettingsError::NoHome)?),
    };
    let nodes = match (flags.sim_nodes, flags.nodes, file.sim_nodes, file.nodes) {
        (Some(count), ..) | (None, None, Some(count), _) => Nodes::Simulated(count),
        (None, Some(path), ..) | (None, None, None, Some(path)) => Nodes::File(path),
        (None, None, None, None) => Nodes::Local,
    };
    let controllers = names::choose("controller", &list(flags.controllers, file.controllers), &CONTROLLERS)?;
    let steps = names::admission_steps();
    let admission = names::choose("admission step", &list(flags.admission, file.admission), &steps)?;
    let brought = brought.iter().map(|(name, on)| (name.as_str(), *on));
    let from_file = brought.chain(file.feature_gates.iter().map(|(name, on)| (name.as_str(), *on)));
    let from_flags = gates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
    Ok(Settings {
        place,
        listen: flags.listen.or(file.listen).unwrap_or_else(|| (Ipv4Addr::LOCALHOST, PORT).into()),
        kubeconfig: flags.kubeconfig.or(file.kubeconfig),
        nodes,
        controllers,
        admission,
        gates: gates::with(from_file.chain(from_flags))?,
        reject_overrides: file.resource_claims.reject_overrides,
        queues: queues::configured(&kept, NAMESPACE)?,
        training: training::configured(&file.trainjob, &kept, training::AT_ONCE_HERE),
        kept,
        packing: file.packing.unwrap_or_default().into(),
        isolation: flags.isolation.or(file.isolation).unwrap_or_default(),
        runtime: flags.runtime.or(file.runtime).unwrap_or_default(),
        pod_pids_limit: file.pod_pids_limit,
        durability: flags.durability.or(file.durability).unwrap_or(Durability::Strict),
        log_level: flags.log_level.or(file.log_level).unwrap_or(LogLevel::Warn),
        log_format: flags.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
    })
}

/// `$XDG_DATA_HOME/muster`, or where that would be.
#[must_use]
pub fn data_home() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = set("XDG_DATA_HOME").or_else(|| Some(set("HOME")?.join(".local/share")))?;
    Some(base.join("muster"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_operator::config::{Config, Packed};

    fn said(ours: Config) -> File {
        File { ours, ..File::default() }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let ours = || Config { ephemeral: true, log_level: Some(LogLevel::Info), ..Config::default() };
        let file = || said(ours());
        let settled = settle(UpFlags::default(), file(), None).unwrap();
        assert_eq!(settled.place, Place::Ephemeral);
        assert_eq!(settled.log_level, LogLevel::Info);
        assert_eq!(settled.listen, "127.0.0.1:6443".parse().unwrap());
        assert_eq!(settled.controllers.len(), CONTROLLERS.len());
        assert_eq!(settled.packing, Packing::Devices);
        let packed = said(Config { packing: Some(Packed::Everything), ..ours() });
        assert_eq!(settle(UpFlags::default(), packed, None).unwrap().packing, Packing::Everything);
        assert_eq!(settled.runtime, Runtime::Process);
        let named = || said(Config { runtime: Some(Runtime::Podman), ..ours() });
        assert_eq!(settle(UpFlags::default(), named(), None).unwrap().runtime, Runtime::Podman);
        let asked = UpFlags { runtime: Some(Runtime::Docker), ..UpFlags::default() };
        assert_eq!(settle(asked, named(), None).unwrap().runtime, Runtime::Docker);
        let flags =
            UpFlags { data_dir: Some("d".into()), controllers: Some("-job".into()), ..UpFlags::default() };
        let settled = settle(flags, file(), None).unwrap();
        assert_eq!(settled.place, Place::Folder("d".into()));
        assert!(!settled.controllers.contains("job") && settled.controllers.contains("gc"));
    }

    #[test]
    fn gates_of_our_document_win_over_those_that_were_brought_along() {
        let gates = [("InPlaceRestart".to_owned(), true), ("RestartJob".to_owned(), true)].to_vec();
        let ours = Config { feature_gates: [("RestartJob".to_owned(), false)].into(), ..Config::default() };
        let flags = UpFlags { ephemeral: true, ..UpFlags::default() };
        let settled = settle(flags, File { ours, gates, ..File::default() }, None).unwrap();
        assert_eq!((settled.gates["InPlaceRestart"], settled.gates["RestartJob"]), (true, false));
    }

    #[test]
    fn without_a_home_a_folder_must_be_named() {
        let refused = settle(UpFlags::default(), File::default(), None).unwrap_err();
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
            let error = settle(flags, File::default(), Some("h".into())).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
