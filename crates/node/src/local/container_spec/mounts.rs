//! Mounts of a container: volume, `subPath`, mount path.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_api::paths::{container as path, mount, volume_device};
use muster_tree::{Text, Tree};

use super::ContainerConfigError;
use super::env::Env;
use super::expand::expand;
use super::volume::Volume;

/// A requested mount; its `subPath` may have to be created.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RequestedMount {
    pub(super) volume: Text,
    pub(super) container: Text,
    /// Path of the volume on the host.
    pub(super) root: PathBuf,
    /// `subPath`; relative, without `..`.
    pub(super) part: Option<String>,
    pub(super) target: PathBuf,
    /// Whether it is mounted read-only.
    pub(super) read_only: bool,
    /// Whether a missing `subPath` is created: not in projected volumes.
    pub(super) is_ours: bool,
}

/// The mounts of a container.
pub(super) fn of(
    container: &Tree,
    env: &Env,
    volumes: &BTreeMap<Text, Volume>,
) -> Result<Vec<RequestedMount>, ContainerConfigError> {
    let name = container.text_at(path::NAME);
    if let Some(device) = container.items_at(path::DEVICES).first() {
        return Err(ContainerConfigError::with_container(format!(
            "container {:?} asks for block device {:?}: volumeDevices are not supported on this node, use volumeMounts",
            name.as_str(),
            device.str_at(volume_device::NAME)
        )));
    }
    container.items_at(path::MOUNTS).iter().map(|it| one(it, &name, env, volumes)).collect()
}

fn one(
    it: &Tree,
    container: &Text,
    env: &Env,
    volumes: &BTreeMap<Text, Volume>,
) -> Result<RequestedMount, ContainerConfigError> {
    let wrong = ContainerConfigError::with_container;
    let name = it.text_at(mount::NAME);
    let Some(volume) = volumes.get(&name) else {
        let (name, container) = (name.as_str(), container.as_str());
        return Err(wrong(format!("cannot find volume {name:?} to mount into container {container:?}")));
    };
    Ok(RequestedMount {
        volume: name,
        container: container.clone(),
        root: volume.path().to_owned(),
        part: part(it, env).map_err(wrong)?,
        target: Path::new("/").join(it.str_at(mount::PATH)),
        read_only: it.bool_at(mount::READ_ONLY) == Some(true) || volume.is_read_only(),
        is_ours: !matches!(volume, Volume::Files { .. }),
    })
}

/// The `subPath` of a mount, with `subPathExpr` expanded.
fn part(it: &Tree, env: &Env) -> Result<Option<String>, String> {
    let expression = it.str_at(mount::SUB_PATH_EXPR);
    let part = match expression {
        "" => it.str_at(mount::SUB_PATH).to_owned(),
        _ => expanded(expression, env)?,
    };
    if part.starts_with('/') {
        return Err(format!("error SubPath `{part}` must not be an absolute path"));
    }
    if part.split('/').any(|step| step == "..") {
        return Err(format!("unable to provision SubPath `{part}`: must not contain '..'"));
    }
    Ok(Some(part).filter(|part| !part.is_empty()))
}

fn expanded(expression: &str, env: &Env) -> Result<String, String> {
    let mut missing = BTreeSet::new();
    let part = expand(expression, |name| {
        let value = env.get(name).unwrap_or_default();
        if value.is_empty() {
            missing.insert(name.to_owned());
        }
        Some(value.to_owned())
    });
    if missing.is_empty() {
        return Ok(part);
    }
    Err(format!("missing value for {}", missing.into_iter().collect::<Vec<_>>().join(", ")))
}
