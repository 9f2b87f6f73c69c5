//! The runtimes that are shipped, as data.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use muster_api::paths::{container, pod, replicated_job};
use muster_api::train::paths::runtime as path;
use muster_tree::{Tree, tree};

const TEXT: &str = include_str!("shipped.yaml");
/// The one for processes of this machine, whose image is none.
pub const LOCAL: &str = "local-process";
/// The one that needs LeaderWorkerSets and [`CACHE_ACCOUNT`], and is installed only on request, as Trainer's data cache is.
pub const WITH_CACHE: &str = "torch-distributed-with-cache";
/// The ServiceAccount of its initializer, and the ClusterRole of that.
pub const CACHE_ACCOUNT: &str = "kubeflow-trainer-cache-initializer";
/// The variable that names the image of the cache.
const CACHE_IMAGE: &str = "CACHE_IMAGE";

/// The ConfigMap that tells clients which version this is.
pub const PUBLIC: &str = "kubeflow-trainer-public";
/// The version of Trainer that clients may take this for.
pub const VERSION: &str = "2.3.0";

/// The shipped runtimes. `mirror` takes the place of the registry of every image; when it is empty images come from
/// where Trainer publishes them.
///
/// # Panics
/// Never: the file is part of the build and a test reads it.
#[must_use]
pub fn shipped(mirror: &str) -> Vec<Tree> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let parse = || Tree::parse_yaml_documents(TEXT).expect("runtimes are YAML");
    let all = TREES.get_or_init(parse).iter();
    if mirror.is_empty() {
        return all.cloned().collect();
    }
    all.map(|it| with_images(it, &mut |image| format!("{mirror}/{}", split_registry(image).1))).collect()
}

/// Every image of the shipped runtimes, as it is published.
#[must_use]
pub fn images() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for runtime in shipped("") {
        with_images(&runtime, &mut |image| {
            all.insert(image.to_owned());
            image.to_owned()
        });
    }
    all
}

/// The registry of an image, if it names one, and the rest. As in every container runtime the first part is a registry
/// when it has a dot or a port, or is `localhost`.
#[must_use]
pub fn split_registry(image: &str) -> (Option<&str>, &str) {
    match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (Some(first), rest),
        _ => (None, image),
    }
}

/// That ConfigMap.
#[must_use]
pub fn public(namespace: &str, version: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": PUBLIC, "namespace": namespace},
        "data": {"kubeflow_trainer_version": version}})
}

/// A runtime with other images: those of its containers, and the one that a variable names. The local one has none.
fn with_images(runtime: &Tree, change: &mut dyn FnMut(&str) -> String) -> Tree {
    if runtime.str_at(&["metadata", "name"]) == LOCAL {
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
