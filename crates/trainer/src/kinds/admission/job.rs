//! Validates TrainJobs.

use muster_api::meta;
use muster_api::train::consts::messages;
use muster_api::train::paths::train_job as path;
use muster_api::train::{RuntimeKind, RuntimeRef, TrainJobFacts, snapshot_name};
use muster_schema::admission::aggregate;
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::Tree;

use super::review::TrainJobReview;
use super::runtime::is_deprecated;
use super::{Answer, TrainingReview, jobset, policies, torchtune};
use crate::controller::snapshot;

/// A TrainJob with a shorter TTL may be deleted before a client reads its result: the response has a warning.
const TTL_SHORT_SECS: u32 = 60;
const PER_NODE: &str = "spec.trainer.resourcesPerNode";

pub(super) fn check(asked: &TrainingReview<'_>) -> Answer {
    let reference = RuntimeRef::of(asked.object);
    let mut warnings = short_life(asked);
    let Some(kind) = reference.runtime_kind() else {
        let words = messages::unsupported_runtime(&reference.kind, &reference.group);
        return Answer { refused: Some(words), warnings, ..Answer::default() };
    };
    let problems = match runtime(asked, kind, &reference) {
        Err(wrong) => vec![wrong],
        Ok(runtime) => {
            if kind == RuntimeKind::Cluster && is_deprecated(&runtime) {
                warnings.push(format!(
                    "Referenced ClusterTrainingRuntime {:?} is deprecated and will be removed in a future release",
                    reference.name.as_str()
                ));
            }
            findings(&TrainJobReview {
                namespace: asked.namespace,
                job: asked.object,
                old: asked.old,
                reference: &reference,
                runtime: &runtime,
                live: asked.live,
            })
        }
    };
    Answer { refused: aggregate(&problems), warnings, ..Answer::default() }
}

/// The problems that all rules find.
fn findings(sight: &TrainJobReview<'_>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    jobset::check(sight, &mut problems);
    policies::check(sight, &mut problems);
    torchtune::check(sight, &mut problems);
    let per_node =
        |job: &Tree| quantities::of_requirements(PER_NODE, job.at(&["spec", "trainer", "resourcesPerNode"]));
    // Problems that the stored object has already do not reject an update.
    let before = sight.old.map(per_node).unwrap_or_default();
    problems.extend(quantities::added(per_node(sight.job), &before));
    problems
}

/// The warning about a short TTL, for new TrainJobs only.
fn short_life(asked: &TrainingReview<'_>) -> Vec<String> {
    let ttl = TrainJobFacts::of(asked.object).ttl_secs.filter(|_| asked.old.is_none());
    let short = ttl.filter(|secs| *secs < TTL_SHORT_SECS);
    let warn = |secs: u32| {
        format!(
            "spec.ttlSecondsAfterFinished is {secs}, which is less than {TTL_SHORT_SECS} seconds: the TrainJob may be \
             deleted before its result can be looked at"
        )
    };
    short.map(warn).into_iter().collect()
}

/// The runtime. If it was deleted, an existing TrainJob is validated against its snapshot.
fn runtime(
    asked: &TrainingReview<'_>,
    kind: RuntimeKind,
    reference: &RuntimeRef,
) -> Result<Tree, FieldError> {
    // Clients know this spelling of the path, with the capital letter.
    let at = match kind {
        RuntimeKind::Namespaced => "spec.runtimeRef",
        RuntimeKind::Cluster => "spec.RuntimeRef",
    };
    let unknown = |why: String| FieldError::internal(at, why);
    let found = asked.live.runtime(kind, asked.namespace, &reference.name).map_err(unknown)?;
    if let Some(found) = found {
        return Ok(found);
    }
    // A TrainJob must be suspendable after its runtime was deleted.
    if let Some(old) = asked.old {
        let name = snapshot_name(&meta::name(old));
        let kept = asked.live.config_map(asked.namespace, &name).map_err(unknown)?;
        let kept = kept.and_then(|it| snapshot::read(&TrainJobFacts::of(old), &it).ok());
        if let Some(kept) = kept {
            return Ok(kept);
        }
    }
    let shown = asked.object.at(path::RUNTIME).cloned().unwrap_or_default();
    let why = format!("the {} must be created before the TrainJob is created", kind.word());
    Err(FieldError::invalid(at, shown, why))
}
