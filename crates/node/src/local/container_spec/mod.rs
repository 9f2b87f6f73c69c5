//! Resolves a pod's volumes and generates the complete config of each container.
//!
//! A pod references other objects (ConfigMaps, Secrets, claims, Services). This module reads them through
//! [`PodObjectLister`] and returns the volumes to set up ([`volumes`], [`set_up_volume`]) and a [`ContainerConfig`]
//! in which nothing is left to look up ([`generate_container_config`]). What cannot be generated yet is a
//! [`ContainerConfigError`] with the kubelet's reason and message.
//!
//! # Guarantees
//!
//! - Same pod, same objects, same result. Only `volume_manager` touches the disk, for volumes, `subPath` and files of
//!   `fileKeyRef`.
//! - No path in an object escapes its volume.
//! - Of the server's environment, only `PATH` reaches a container.
//!
//! # Deliberately absent
//!
//! Images, capabilities, SELinux and seccomp: a command is a program of the host, or a container engine has the
//! image. Volume size limits are parsed and not enforced, and `medium: Memory` is a directory on disk. `fsGroup` is
//! applied to the top of a claimed directory, not recursively. A `subPath` that a container replaces by a symlink
//! between check and mount is not detected.

mod device_env;
mod downward_api;
mod env;
mod env_file;
mod expand;
mod hostnames;
mod mounts;
mod mpi;
mod projected;
mod rendezvous;
mod resolv_conf;
mod security_context;
mod service_env;
mod volume;
mod volume_manager;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_api::client::Uid;
use muster_api::consts::reasons;
use muster_api::meta;
use muster_api::paths::container as path;
use muster_process::{ContainerConfig, ImagePullPolicy, Isolation, PodDirs, RunId};
use muster_tree::{Text, Tree};

pub use hostnames::{ServiceEndpoint, hostname, hosts, members, neighbours};
use projected::NO_TOKEN_YET;
pub use projected::ProjectedFile;
use rendezvous::Rendezvous;
pub use volume::{HostKind, Volume, volumes};
pub use volume_manager::set_up_volume;

