//! What a pod wears: its volumes, and for each container the whole of what is run.
//!
//! A pod names other objects (ConfigMaps, Secrets, claims, Services); this folder reads them through [`Lookup`] and answers
//! with volumes to put on disk ([`volumes`], [`lay`]) and with a [`Launch`] in which nothing is left to look up ([`launch`]).
//! What cannot be made yet is a [`Problem`] in the words of a kubelet.
//!
//! # Invariants
//!
//! - Same pod, same objects, same answer: the disk is touched in `disk` alone, and only for volumes, parts of volumes
//!   (`subPath`) and files with variables.
//! - No path of an object leads out of its volume.
//! - Nothing of the server's own environment reaches a container but `PATH`.
//!
//! # Deliberately absent
//!
//! Images, capabilities, SELinux and seccomp: a command runs with the programs of this machine, or a container engine has
//! the image. Sizes of volumes are known
//! and not enforced, and `medium: Memory` is a folder on disk. `fsGroup` is given to the top of a claimed folder, not to
//! everything in it. A part of a volume that a container swaps for a link between the check and the mount is not noticed.

mod devices;
mod disk;
mod env;
mod env_file;
mod expand;
mod fields;
mod files;
mod identity;
mod links;
mod mounts;
mod mpi;
mod names;
mod rendezvous;
mod resolv;
mod volume;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use muster_api::meta;
use muster_api::paths::container as path;
use muster_api::port::Uid;
use muster_api::words::reasons;
use muster_process::{Id, Isolation, Launch, Layout, Pull};
use muster_tree::{Text, Tree};

pub use disk::lay;
pub use files::File;
use files::NO_TOKEN_YET;
pub use names::{Member, hostname, hosts, members, neighbours};
use rendezvous::Meeting;
pub use volume::{HostKind, Volume, volumes};

/// What other objects say; answered from caches.
pub trait Lookup {
    /// A ConfigMap.
    fn config_map(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    /// A Secret.
    fn secret(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    /// A PersistentVolumeClaim.
    fn claim(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    /// A PersistentVolume.
    fn volume(&self, name: &Text) -> Option<Tree>;

    /// The Services of a namespace.
    fn services(&self, namespace: &Text) -> Vec<Tree>;

    /// A ResourceClaim.
    fn resource_claim(&self, namespace: &Text, name: &Text) -> Option<Tree>;

    /// A token of the pod's service account; `None` while there is none yet.
    fn token(&self, pod: &Tree, audience: &str, expires_secs: i64) -> Option<Text>;

    /// The address of a pod or Service by a name that pods of this namespace may use.
    fn address_of(&self, host: &str, namespace: &Text) -> Option<Text>;

    /// The pod of this machine that has this address.
    fn pod_at(&self, address: &Text) -> Option<Uid>;

    /// The port of this machine that stands for a port of that pod, where pods have no ports of their own.
    fn port_of(&self, pod: &Uid, port: u16) -> Option<u16>;

    /// The name server of pods, where there is one; else they ask those of this machine.
    fn resolver(&self) -> Option<Resolver> {
        None
    }
}

/// A name server that knows pods and Services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolver {
    /// Its address; its port is the usual one.
    pub address: Text,
    /// The domains in which this machine looks for short names.
    pub search: Vec<Text>,
}

/// Where the pod lives.
pub struct House<'a> {
    /// Where things are on disk.
    pub layout: &'a Layout,
    /// What other objects say.
    pub lookup: &'a dyn Lookup,
    /// The pod's address.
    pub pod_address: Text,
    /// The node's address.
    pub node_address: Text,
    /// The node's `status.allocatable`: the limits of containers that have none.
    pub allocatable: Tree,
    /// How containers are kept apart.
    pub isolation: Isolation,
    /// Whether a container engine runs images: else they are only names.
    pub images: bool,
    /// Where containers reach the API server; `None` when they are told what the Service `kubernetes` says.
    pub server: Option<(Text, u16)>,
    /// Where programs are looked for: the server's `PATH`.
    pub search_path: Text,
    /// User and group number of the server.
    pub user: (u32, u32),
    /// Whether a container may wait for the addresses of pods beside it.
    pub patient: bool,
}

/// Why a pod or a container cannot be made yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the event.
    pub event: &'static str,
    /// Reason of the waiting container.
    pub waiting: &'static str,
    /// What is wrong.
    pub message: String,
}

