//! Resolves the volumes of a pod spec to paths on the host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_api::consts::{finalizers, storage};
use muster_api::paths::{
    claim, container, env, file_ref, mount, pod as pod_path, pod_volume as path, volume, volume_device,
};
use muster_api::volume::NOT_SOURCES;
use muster_api::{meta, quantity};
use muster_tree::{Text, Tree};

use super::projected::{FileProjector, ProjectedFile};
use super::{ContainerConfigError, HOME, PodContext, RESOLV, downward_api, resolv_conf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Volume {
    /// emptyDir: a directory with the lifetime of the pod.
    Scratch {
        folder: PathBuf,
        /// `fsGroup` of the pod.
        group: Option<u32>,
        /// Whether `medium` is Memory. It is on disk all the same.
        memory: bool,
        /// `sizeLimit` in bytes; not enforced.
        limit_bytes: Option<u64>,
    },
    /// Projected files, read-only for containers.
    Files {
        folder: PathBuf,
        files: Vec<ProjectedFile>,
        /// `fsGroup` of the pod.
        group: Option<u32>,
    },
    /// Something of this machine.
    Host {
        path: PathBuf,
        /// What it must be.
        kind: HostKind,
    },
    /// The directory of a bound PersistentVolume.
    Claim {
        path: PathBuf,
        /// What it must be.
        kind: HostKind,
        /// Whether it is mounted read-only.
        read_only: bool,
        /// `fsGroup` of the pod.
        group: Option<u32>,
    },
}

impl Volume {
    /// Path on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Volume::Scratch { folder, .. } | Volume::Files { folder, .. } => folder,
            Volume::Host { path, .. } | Volume::Claim { path, .. } => path,
        }
    }

    /// Whether containers mount it read-only, whatever `readOnly` says.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        matches!(self, Volume::Files { .. } | Volume::Claim { read_only: true, .. })
    }
}

/// `type` of a hostPath volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostKind {
    /// Unset: no check; a missing path becomes a directory.
    Any,
    /// A directory, created if missing.
    DirectoryOrCreate,
    Directory,
    /// A file, created if missing.
    FileOrCreate,
    File,
    Socket,
    CharDevice,
    BlockDevice,
}

impl HostKind {
    fn of(word: &str) -> Result<HostKind, String> {
        match word {
            "" => Ok(HostKind::Any),
            "DirectoryOrCreate" => Ok(HostKind::DirectoryOrCreate),
            "Directory" => Ok(HostKind::Directory),
            "FileOrCreate" => Ok(HostKind::FileOrCreate),
            "File" => Ok(HostKind::File),
            "Socket" => Ok(HostKind::Socket),
            "CharDevice" => Ok(HostKind::CharDevice),
            "BlockDevice" => Ok(HostKind::BlockDevice),
            _ => Err(format!("{word} is an invalid volume type")),
        }
    }
}

/// Resolves the volumes that containers use, by name, and the home directory.
///
/// # Errors
/// The first volume that cannot be resolved yet.
pub fn volumes(pod: &Tree, context: &PodContext<'_>) -> Result<BTreeMap<Text, Volume>, ContainerConfigError> {
    let used = used(pod);
    let uid = meta::uid(pod);
    let home = Volume::Scratch {
        folder: context.layout.pod(&uid).join("home"),
        group: group(pod),
        memory: false,
        limit_bytes: None,
    };
    let mut all = BTreeMap::from([(Text::from(HOME), home)]);
    all.extend(resolv_conf::volume(pod, context).map(|it| (Text::from(RESOLV), it)));
    for it in pod.items_at(pod_path::VOLUMES) {
        let name = it.text_at(path::NAME);
        if used.contains(name.as_str()) {
            let made = resolve(it, pod, context)?;
            all.insert(name, made);
        }
    }
    Ok(all)
}