/// Lists the objects that a pod references, from the cache.
pub trait PodObjectLister {
    fn config_map(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    fn secret(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    fn claim(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    fn volume(&self, name: &Text) -> Option<Tree>;

    /// The Services of a namespace.
    fn services(&self, namespace: &Text) -> Vec<Tree>;

    fn resource_claim(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    /// A token of the pod's service account; `None` until the TokenRequest is answered.
    fn token(&self, pod: &Tree, audience: &str, expires_secs: i64) -> Option<Text>;

    /// The IP of a pod or Service by a hostname that pods of this namespace can resolve.
    fn address_of(&self, host: &str, namespace: &Text) -> Option<Text>;

    /// The local pod with this IP.
    fn pod_at(&self, address: &Text) -> Option<Uid>;

    /// The host port mapped to a port of that pod, where pods share the host's network.
    fn port_of(&self, pod: &Uid, port: u16) -> Option<u16>;

    /// The cluster DNS server, if there is one; pods use the resolvers of the host otherwise.
    fn resolver(&self) -> Option<ClusterDns> {
        None
    }
}

/// The cluster DNS server and the search domains of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDns {
    /// Its IP; the port is 53.
    pub address: Text,
    /// Search domains of the host.
    pub search: Vec<Text>,
}

/// Context of a pod: directories, addresses, lister and node properties.
pub struct PodContext<'a> {
    pub layout: &'a PodDirs,
    /// What other objects say.
    pub lookup: &'a dyn PodObjectLister,
    pub pod_address: Text,
    pub node_address: Text,
    /// `status.allocatable` of the Node: `resourceFieldRef` values of containers without a limit.
    pub allocatable: Tree,
    /// How containers are isolated from the host.
    pub isolation: Isolation,
    /// Whether a container engine runs images; otherwise `image` is ignored.
    pub images: bool,
    /// Address of the API server for containers; `None`: as the Service `kubernetes` says.
    pub server: Option<(Text, u16)>,
    pub search_path: Text,
    /// UID and GID of the server.
    pub user: (u32, u32),
    /// Whether a container waits for the IPs of its rendezvous peers.
    pub patient: bool,
}

/// Why a volume or container config cannot be generated yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerConfigError {
    /// Reason of the event.
    pub event: &'static str,
    /// Reason in the container's waiting state.
    pub waiting: &'static str,
    pub message: String,
}

impl ContainerConfigError {
    /// A volume cannot be set up; also for errors of [`set_up_volume`].
    #[must_use]
    pub fn with_volume(name: &str, why: &str) -> ContainerConfigError {
        let message = format!("MountVolume.SetUp failed for volume {name:?} : {why}");
        ContainerConfigError { event: reasons::FAILED_MOUNT, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// A PersistentVolumeClaim cannot be used yet.
    fn with_claim(volume: &str, why: &str) -> ContainerConfigError {
        let message = format!(
            "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], \
             failed to process volumes=[{volume}]: {why}"
        );
        ContainerConfigError { event: reasons::FAILED_MOUNT, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// A ResourceClaim cannot be used yet.
    fn with_devices(why: &str) -> ContainerConfigError {
        let message = format!("Failed to prepare dynamic resources: prepare dynamic resources: {why}");
        ContainerConfigError {
            event: reasons::FAILED_PREPARE_DEVICES,
            waiting: reasons::CONTAINER_CREATING,
            message,
        }
    }

    /// The rendezvous peer has no IP yet.
    fn with_neighbour(host: &str) -> ContainerConfigError {
        let message = format!("{NO_ADDRESS_YET} of {host:?}, where the processes of this job meet");
        ContainerConfigError { event: reasons::FAILED, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// The dependency that is expected shortly, if any.
    #[must_use]
    pub fn awaits(&self) -> Option<PendingDependency> {
        if self.message.contains(NO_TOKEN_YET) {
            return Some(PendingDependency::Token);
        }
        self.message.starts_with(NO_ADDRESS_YET).then_some(PendingDependency::Neighbour)
    }

    /// The container spec is invalid on this node.
    fn with_container(message: String) -> ContainerConfigError {
        ContainerConfigError { event: reasons::FAILED, waiting: reasons::CREATE_CONTAINER_CONFIG, message }
    }

    /// The message of the event.
    #[must_use]
    pub fn note(&self) -> String {
        if self.event == reasons::FAILED {
            return format!("Error: {}", self.message);
        }
        self.message.clone()
    }
}

/// A dependency that is being created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PendingDependency {
    /// The reply to a TokenRequest.
    Token,
    /// The IP of another pod.
    Neighbour,
}

/// Prefix of the error of a peer without an IP.
const NO_ADDRESS_YET: &str = "waiting for the address";

/// Internal volume name of the pod's home directory; the slash cannot occur in a volume of the pod.
pub const HOME: &str = "/home";

/// Internal volume name of the pod's own `resolv.conf`.
pub const RESOLV: &str = "/resolv";

/// Mount path of the home directory. Not `/root` or the user's home: programs of the host may be installed there.
const HOME_TARGET: &str = "/muster/home";

/// Generates the config of one container run; its volumes must be set up.
///
/// # Errors
/// A referenced object is missing, or the spec is not supported on this node.
pub fn generate_container_config(
    pod: &Tree,
    container: &Tree,
    attempt: u32,
    volumes: &BTreeMap<Text, Volume>,
    context: &PodContext<'_>,
) -> Result<ContainerConfig, ContainerConfigError> {
    let user = security_context::of(pod, container, context)?;
    let own = env::of(pod, container, volumes, context)?;
    let (argv, image_program) = command(container, &own, context.images)?;
    let argv = match Rendezvous::of(pod, container, context) {
        Some(rewriter) => rewriter.command(argv)?,
        None => argv,
    };
    mpi::check(pod, &argv, context)?;
    let mut wanted = mounts::of(container, &own, volumes)?;
    wanted.extend(resolv_conf::mount(container, volumes, context.isolation));
    let mut mounts = Vec::new();
    for mount in wanted {
        mounts.push(
            volume_manager::settle(&mount, context.isolation)
                .map_err(ContainerConfigError::with_container)?,
        );
    }
    let home = home(volumes, context, &mut mounts);
    let dir = start_directory(container, home.as_deref(), context);
    // Parents before children: a parent mounted later would hide the child.
    mounts.sort_by(|a, b| a.target.components().cmp(b.target.components()));
    let uid = meta::uid(pod);
    let id = RunId { pod: uid.to_string(), container: container.text_at(path::NAME).to_string(), attempt };
    let tty = container.bool_at(path::TTY) == Some(true);
    Ok(ContainerConfig {
        id,
        pod_name: format!("{}/{}", meta::namespace(pod), meta::name(pod)),
        image: container.text_at(path::IMAGE).to_string(),
        argv,
        image_program,
        pull: if container.str_at(path::PULL_POLICY) == "Never" {
            ImagePullPolicy::Never
        } else {
            ImagePullPolicy::Missing
        },
        env: env::whole(own, &base(pod, context, home, tty)),
        dir,
        mounts,
        hosts: context.layout.hosts(&uid),
        hostname: hostname(pod),
        stdin: container.bool_at(path::STDIN) == Some(true),
        stdin_once: container.bool_at(path::STDIN_ONCE) == Some(true),
        tty,
        user,
        limits: security_context::limits(pod, container),
        read_only_root: container.bool_at(path::READ_ONLY_ROOT) == Some(true),
        message_path: message_path(container),
        message_from_log: container.str_at(path::MESSAGE_POLICY) == "FallbackToLogsOnError",
        isolation: context.isolation,
    })
}

/// `command` and `args` with variables expanded, and whether the program is the image's entrypoint. Without a
/// container engine, `command` is required.
fn command(
    container: &Tree,
    env: &env::Env,
    images: bool,
) -> Result<(Vec<String>, bool), ContainerConfigError> {
    let expanded = |items: &[Tree]| -> Vec<String> {
        let texts = items.iter().filter_map(Tree::as_str);
        texts.map(|text| expand::expand(text, |name| env.get(name).map(str::to_owned))).collect()
    };
    let mut argv = expanded(container.items_at(path::COMMAND));
    let args = expanded(container.items_at(path::ARGS));
    let image_program = argv.is_empty();
    if image_program && !images {
        let (name, image) = (container.str_at(path::NAME), container.str_at(path::IMAGE));
        let alone = if args.is_empty() { "" } else { "; args alone are not enough" };
        return Err(ContainerConfigError::with_container(format!(
            "container {name:?} has no command, and image {image:?} is only a name on this node: \
             add command with a program of this machine{alone}"
        )));
    }
    argv.extend(args);
    if let Some(text) = argv.iter().find(|text| text.contains('\0')) {
        return Err(ContainerConfigError::with_container(format!(
            "command or argument {text:?} contains a NUL character"
        )));
    }
    Ok((argv, image_program))
}

/// Path of the home directory inside the container.
fn home(
    volumes: &BTreeMap<Text, Volume>,
    context: &PodContext<'_>,
    mounts: &mut Vec<muster_process::Mount>,
) -> Option<PathBuf> {
    let folder = volumes.get(HOME).map(Volume::path).filter(|_| !context.images)?;
    if context.isolation == Isolation::None {
        return Some(folder.to_owned());
    }
    let target = PathBuf::from(HOME_TARGET);
    let (source, read_only) = (folder.to_owned(), false);
    mounts.push(muster_process::Mount { source, target: target.clone(), read_only });
    Some(target)
}

/// The working directory. Without `workingDir` it is the home directory: the rest of the host's file system is
/// read-only.
fn start_directory(container: &Tree, home: Option<&Path>, context: &PodContext<'_>) -> Option<PathBuf> {
    let working_dir = container.str_at(path::WORKING_DIR);
    let home = home.filter(|_| context.isolation == Isolation::Namespaces);
    let working_dir = (!working_dir.is_empty()).then(|| PathBuf::from(working_dir));
    working_dir.or_else(|| home.map(Path::to_owned))
}

/// Base environment, overridden by the container's own. An image sets `PATH` and `HOME` itself.
fn base(pod: &Tree, context: &PodContext<'_>, home: Option<PathBuf>, tty: bool) -> Vec<(String, String)> {
    let path = (!context.images).then(|| ("PATH".to_owned(), context.search_path.to_string()));
    let mut all: Vec<_> = path.into_iter().chain([("HOSTNAME".to_owned(), hostname(pod))]).collect();
    all.extend(home.map(|home| ("HOME".to_owned(), home.display().to_string())));
    all.extend(tty.then(|| ("TERM".to_owned(), "xterm".to_owned())));
    all
}

fn message_path(container: &Tree) -> PathBuf {
    let path = container.str_at(path::MESSAGE_PATH);
    Path::new("/").join(if path.is_empty() { "dev/termination-log" } else { path })
}
