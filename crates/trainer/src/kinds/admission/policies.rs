//! Validates TrainJobs against the ML and pod group policies of their runtimes.

use muster_api::paths::{container, pod, replicated_job};
use muster_api::train::consts::{env, labels, names};
use muster_api::train::paths::{env_target, runtime, trainer};
use muster_schema::error::FieldError;
use muster_tree::{Text, Tree};

use super::Problems;
use super::review::{TrainJobReview, containers, has_container};

const ENV: &str = "spec.trainer.env";
/// PriorityClasses that exist in every cluster.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

pub(super) fn check(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    let has = |path: &[&str]| sight.runtime.at(path).is_some_and(Tree::is_map);
    if has(runtime::TORCH) {
        torch_targets(sight, problems);
        reserved(sight, &env::TORCH, problems);
    }
    if has(runtime::MPI) {
        launcher(sight, problems);
        reserved(sight, &env::OPEN_MPI, problems);
    }
    if has(runtime::XGBOOST) {
        for (at, name) in sight.env().iter().enumerate().filter(|(_, it)| env::XGBOOST.contains(&it.as_str()))
        {
            let why = format!("{name} is reserved for the XGBoost runtime");
            problems.push(FieldError::forbidden(format!("{ENV}[{at}]"), why));
        }
    }
    if has(runtime::FLUX) {
        flux(sight, problems);
    }
    if has(runtime::VOLCANO) {
        volcano(sight, problems);
    }
}

/// The policy sets these environment variables of the trainer: a TrainJob must not set them as well.
fn reserved(sight: &TrainJobReview<'_>, names: &[&str], problems: &mut Problems) {
    let mut taken: Vec<Text> = sight.env().into_iter().filter(|it| names.contains(&it.as_str())).collect();
    taken.sort();
    if !taken.is_empty() {
        let why = format!("must not have reserved envs, which are set by the runtime: {}", taken.join(", "));
        problems.push(FieldError::invalid(ENV, Tree::list(taken), why));
    }
}

/// Containers that `envInjection` targets must exist.
fn torch_targets(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    for target in sight.runtime.items_at(runtime::TORCH_TARGETS) {
        let job = target.text_at(env_target::JOB);
        for name in target.items_at(env_target::CONTAINERS).iter().filter_map(Tree::as_str) {
            if !sight.named(&job).is_some_and(|it| has_container(it, name)) {
                let why = format!(
                    "envInjection target podSet {job:?} container {name:?} not found",
                    job = job.as_str()
                );
                problems.push(FieldError::invalid("spec.runtimeRef", sight.shown(), why));
            }
        }
    }
}

/// With two or more nodes a launcher that runs as a node requires other nodes beside it.
fn launcher(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    let Some(nodes) = sight.trainer(trainer::NODES).and_then(Tree::as_int).filter(|n| *n >= 2) else {
        return;
    };
    let trains = sight.runtime.bool_at(runtime::MPI_LAUNCHER_AS_NODE) == Some(true);
    let both = [names::LAUNCHER, names::NODE].iter().all(|name| sight.named(name).is_some());
    if trains && !both {
        let why = "must have 1 when MPI trainingRuntime runs its launcher as a node and lacks one of the jobs launcher \
                   and node";
        problems.push(FieldError::invalid("spec.trainer.numNodes", nodes, why));
    }
}

fn flux(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    let all = sight.named(names::NODE).map(|job| containers(job, pod::INIT_CONTAINERS)).unwrap_or_default();
    if all.iter().any(|it| it.str_at(container::NAME) == names::FLUX_INSTALLER) {
        let why = "InitContainer 'flux-installer' is reserved for the flux policy";
        problems.push(FieldError::invalid("spec.runtimeRef", sight.shown(), why));
    }
}

fn volcano(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    if sight.annotation(labels::VOLCANO_QUEUE) == Some("") {
        let path = format!("metadata.annotations[{}]", labels::VOLCANO_QUEUE);
        problems.push(FieldError::invalid(path, "", "Volcano queue name must not be empty"));
    }
    for (at, job) in sight.jobs().iter().enumerate() {
        let pods = job.at(replicated_job::POD_TEMPLATE).unwrap_or(&Tree::Null);
        let class = pods.str_at(pod::PRIORITY_CLASS);
        if class.is_empty() || SYSTEM_CLASSES.contains(&class) {
            continue;
        }
        let path =
            format!("spec.template.spec.replicatedJobs[{at}].template.spec.template.spec.priorityClassName");
        match sight.live.has_priority_class(class) {
            Ok(true) => {}
            Ok(false) => {
                let why = format!("PriorityClass {class:?} doesn't exist");
                problems.push(FieldError::invalid(path, class, why));
            }
            Err(why) => problems.push(FieldError::internal(path, why)),
        }
    }
}
