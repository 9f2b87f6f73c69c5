//! Merges the `runtimePatches` of a TrainJob into its runtime's template, in list order.
//!
//! Job and pod templates are merged as strategic merge patches by the schema of Job: lists by their merge keys, maps
//! by key, everything else is replaced. Of metadata only labels and annotations are patched.

use std::sync::OnceLock;

use muster_api::paths::{jobset, meta, replicated_job};
use muster_api::train::paths::{patch as patch_path, patch_job, runtime as runtime_path, train_job as path};
use muster_schema::node::SchemaRef;
use muster_schema::patch::PatchError;
use muster_schema::{strategic, table};
use muster_tree::{Text, Tree};

use super::RuntimeError;

/// The patched JobSet template: labels, annotations and spec, with the replicatedJobs in the order of the runtime. Patches
/// of replicatedJobs that do not exist have no effect.
///
/// # Errors
/// A patch conflicts with itself or the template.
pub fn merge_runtime_patches(train_job: &Tree, runtime: &Tree) -> Result<Tree, RuntimeError> {
    let maps =
        [runtime_path::TEMPLATE_LABELS, runtime_path::TEMPLATE_ANNOTATIONS, runtime_path::TEMPLATE_SPEC];
    let [mut labels, mut annotations, spec] =
        maps.map(|path| runtime.at(path).filter(|it| it.is_map()).cloned().unwrap_or_else(Tree::empty_map));
    let mut jobs = runtime.items_at(runtime_path::JOBS).to_vec();
    for patch in train_job.items_at(path::PATCHES) {
        labels = over(&labels, patch.at(patch_path::LABELS));
        annotations = over(&annotations, patch.at(patch_path::ANNOTATIONS));
        for change in patch.items_at(patch_path::JOBS) {
            change_job(&mut jobs, change).map_err(|why| RuntimeError::Patch {
                manager: patch.text_at(patch_path::MANAGER),
                job: change.text_at(patch_job::NAME),
                why: why.to_string(),
            })?;
        }
    }
    let some = |map: Tree| (!map.is_empty()).then_some(map);
    Ok(Tree::empty_map()
        .with(&["spec"], spec)
        .with_option(meta::LABELS, some(labels))
        .with_option(meta::ANNOTATIONS, some(annotations))
        .with(jobset::JOBS, Tree::list(jobs)))
}

/// The first patch of a replicatedJob that the runtime does not have: the manager and the name.
#[must_use]
pub fn unknown_job(train_job: &Tree, runtime: &Tree) -> Option<(Text, Text)> {
    let is_known = |name: &str| {
        runtime.items_at(runtime_path::JOBS).iter().any(|it| it.str_at(replicated_job::NAME) == name)
    };
    train_job.items_at(path::PATCHES).iter().find_map(|patch| {
        let names = patch.items_at(patch_path::JOBS).iter().map(|it| it.text_at(patch_job::NAME));
        let unknown = names.into_iter().find(|name| !is_known(name))?;
        Some((patch.text_at(patch_path::MANAGER), unknown))
    })
}

fn over(old: &Tree, new: Option<&Tree>) -> Tree {
    new.filter(|it| it.is_map()).map_or_else(|| old.clone(), |new| old.merge(new))
}

fn change_job(jobs: &mut [Tree], change: &Tree) -> Result<(), PatchError> {
    let name = change.str_at(patch_job::NAME);
    let Some(job) = jobs.iter_mut().find(|it| it.str_at(replicated_job::NAME) == name) else {
        // Unknown names are an error of `unknown_job`, which the builder calls first.
        return Ok(());
    };
    let template = job.at(replicated_job::TEMPLATE).cloned().unwrap_or_else(Tree::empty_map);
    let view = template_schema().view().at(TEMPLATE_IN_SCHEMA).expect("CronJobs have templates of Jobs");
    let merged = strategic::merge(view, &template, &effective(change))?;
    *job = job.with(replicated_job::TEMPLATE, merged);
    Ok(())
}

/// The fields of a patch that apply, as a patch of the Job template.
fn effective(change: &Tree) -> Tree {
    let places = [
        patch_job::JOB_LABELS,
        patch_job::JOB_ANNOTATIONS,
        patch_job::POD_LABELS,
        patch_job::POD_ANNOTATIONS,
        patch_job::POD_SPEC,
    ];
    let said = places.iter().fold(Tree::empty_map(), |said, path| match change.at(path) {
        Some(value) if !value.is_null() => said.with(path, value),
        _ => said,
    });
    said.at(replicated_job::TEMPLATE).cloned().unwrap_or_else(Tree::empty_map)
}

/// The schema path of a Job template, which is that of `template` in a replicatedJob.
const TEMPLATE_IN_SCHEMA: &[&str] = &["spec", "jobTemplate"];

fn template_schema() -> &'static SchemaRef {
    static SCHEMA: OnceLock<SchemaRef> = OnceLock::new();
    SCHEMA.get_or_init(|| table::builtin().root("batch", "v1", "CronJob").expect("CronJobs are built in"))
}
