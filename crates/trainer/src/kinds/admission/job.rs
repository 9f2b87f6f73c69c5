//! What TrainJobs may say.

use muster_api::meta;
use muster_api::train::paths::train_job as path;
use muster_api::train::words::messages;
use muster_api::train::{RuntimeKind, RuntimeRef, TrainJobFacts, snapshot_name};
use muster_schema::admission::aggregate;
use muster_schema::error::FieldError;
use muster_schema::quantities;
use muster_tree::Tree;

use super::runtime::is_deprecated;
use super::sight::Sight;
use super::{Answer, Asked, jobset, policies, tune};
use crate::life::snapshot;

/// Whoever stays for a shorter time may be gone before anybody looks.
const TTL_SHORT_SECS: u32 = 60;
const PER_NODE: &str = "spec.trainer.resourcesPerNode";

pub(super) fn check(asked: &Asked<'_>) -> Answer {
    let reference = RuntimeRef::of(asked.object);
    let mut warnings = short_life(asked);
    let Some(kind) = reference.known() else {
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
            findings(&Sight {
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

/// All rules, none of which keeps the others from being heard.
fn findings(sight: &Sight<'_>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    jobset::check(sight, &mut problems);
    policies::check(sight, &mut problems);
    tune::check(sight, &mut problems);
    let per_node =
        |job: &Tree| quantities::of_requirements(PER_NODE, job.at(&["spec", "trainer", "resourcesPerNode"]));
    let before = sight.old.map(per_node).unwrap_or_default();
    problems.extend(quantities::added(per_node(sight.job), &before));
    problems
}

/// A new TrainJob that vanishes soon after its end.
fn short_life(asked: &Asked<'_>) -> Vec<String> {
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

/// The runtime; where it is gone, a TrainJob that is there already is judged by the one it was made of.
fn runtime(asked: &Asked<'_>, kind: RuntimeKind, reference: &RuntimeRef) -> Result<Tree, FieldError> {
    // The capital letter is what clients know.
    let at = match kind {
        RuntimeKind::Namespaced => "spec.runtimeRef",
        RuntimeKind::Cluster => "spec.RuntimeRef",
    };
    let unknown = |why: String| FieldError::internal(at, why);
    let found = asked.live.runtime(kind, asked.namespace, &reference.name).map_err(unknown)?;
    if let Some(found) = found {
        return Ok(found);
    }
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
