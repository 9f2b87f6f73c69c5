//! Builders of objects and patches for a TrainJob.

use muster_tree::{Text, Tree, tree};

use super::consts::{API_VERSION, SNAPSHOT_KEY, SNAPSHOT_SUFFIX, TRAIN_JOB};
use super::facts::TrainJobFacts;
use super::generated;
use super::paths::{status as status_path, train_job as path};
use crate::meta::OwnerReference;

/// The controller owner reference of every object created for a TrainJob.
#[must_use]
pub fn owner_reference(job: &TrainJobFacts) -> Tree {
    OwnerReference::controller_reference(API_VERSION, TRAIN_JOB, &job.name, &job.uid)
}

/// Name of the ConfigMap with the runtime snapshot of a TrainJob.
#[must_use]
pub fn snapshot_name(job: &str) -> Text {
    Text::from(format!("{job}{SNAPSHOT_SUFFIX}"))
}

/// Returns whether a ConfigMap or Secret of this name may have been generated for a TrainJob.
#[must_use]
pub fn is_generated_name(name: &str) -> bool {
    let all = [
        SNAPSHOT_SUFFIX,
        generated::mpi::SSH_SUFFIX,
        generated::mpi::HOSTFILE_SUFFIX,
        generated::flux::SCRIPTS_SUFFIX,
        generated::flux::CURVE_SUFFIX,
        generated::progress::CA_SUFFIX,
    ];
    all.iter().any(|suffix| name.ends_with(suffix))
}

/// The ConfigMap with the runtime (with apiVersion and kind) as it was when the TrainJob was created, so that a later
/// change of the runtime does not affect it.
#[must_use]
pub fn snapshot(job: &TrainJobFacts, runtime: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": snapshot_name(&job.name), "namespace": &job.namespace,
            "ownerReferences": [(owner_reference(job))]},
        "data": (Tree::map([(SNAPSHOT_KEY, runtime.to_yaml())]))})
}

/// The configuration to apply for `trainerStatus`; server-side apply removes fields that this report omits.
#[must_use]
pub fn progress_apply(namespace: &Text, name: &Text, told: &Tree) -> Tree {
    let body = tree!({"apiVersion": API_VERSION, "kind": TRAIN_JOB,
        "metadata": {"name": name, "namespace": namespace}});
    body.with(path::STATUS, Tree::empty_map().with(status_path::TRAINER, told))
}
