//! The MPI policy: a launcher that reaches all nodes by SSH, its keys, and the hostfile.

use std::slice;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_api::train::consts::{env, names};
use muster_api::train::generated::mpi as words;
use muster_api::train::paths::runtime as runtime_path;
use muster_tree::{Tree, tree};

use crate::build::RuntimeError;
use crate::build::jobset_builder::{JobSetBuilder, count_at};
use crate::build::lists::{variable, with_env, with_mounts};
use crate::build::resources::gpus;

/// SSH keys of the launcher. The caller generates them: this crate has no randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPair<'a> {
    pub private: &'a str,
    /// The public key, as an `authorized_keys` line.
    pub public: &'a str,
}

const OWNER_READS: i64 = 0o400;
const GROUP_READS: i64 = 0o640;
const ALL_READ: i64 = 0o644;
const ALL_ONLY_READ: i64 = 0o444;

pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) -> Result<(), RuntimeError> {
    if draft.runtime.at(runtime_path::MPI).is_none() {
        return Ok(());
    }
    match draft.runtime.text_at(runtime_path::MPI_IMPLEMENTATION) {
        known if known.is_empty() || known == words::OPEN_MPI => {}
        other => return Err(RuntimeError::Implementation { name: other }),
    }
    resize(draft);
    let (ssh, hostfile) = (ssh_volume(draft), hostfile_volume(draft));
    let ssh_mount = mount(words::SSH_VOLUME, ssh_path(draft.runtime));
    let hostfile_mount = mount(words::HOSTFILE_VOLUME, words::HOSTFILE_DIR);
    let told = [
        variable(env::OMPI_HOSTFILE, format!("{}/{}", words::HOSTFILE_DIR, words::HOSTFILE)),
        variable(env::OMPI_KEEP_FQDN, "true"),
        variable(env::OMPI_SLOTS, slots(draft).to_string()),
        variable(env::OMPI_RSH_ARGS, words::RSH_ARGS),
    ];
    if let Some(node) = draft.set(names::NODE) {
        node.add_volumes(slice::from_ref(&ssh));
        node.change_container(names::NODE, |it| with_mounts(it, slice::from_ref(&ssh_mount)));
    }
    if let Some(launcher) = draft.set(names::LAUNCHER) {
        launcher.add_volumes(&[ssh, hostfile]);
        let mounts = [ssh_mount, hostfile_mount];
        // The container of the launcher has the name `node`, too.
        launcher.change_container(names::NODE, |it| with_env(&with_mounts(it, &mounts), &told));
    }
    Ok(())
}

/// Applies `numNodes`; with `runLauncherAsNode` the launcher is one of them.
fn resize(draft: &mut JobSetBuilder<'_>) {
    let Some(nodes) = draft.nodes() else { return };
    let workers = if launcher_is_node(draft.runtime) { nodes.saturating_sub(1).max(1) } else { nodes };
    if let Some(set) = draft.set(names::NODE) {
        set.count = workers;
    }
}

fn launcher_is_node(runtime: &Tree) -> bool {
    runtime.bool_at(runtime_path::MPI_LAUNCHER_AS_NODE) == Some(true)
}

/// Slots per node: `numProcPerNode`, else that of the policy, where the default 1 means one per GPU.
fn slots(draft: &JobSetBuilder<'_>) -> u32 {
    if let Some(said) = draft.procs() {
        return said;
    }
    match count_at(draft.runtime, runtime_path::MPI_PROCS).unwrap_or(1) {
        1 => draft.trainer_container().map_or(1, gpus).max(1),
        many => many,
    }
}

fn ssh_path(runtime: &Tree) -> &str {
    match runtime.str_at(runtime_path::MPI_SSH_PATH) {
        "" => words::SSH_PATH,
        path => path,
    }
}

fn ssh_volume(draft: &JobSetBuilder<'_>) -> Tree {
    let file = |key: &str, path: &str, mode: i64| tree!({"key": key, "path": path, "mode": mode});
    let items = [
        file(words::PRIVATE_KEY, "id_rsa", GROUP_READS),
        file(words::PUBLIC_KEY, "id_rsa.pub", ALL_READ),
        file(words::PUBLIC_KEY, "authorized_keys", ALL_READ),
    ];
    tree!({"name": words::SSH_VOLUME, "secret": {"secretName": draft.named(words::SSH_SUFFIX),
        "defaultMode": OWNER_READS, "items": Tree::list(items)}})
}

fn hostfile_volume(draft: &JobSetBuilder<'_>) -> Tree {
    tree!({"name": words::HOSTFILE_VOLUME, "configMap": {"name": draft.named(words::HOSTFILE_SUFFIX),
        "items": [{"key": words::HOSTFILE, "path": words::HOSTFILE, "mode": ALL_ONLY_READ}]}})
}

fn mount(volume: &str, path: &str) -> Tree {
    tree!({"name": volume, "mountPath": path})
}

/// Creates the Secret, unless it exists, and the ConfigMap of the hostfile.
pub(super) fn build(draft: &mut JobSetBuilder<'_>, keys: Option<KeyPair<'_>>) {
    if draft.runtime.at(runtime_path::MPI).is_none() {
        return;
    }
    let secret = keys.map(|keys| ssh_secret(draft, keys));
    let hostfile = hostfile(draft);
    draft.beside.extend(secret);
    draft.beside.push(hostfile);
}

fn ssh_secret(draft: &JobSetBuilder<'_>, keys: KeyPair<'_>) -> Tree {
    let data = [(words::PRIVATE_KEY, keys.private), (words::PUBLIC_KEY, keys.public)];
    let data = Tree::map(data.map(|(key, text)| (key, STANDARD.encode(text))));
    draft
        .object("v1", "Secret", &draft.named(words::SSH_SUFFIX))
        .with(&["type"], words::SSH_TYPE)
        // New keys would not match those in running pods.
        .with(&["immutable"], true)
        .with(&["data"], data)
}

fn hostfile(draft: &JobSetBuilder<'_>) -> Tree {
    let is_node =
        |name: &str| name == names::NODE || (name == names::LAUNCHER && launcher_is_node(draft.runtime));
    let (slots, subdomain) = (slots(draft), draft.subdomain());
    let nodes = draft.sets.iter().filter(|set| is_node(&set.name));
    let endpoints = nodes.flat_map(|set| set.endpoints(&draft.facts.name, &subdomain));
    let lines: String = endpoints.map(|endpoint| format!("{endpoint} slots={slots}\n")).collect();
    draft
        .object("v1", "ConfigMap", &draft.named(words::HOSTFILE_SUFFIX))
        .with(&["data"], Tree::map([(words::HOSTFILE, lines)]))
}
