//! Validates initializers and runtimePatches against the JobSet template of the runtime.

use muster_api::jobset::JobSetStatus;
use muster_api::meta;
use muster_api::paths::{jobset, pod};
use muster_api::train::consts::names;
use muster_api::train::paths::{patch, patch_container, patch_job, train_job};
use muster_schema::error::FieldError;
use muster_schema::names::manager;
use muster_tree::Tree;

use super::Problems;
use super::review::{TrainJobReview, containers, has_container};

const PATCHES: &str = "spec.runtimePatches";
/// Containers with an environment that is set by fields of the TrainJob, and not by patches.
const OWN: [&str; 3] = [names::NODE, names::DATASET_INITIALIZER, names::MODEL_INITIALIZER];

pub(super) fn check(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    let steps =
        [(train_job::DATASET, names::DATASET_INITIALIZER), (train_job::MODEL, names::MODEL_INITIALIZER)];
    for (path, name) in steps {
        if sight.job.at(path).is_some_and(Tree::is_map) {
            initializer(sight, name, problems);
        }
    }
    for (at, it) in sight.patches().iter().enumerate() {
        problems.extend(manager(&format!("{PATCHES}.manager"), it.str_at(patch::MANAGER)));
        for (index, job) in it.items_at(patch::JOBS).iter().enumerate() {
            let path = format!("{PATCHES}[{at}].trainingRuntimeSpec.template.spec.replicatedJobs[{index}]");
            patched(sight, job, &path, problems);
        }
    }
    if let Some(old) = sight.old {
        changed(sight, old, problems);
    }
}

/// An initializer requires a replicatedJob of this name with a container of this name, which mounts the volume that
/// it fetches to.
fn initializer(sight: &TrainJobReview<'_>, name: &str, problems: &mut Problems) {
    let mut wrong = |why: String| problems.push(FieldError::invalid("spec.runtimeRef", sight.shown(), why));
    let volume = names::INITIALIZER_VOLUME;
    let Some(job) = sight.named(name) else {
        return wrong(format!("must have {name} job when the TrainJob asks for it in spec.initializer"));
    };
    let mut all = containers(job, pod::CONTAINERS).iter();
    if !all.any(|it| it.str_at(patch_container::NAME) == name) {
        return wrong(format!("must have container with name - {name} in the {name} job"));
    }
    if !sight.mounts(name, name, volume) {
        wrong(format!("must have volumeMount with name - {volume} in the {name} container"));
    }
}

/// Patches may change what the runtime has, but no environment that the TrainJob has a field for.
fn patched(sight: &TrainJobReview<'_>, job: &Tree, path: &str, problems: &mut Problems) {
    let name = job.text_at(patch_job::NAME);
    let Some(own) = sight.named(&name) else {
        let why = "must not have replicated job that doesn't exist in the runtime";
        problems.push(FieldError::invalid(format!("{path}.name"), name, why));
        return;
    };
    let pods = format!("{path}.template.spec.template.spec");
    for (list, word, fields) in [
        (patch_job::INIT_CONTAINERS, "initContainer", "initContainers"),
        (patch_job::CONTAINERS, "container", "containers"),
    ] {
        for (at, it) in job.items_at(list).iter().enumerate() {
            let path = format!("{pods}.{fields}[{at}]");
            let container = it.text_at(patch_container::NAME);
            if !has_container(own, &container) {
                let why = format!("must not have {word} that doesn't exist in the runtime job {name}");
                problems.push(FieldError::invalid(format!("{path}.name"), container, why));
            } else if list == patch_job::CONTAINERS
                && OWN.contains(&container.as_str())
                && !it.items_at(patch_container::ENV).is_empty()
            {
                let why = format!(
                    "must not have envs for the {container} container: the TrainJob has a field for them"
                );
                problems.push(FieldError::forbidden(format!("{path}.env"), why));
            }
        }
    }
}

/// runtimePatches may change while the TrainJob is suspended and no pod is active.
fn changed(sight: &TrainJobReview<'_>, old: &Tree, problems: &mut Problems) {
    let patches = |job: &Tree| job.at(train_job::PATCHES).cloned().filter(|it| !it.items().is_empty());
    if patches(old) == patches(sight.job) {
        return;
    }
    let suspended = |job: &Tree| job.bool_at(train_job::SUSPEND) == Some(true);
    if !suspended(old) && !suspended(sight.job) {
        let why =
            "RuntimePatches can only be modified when the TrainJob is suspended before or after the update";
        problems.push(FieldError::forbidden(PATCHES, why));
        return;
    }
    match sight.live.jobset(sight.namespace, &meta::name(sight.job)) {
        Err(why) => problems.push(FieldError::internal(PATCHES, why)),
        Ok(None) => {}
        Ok(Some(set)) => {
            let status = JobSetStatus::of(set.at(jobset::STATUS).unwrap_or(&Tree::Null));
            // Suspending takes time: pods of the former template may still run.
            for job in status.jobs.iter().filter(|it| it.active > 0) {
                let why = format!(
                    "replicated job {} is still active: patches change when its pods are gone",
                    job.name
                );
                problems.push(FieldError::forbidden(PATCHES, why));
            }
        }
    }
}