/// Names of the volumes that a container mounts or reads: unused volumes are not resolved.
fn used(pod: &Tree) -> BTreeSet<&str> {
    let lists = [pod_path::INIT_CONTAINERS, pod_path::CONTAINERS, pod_path::EPHEMERAL_CONTAINERS];
    let containers = lists.into_iter().flat_map(|list| pod.items_at(list));
    let names = |it| {
        let mounts = Tree::items_at(it, container::MOUNTS).iter().map(|it| it.str_at(mount::NAME));
        let devices = it.items_at(container::DEVICES).iter().map(|it| it.str_at(volume_device::NAME));
        let files = it.items_at(container::ENV).iter().filter_map(|it| it.at(env::FILE));
        mounts.chain(devices).chain(files.map(|it| it.str_at(file_ref::VOLUME)))
    };
    containers.flat_map(names).collect()
}

fn group(pod: &Tree) -> Option<u32> {
    pod.int_at(pod_path::FS_GROUP).and_then(|group| u32::try_from(group).ok())
}

fn resolve(it: &Tree, pod: &Tree, context: &PodContext<'_>) -> Result<Volume, ContainerConfigError> {
    let name = it.str_at(path::NAME);
    let wrong = |why: String| ContainerConfigError::with_volume(name, &why);
    let folder = context.layout.volume(&meta::uid(pod), name);
    if let Some(files) = (FileProjector { pod, context }).files(it) {
        return Ok(Volume::Files { folder, files: files.map_err(wrong)?, group: group(pod) });
    }
    if !it.str_at(path::CLAIM).is_empty() || it.at(path::TEMPLATE).is_some() {
        return resolve_claim(it, pod, context);
    }
    if it.at(path::HOST).is_some() {
        return host(it.str_at(path::HOST_PATH), it.str_at(path::HOST_TYPE)).map_err(wrong);
    }
    match it.entries().iter().find(|(key, source)| key != "name" && !source.is_null()) {
        None => Ok(scratch(it, folder, pod)),
        Some((key, _)) if key == "emptyDir" => Ok(scratch(it, folder, pod)),
        Some((key, _)) => Err(wrong(unsupported(key))),
    }
}

fn unsupported(kind: &str) -> String {
    format!(
        "a volume of type {kind} is not supported on this node: supported are configMap, downwardAPI, emptyDir, \
         ephemeral, hostPath, persistentVolumeClaim (with hostPath and local volumes), projected and secret"
    )
}

fn scratch(it: &Tree, folder: PathBuf, pod: &Tree) -> Volume {
    let limit =
        it.at(path::EMPTY_LIMIT).and_then(downward_api::amount).and_then(|text| quantity::whole(&text));
    let limit = limit.and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    let memory = it.str_at(path::EMPTY_MEDIUM) == "Memory";
    Volume::Scratch { folder, group: group(pod), memory, limit_bytes: limit }
}

fn host(path: &str, kind: &str) -> Result<Volume, String> {
    Ok(Volume::Host { path: host_path(path)?, kind: HostKind::of(kind)? })
}

fn host_path(path: &str) -> Result<PathBuf, String> {
    if path.split('/').any(|part| part == "..") {
        return Err(format!("invalid HostPath `{path}`: must not contain '..'"));
    }
    // A relative path is taken from the root, as in the kubelet.
    Ok(Path::new("/").join(path))
}