impl Problem {
    /// A volume cannot be had; also for what [`lay`] says.
    #[must_use]
    pub fn with_volume(name: &str, why: &str) -> Problem {
        let message = format!("MountVolume.SetUp failed for volume {name:?} : {why}");
        Problem { event: reasons::FAILED_MOUNT, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// A claim cannot be used yet.
    fn with_claim(volume: &str, why: &str) -> Problem {
        let message = format!(
            "Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], \
             failed to process volumes=[{volume}]: {why}"
        );
        Problem { event: reasons::FAILED_MOUNT, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// Devices cannot be used yet.
    fn with_devices(why: &str) -> Problem {
        let message = format!("Failed to prepare dynamic resources: prepare dynamic resources: {why}");
        Problem { event: reasons::FAILED_PREPARE_DEVICES, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// A pod at which others meet has no address yet.
    fn with_neighbour(host: &str) -> Problem {
        let message = format!("{NO_ADDRESS_YET} of {host:?}, where the processes of this job meet");
        Problem { event: reasons::FAILED, waiting: reasons::CONTAINER_CREATING, message }
    }

    /// What it waits for, if that comes by itself.
    #[must_use]
    pub fn awaits(&self) -> Option<Awaited> {
        if self.message.contains(NO_TOKEN_YET) {
            return Some(Awaited::Token);
        }
        self.message.starts_with(NO_ADDRESS_YET).then_some(Awaited::Neighbour)
    }

    /// A container cannot be run as it is written.
    fn with_container(message: String) -> Problem {
        Problem { event: reasons::FAILED, waiting: reasons::CREATE_CONTAINER_CONFIG, message }
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

/// What comes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// A token that was asked for.
    Token,
    /// The address of another pod.
    Neighbour,
}

/// How the problem of a pod without an address begins.
const NO_ADDRESS_YET: &str = "waiting for the address";

/// Under this name the pod's private home is among its volumes; no volume of a pod can be called so.
pub const HOME: &str = "/home";

/// Under this name the file that tells where names are looked up is among the volumes of a pod that has one of its own.
pub const RESOLV: &str = "/resolv";

/// Where the private home stands in a container. Not at `/root` or the user's own home: programs of this machine may be
/// installed there.
const HOME_TARGET: &str = "/muster/home";

/// Everything that is run for a container; its volumes must have been laid.
///
/// # Errors
/// What is missing or cannot be done here.
pub fn launch(
    pod: &Tree,
    container: &Tree,
    attempt: u32,
    volumes: &BTreeMap<Text, Volume>,
    house: &House<'_>,
) -> Result<Launch, Problem> {
    let user = identity::of(pod, container, house)?;
    let own = env::of(pod, container, volumes, house)?;
    let (argv, image_program) = command(container, &own, house.images)?;
    let argv = match Meeting::of(pod, container, house) {
        Some(meeting) => meeting.command(argv)?,
        None => argv,
    };
    mpi::check(pod, &argv, house)?;
    let mut wanted = mounts::of(container, &own, volumes)?;
    wanted.extend(resolv::mount(container, volumes, house.isolation));
    let mut mounts = Vec::new();
    for mount in wanted {
        mounts.push(disk::settle(&mount, house.isolation).map_err(Problem::with_container)?);
    }
    let home = home(volumes, house, &mut mounts);
    let dir = start_dir(container, home.as_deref(), house);
    mounts.sort_by(|a, b| a.target.components().cmp(b.target.components()));
    let uid = meta::uid(pod);
    let id = Id { pod: uid.to_string(), container: container.text_at(path::NAME).to_string(), attempt };
    let tty = container.bool_at(path::TTY) == Some(true);
    Ok(Launch {
        id,
        pod_name: format!("{}/{}", meta::namespace(pod), meta::name(pod)),
        image: container.text_at(path::IMAGE).to_string(),
        argv,
        image_program,
        pull: if container.str_at(path::PULL_POLICY) == "Never" { Pull::Never } else { Pull::Missing },
        env: env::whole(own, &base(pod, house, home, tty)),
        dir,
        mounts,
        hosts: house.layout.hosts(&uid),
        hostname: hostname(pod),
        stdin: container.bool_at(path::STDIN) == Some(true),
        stdin_once: container.bool_at(path::STDIN_ONCE) == Some(true),
        tty,
        user,
        limits: identity::limits(pod, container),
        read_only_root: container.bool_at(path::READ_ONLY_ROOT) == Some(true),
        message_path: message_path(container),
        message_from_log: container.str_at(path::MESSAGE_POLICY) == "FallbackToLogsOnError",
        isolation: house.isolation,
    })
}

/// Program and arguments, and whether the program is the image's own. Where images are only names, there is no program
/// but the one the pod names.
fn command(container: &Tree, env: &env::Env, images: bool) -> Result<(Vec<String>, bool), Problem> {
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
        return Err(Problem::with_container(format!(
            "container {name:?} has no command, and image {image:?} is only a name on this node: \
             add command with a program of this machine{alone}"
        )));
    }
    argv.extend(args);
    if let Some(text) = argv.iter().find(|text| text.contains('\0')) {
        return Err(Problem::with_container(format!(
            "command or argument {text:?} contains a NUL character"
        )));
    }
    Ok((argv, image_program))
}

/// The private home as the container sees it.
fn home(
    volumes: &BTreeMap<Text, Volume>,
    house: &House<'_>,
    mounts: &mut Vec<muster_process::Mount>,
) -> Option<PathBuf> {
    let folder = volumes.get(HOME).map(Volume::path).filter(|_| !house.images)?;
    if house.isolation == Isolation::None {
        return Some(folder.to_owned());
    }
    let target = PathBuf::from(HOME_TARGET);
    let (source, read_only) = (folder.to_owned(), false);
    mounts.push(muster_process::Mount { source, target: target.clone(), read_only });
    Some(target)
}

/// Where the command starts. Where an image would say it, it is the pod's own home: commands write beside them what they
/// need, and of the machine nothing else may be written.
fn start_dir(container: &Tree, home: Option<&Path>, house: &House<'_>) -> Option<PathBuf> {
    let told = container.str_at(path::WORKING_DIR);
    let home = home.filter(|_| house.isolation == Isolation::Namespaces);
    let told = (!told.is_empty()).then(|| PathBuf::from(told));
    told.or_else(|| home.map(Path::to_owned))
}

/// Variables that every container has, unless it sets them itself. An image has a `PATH` of its own, and a home.
fn base(pod: &Tree, house: &House<'_>, home: Option<PathBuf>, tty: bool) -> Vec<(String, String)> {
    let path = (!house.images).then(|| ("PATH".to_owned(), house.search_path.to_string()));
    let mut all: Vec<_> = path.into_iter().chain([("HOSTNAME".to_owned(), hostname(pod))]).collect();
    all.extend(home.map(|home| ("HOME".to_owned(), home.display().to_string())));
    all.extend(tty.then(|| ("TERM".to_owned(), "xterm".to_owned())));
    all
}

fn message_path(container: &Tree) -> PathBuf {
    let path = container.str_at(path::MESSAGE_PATH);
    Path::new("/").join(if path.is_empty() { "dev/termination-log" } else { path })
}
