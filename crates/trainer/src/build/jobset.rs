//! The last build steps: initializers, the trainer's overrides, pod counts, and the JobSet as it is applied.

use muster_api::consts::jobset as words;
use muster_api::paths::{container, jobset as path, meta, replicated_job as job};
use muster_api::train::Ancestor;
use muster_api::train::consts::env;
use muster_api::train::paths::{initializer, train_job, trainer};
use muster_tree::{Tree, tree};

use super::jobset_builder::{JobSetBuilder, PodSetBuilder, TrainerCommand};
use super::lists::{appended, variable, with_env};

/// The JobSet, with only the fields that we own.
pub(super) fn build(draft: &mut JobSetBuilder<'_>) -> Tree {
    for set in &mut draft.sets {
        initialize(set, draft.job);
    }
    run(draft);
    // Last: the TrainJob's variables override those of a framework.
    let env = draft.env();
    draft.change_trainers(|container| with_env(container, env));
    let jobs = draft.sets.iter().map(sized);
    let own = draft.object(words::API_VERSION, words::KIND, &draft.facts.name);
    let jobset = own.with(&["spec"], draft.jobset.at(&["spec"]).cloned().unwrap_or_else(Tree::empty_map));
    [meta::LABELS, meta::ANNOTATIONS]
        .into_iter()
        .fold(jobset, |jobset, place| match draft.jobset.at(place) {
            Some(map) => jobset.with(place, map),
            None => jobset,
        })
        .with(path::JOBS, Tree::list(jobs))
        .with(path::SUSPEND, draft.facts.suspend)
}

/// Sets parallelism and completions: every pod of the Job has to succeed.
fn sized(set: &PodSetBuilder) -> Tree {
    set.job.with(job::PARALLELISM, set.count).with(job::COMPLETIONS, set.count)
}

/// Configures an initializer from `spec.initializer`.
fn initialize(set: &mut PodSetBuilder, train_job: &Tree) {
    let (step, place) = match set.step {
        Some(step @ Ancestor::Dataset) => (step, train_job::DATASET),
        Some(step @ Ancestor::Model) => (step, train_job::MODEL),
        _ => return,
    };
    let Some(said) = train_job.at(place).filter(|it| it.is_map()) else { return };
    let from = said.at(initializer::STORAGE_URI).map(|uri| variable(env::STORAGE_URI, uri));
    set.change_container(step.container(), |it| {
        let told = with_env(it, from.as_slice());
        let told = with_env(&told, said.items_at(initializer::ENV));
        match said.at(initializer::SECRET) {
            Some(secret) => appended(&told, container::ENV_FROM, tree!({"secretRef": {"name": secret}})),
            None => told,
        }
    });
}

/// Applies the trainer's image, command and arguments. An empty list is a value, too.
fn run(draft: &mut JobSetBuilder<'_>) {
    let Some(said) = draft.trainer() else { return };
    let (image, command, args) = (
        (trainer::IMAGE, container::IMAGE),
        (trainer::COMMAND, container::COMMAND),
        (trainer::ARGS, container::ARGS),
    );
    let places = match draft.run {
        TrainerCommand::FromTrainJob => vec![image, command, args],
        TrainerCommand::Command => vec![image, args],
        TrainerCommand::FromPolicyWithoutArgs => vec![image],
    };
    draft.change_trainer(|it| {
        places.iter().fold(it.clone(), |it, (from, to)| match said.at(from) {
            Some(value) if !value.is_null() => it.with(to, value),
            _ => it,
        })
    });
}
