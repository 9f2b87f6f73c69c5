//! The bundled runtimes, from a YAML file.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use muster_api::paths::{container, pod, replicated_job};
use muster_api::train::paths::runtime as path;
use muster_tree::{Tree, tree};

const TEXT: &str = include_str!("shipped.yaml");
/// The runtime for local processes; it has no image.
pub const LOCAL_RUNTIME: &str = "local-process";
/// The runtime with a data cache: it needs LeaderWorkerSet and [`CACHE_ACCOUNT`], and is installed on request only,
/// as in Trainer.
pub const DATA_CACHE_RUNTIME: &str = "torch-distributed-with-cache";
/// The ServiceAccount of its initializer, and the name of the ClusterRole for it.
pub const CACHE_ACCOUNT: &str = "kubeflow-trainer-cache-initializer";
/// The environment variable with the image of the cache.
const CACHE_IMAGE: &str = "CACHE_IMAGE";

/// The ConfigMap from which clients read the version.
pub const VERSION_CONFIG_MAP: &str = "kubeflow-trainer-public";
/// The version of Trainer that clients see.
pub const VERSION: &str = "2.3.0";

/// The bundled runtimes. `mirror` replaces the registry of every image; if it is empty, images come from the
/// registries of Trainer.
///
/// # Panics
/// Never: the file is part of the build and a test reads it.
#[must_use]
pub fn bundled_runtimes(mirror: &str) -> Vec<Tree> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let parse = || Tree::parse_yaml_documents(TEXT).expect("runtimes are YAML");
    let all = TREES.get_or_init(parse).iter();
    if mirror.is_empty() {
        return all.cloned().collect();
    }
    all.map(|it| with_images(it, &mut |image| format!("{mirror}/{}", split_registry(image).1))).collect()
}

/// All images of the bundled runtimes, in the registries of Trainer.
#[must_use]
pub fn images() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for runtime in bundled_runtimes("") {
        with_images(&runtime, &mut |image| {
            all.insert(image.to_owned());
            image.to_owned()
        });
    }
    all
}

/// The registry of an image, if it has one, and the rest. As in every container runtime, the first part is a registry
/// if it has a dot or a port, or is `localhost`.
#[must_use]
pub fn split_registry(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, image),
    }
}

#[must_use]
pub fn version_config_map(namespace: &str, version: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": VERSION_CONFIG_MAP, "namespace": namespace},
        "data": {"kubeflow_trainer_version": version}})
}

/// The runtime with other images: those of its containers, and the one in [`CACHE_IMAGE`]. The local runtime has
/// none.
fn with_images(runtime: &Tree, change: &mut dyn FnMut(&str) -> String) -> Tree {
    if runtime.str_at(&["metadata", "name"]) == LOCAL_RUNTIME {
        return runtime.clone();
    }
    let containers = [replicated_job::POD_TEMPLATE, pod::CONTAINERS].concat();
    let mut in_container = |it: &Tree| {
        let it = it.with(container::IMAGE, change(it.str_at(container::IMAGE)));
        let Some(env) = it.at(container::ENV) else { return it };
        let mut named = |_, var: &Tree| match var.str_at(&["name"]) {
            CACHE_IMAGE => var.with(&["value"], change(var.str_at(&["value"]))),
            _ => var.clone(),
        };
        it.with(container::ENV, env.map_items(&mut named))
    };
    let mut in_job = |job: &Tree| match job.at(&containers) {
        Some(all) => job.with(&containers, all.map_items(|_, it| in_container(it))),
        None => job.clone(),
    };
    match runtime.at(path::JOBS) {
        Some(jobs) => runtime.with(path::JOBS, jobs.map_items(|_, it| in_job(it))),
        None => runtime.clone(),
    }
}
