//! The runtimes that are shipped, as data.

use std::sync::OnceLock;

use muster_api::paths::{container, pod, replicated_job};
use muster_api::train::paths::runtime as path;
use muster_tree::{Tree, tree};

const TEXT: &str = include_str!("shipped.yaml");
/// The one for processes of this machine, whose image is none.
pub const LOCAL: &str = "local-process";
/// The one that needs a cache beside it, and is installed only where that is.
pub const WITH_CACHE: &str = "torch-distributed-with-cache";

/// The ConfigMap that tells clients which version this is.
pub const PUBLIC: &str = "kubeflow-trainer-public";
/// The version of Trainer that clients may take this for.
pub const VERSION: &str = "2.3.0";

/// The shipped runtimes. `registry` stands in front of every image; nothing does when it is empty.
///
/// # Panics
/// Never: the file is part of the build and a test reads it.
#[must_use]
pub fn shipped(registry: &str) -> Vec<Tree> {
    static TREES: OnceLock<Vec<Tree>> = OnceLock::new();
    let parse = || Tree::parse_yaml_documents(TEXT).expect("runtimes are YAML");
    TREES.get_or_init(parse).iter().map(|it| from(registry, it)).collect()
}

/// That ConfigMap.
#[must_use]
pub fn public(namespace: &str, version: &str) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": PUBLIC, "namespace": namespace},
        "data": {"kubeflow_trainer_version": version}})
}

/// A runtime whose images come from a registry.
fn from(registry: &str, runtime: &Tree) -> Tree {
    if registry.is_empty() || runtime.str_at(&["metadata", "name"]) == LOCAL {
        return runtime.clone();
    }
    let image = |it: &Tree| it.with(container::IMAGE, format!("{registry}/{}", it.str_at(container::IMAGE)));
    let containers = [replicated_job::POD_TEMPLATE, pod::CONTAINERS].concat();
    let job = |job: &Tree| match job.at(&containers) {
        Some(all) => job.with(&containers, all.map_items(|_, it| image(it))),
        None => job.clone(),
    };
    match runtime.at(path::JOBS) {
        Some(jobs) => runtime.with(path::JOBS, jobs.map_items(|_, it| job(it))),
        None => runtime.clone(),
    }
}
