//! Validates runtimes.

use muster_api::meta;
use muster_api::paths::{container, pod, replicated_job};
use muster_api::train::consts::labels;
use muster_api::train::paths::runtime as path;
use muster_api::train::{Ancestor, RuntimeKind};
use muster_schema::admission::aggregate;
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::Tree;

use super::{Answer, Problems, TrainingReview};

/// Updates of a TrainingRuntime are not validated, as in Trainer; those of a ClusterTrainingRuntime are.
pub(super) fn check(kind: RuntimeKind, asked: &TrainingReview<'_>) -> Answer {
    let is_new = asked.old.is_none();
    let skipped = meta::label(asked.object, labels::VALIDATION) == Some(labels::DISABLED);
    if skipped || (kind == RuntimeKind::Namespaced && !is_new) {
        return Answer::default();
    }
    let mut warnings = Vec::new();
    if is_new && kind == RuntimeKind::Cluster && is_deprecated(asked.object) {
        let name = meta::name(asked.object);
        warnings.push(format!(
            "ClusterTrainingRuntime {name:?} is deprecated and will be removed in a future release",
            name = name.as_str()
        ));
    }
    let mut problems = Vec::new();
    for (at, job) in asked.object.items_at(path::JOBS).iter().enumerate() {
        step(at, job, &mut problems);
    }
    // Problems that the stored object has already do not reject an update.
    let before = asked.old.map(unreadable).unwrap_or_default();
    problems.extend(quantities::added(unreadable(asked.object), &before));
    Answer { refused: aggregate(&problems), warnings, ..Answer::default() }
}

/// Resources in its pod templates that are not quantities.
fn unreadable(runtime: &Tree) -> Problems {
    let jobs = runtime.items_at(path::JOBS).iter().enumerate();
    jobs.flat_map(|(at, job)| {
        let path = format!("spec.template.spec.replicatedJobs[{at}].template.spec.template.spec");
        quantities::of_pod_spec(&path, job.at(replicated_job::POD_SPEC))
    })
    .collect()
}

/// Whether the runtime is labeled as deprecated.
pub(super) fn is_deprecated(runtime: &Tree) -> bool {
    meta::label(runtime, labels::SUPPORT) == Some(labels::DEPRECATED)
}

/// A step of a TrainJob is one Job, and has the container of that step.
fn step(at: usize, job: &Tree, problems: &mut Problems) {
    let Some(ancestor) = Ancestor::of(job) else { return };
    let path = format!("spec.template.spec.replicatedJobs[{at}]");
    let replicas = job.int_at(replicated_job::REPLICAS).unwrap_or(1);
    if replicas != 1 {
        let why = format!("always must be 1: the {} step is one Job", ancestor.word());
        problems.push(FieldError::invalid(format!("{path}.replicas"), replicas, why));
    }
    let containers = job.at(replicated_job::POD_TEMPLATE).map(|it| it.items_at(pod::CONTAINERS));
    let names = containers.unwrap_or_default().iter().map(|it| it.text_at(container::NAME));
    let names: Vec<Tree> = names.map(Tree::from).collect();
    let wanted = ancestor.container();
    if !names.iter().any(|it| it.as_str() == Some(wanted)) {
        let why =
            format!("must contain the required container for the ancestor {:?}: {wanted:?}", ancestor.word());
        let path = format!("{path}.template.spec.template.spec.containers");
        problems.push(FieldError::invalid(path, Tree::list(names), why));
    }
}