/// Resolves a persistentVolumeClaim or ephemeral volume.
fn resolve_claim(it: &Tree, pod: &Tree, context: &PodContext<'_>) -> Result<Volume, ContainerConfigError> {
    let name = it.str_at(path::NAME);
    let namespace = meta::namespace(pod);
    let is_made = it.str_at(path::CLAIM).is_empty();
    let claim = match is_made {
        true => Text::from(format!("{}-{name}", meta::name(pod))),
        false => it.text_at(path::CLAIM),
    };
    let wrong = |why: String| {
        ContainerConfigError::with_claim(name, &format!("error processing PVC {namespace}/{claim}: {why}"))
    };
    let found = bound_claim(&namespace, &claim, context).map_err(wrong)?;
    // A claim of the same name may have another owner and hold foreign data.
    if is_made && meta::controller_of(&found).is_none_or(|owner| owner.uid != meta::uid(pod)) {
        let of = meta::name(pod);
        let why =
            format!("PVC {namespace}/{claim} was not created for pod {namespace}/{of} (pod is not owner)");
        return Err(ContainerConfigError::with_claim(name, &why));
    }
    let volume = persistent_volume(&found, context).map_err(wrong)?;
    if volume.str_at(volume::MODE) == "Block" {
        let why =
            format!("volume {name} has volumeMode Block, but block devices are not supported on this node");
        return Err(ContainerConfigError::with_claim(name, &why));
    }
    let read_only = it.bool_at(path::CLAIM_READ_ONLY) == Some(true);
    directory_of(&volume, read_only, group(pod))
        .map_err(|why| ContainerConfigError::with_volume(&meta::name(&volume), &why))
}

fn bound_claim(namespace: &Text, name: &Text, context: &PodContext<'_>) -> Result<Tree, String> {
    let Some(found) = context.lookup.claim(namespace, name) else {
        let quoted = name.as_str();
        return Err(format!(
            "failed to fetch PVC from API server: persistentvolumeclaims {quoted:?} not found"
        ));
    };
    // While its protection finalizer is set, a claim in deletion remains usable by its pods.
    let is_kept = meta::has_finalizer(&found, finalizers::PVC_PROTECTION);
    match found.str_at(claim::PHASE) {
        _ if meta::deletion_timestamp(&found).is_some() && !is_kept => Err("PVC is being deleted".to_owned()),
        "Bound" if found.str_at(claim::VOLUME).is_empty() => {
            Err("PVC has empty pvc.Spec.VolumeName".to_owned())
        }
        "Bound" => Ok(found),
        _ => Err("PVC is not bound".to_owned()),
    }
}

fn persistent_volume(claim: &Tree, context: &PodContext<'_>) -> Result<Tree, String> {
    let name = claim.text_at(claim::VOLUME);
    let Some(found) = context.lookup.volume(&name) else {
        let quoted = name.as_str();
        return Err(format!(
            "failed to fetch PV {name} from API server: persistentvolumes {quoted:?} not found"
        ));
    };
    if found.at(volume::CLAIM).is_none() {
        return Err(format!(
            "found PV object {name} but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim"
        ));
    }
    let (claim_uid, uid) = (found.str_at(volume::CLAIM_UID), meta::uid(claim));
    if claim_uid != uid {
        return Err(format!(
            "found PV object {name} but its pv.Spec.ClaimRef.UID {claim_uid} does not point to claim.UID {uid}"
        ));
    }
    Ok(found)
}

/// The directory of a PersistentVolume. `fsGroup` applies to local volumes and those of our provisioner, not to other
/// host paths.
fn directory_of(volume: &Tree, read_only: bool, group: Option<u32>) -> Result<Volume, String> {
    if let Some(path) = volume.at(volume::LOCAL_PATH).and_then(Tree::as_str) {
        return Ok(Volume::Claim { path: host_path(path)?, kind: HostKind::Directory, read_only, group });
    }
    if let Some(path) = volume.at(volume::HOST_PATH).and_then(Tree::as_str) {
        let is_ours = meta::annotation(volume, storage::PROVISIONED_BY) == Some(storage::LOCAL_PATH);
        let kind = HostKind::of(volume.str_at(volume::HOST_TYPE))?;
        return Ok(Volume::Claim {
            path: host_path(path)?,
            kind,
            read_only,
            group: group.filter(|_| is_ours),
        });
    }
    let spec = volume.get("spec").map_or(&[][..], Tree::entries);
    let source = spec.iter().find(|(key, _)| !NOT_SOURCES.contains(&key.as_str()));
    Err(unsupported(source.map_or("unknown", |(key, _)| key.as_str())))
}
