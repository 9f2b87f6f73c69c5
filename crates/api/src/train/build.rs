//! What is written beside a TrainJob.

use muster_tree::{Text, Tree, tree};

use super::facts::TrainJobFacts;
use super::made;
use super::paths::{status as status_path, train_job as path};
use super::words::{API_VERSION, SNAPSHOT_KEY, SNAPSHOT_SUFFIX, TRAIN_JOB};
use crate::meta::Owner;

/// The entry in the owners of everything that a TrainJob is made into.
#[must_use]
pub fn owner(job: &TrainJobFacts) -> Tree {
    Owner::controller_tree(API_VERSION, TRAIN_JOB, &job.name, &job.uid)
}

/// The name of the ConfigMap that keeps the runtime of a TrainJob.
#[must_use]
pub fn snapshot_name(job: &str) -> Text {
    Text::from(format!("{job}{SNAPSHOT_SUFFIX}"))
}

/// Whether this may be the name of a ConfigMap or Secret that a TrainJob is made into.
#[must_use]
pub fn is_made_name(name: &str) -> bool {
    let all = [
        SNAPSHOT_SUFFIX,
        made::mpi::SSH_SUFFIX,
        made::mpi::HOSTFILE_SUFFIX,
        made::flux::SCRIPTS_SUFFIX,
        made::flux::CURVE_SUFFIX,
        made::progress::CA_SUFFIX,
    ];
    all.iter().any(|suffix| name.ends_with(suffix))
}

/// The ConfigMap that keeps a runtime (with its apiVersion and kind) as a TrainJob found it.
#[must_use]
pub fn snapshot(job: &TrainJobFacts, runtime: &Tree) -> Tree {
    tree!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": snapshot_name(&job.name), "namespace": &job.namespace,
            "ownerReferences": [(owner(job))]},
        "data": (Tree::map([(SNAPSHOT_KEY, runtime.to_yaml())]))})
}

/// What training tells of itself, as it is applied: fields that it leaves out now are taken away.
#[must_use]
pub fn progress_body(namespace: &Text, name: &Text, told: &Tree) -> Tree {
    let body = tree!({"apiVersion": API_VERSION, "kind": TRAIN_JOB,
        "metadata": {"name": name, "namespace": namespace}});
    body.with(path::STATUS, Tree::empty_map().with(status_path::TRAINER, told))
}
