//! The runtime of a TrainJob as it found it: later changes of the runtime do not reach it.

use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::train::words::{API_VERSION, GROUP, SNAPSHOT_KEY};
use muster_api::train::{self, TrainJobFacts};
use muster_tree::{Tree, tree};

use crate::build::BuildError;

/// Of which runtime a TrainJob is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// The runtime.
    pub runtime: Tree,
    /// The ConfigMap that is to keep it, where there is none yet.
    pub snapshot: Option<Tree>,
}

/// Of which runtime a TrainJob is made: the one it kept, else the one there is.
///
/// # Errors
/// What it kept cannot be used, or there is none; the words are for an event.
pub fn find(
    job: &TrainJobFacts,
    snapshot: Option<&Tree>,
    runtime: Option<&Tree>,
) -> Result<Source, BuildError> {
    if let Some(kept) = snapshot {
        return Ok(Source { runtime: read(job, kept)?, snapshot: None });
    }
    let Some(runtime) = runtime else {
        let words = format!("{} {:?} not found", job.runtime.kind, job.runtime.name.as_str());
        return Err(BuildError(words));
    };
    let runtime = kept(job, runtime);
    let snapshot = train::snapshot(job, &runtime);
    Ok(Source { runtime, snapshot: Some(snapshot) })
}

/// The runtime in a ConfigMap.
///
/// # Errors
/// It is not this TrainJob's, or holds no runtime, or another one.
pub fn read(job: &TrainJobFacts, snapshot: &Tree) -> Result<Tree, BuildError> {
    let name = meta::name(snapshot);
    let wrong = |words: String| Err(BuildError(format!("runtime snapshot {:?} {words}", name.as_str())));
    if meta::controller(snapshot).is_none_or(|owner| owner.uid != job.uid) {
        return wrong("is owned by another object".to_owned());
    }
    let Some(text) = snapshot.at(&["data", SNAPSHOT_KEY]).and_then(Tree::as_str) else {
        return wrong(format!("is missing the key {SNAPSHOT_KEY:?}"));
    };
    let runtime = match Tree::parse_yaml(text) {
        Ok(runtime) if runtime.is_map() => runtime,
        Ok(_) => return wrong("cannot be read: unable to unmarshal it into an object".to_owned()),
        Err(why) => return wrong(format!("cannot be read: unable to unmarshal it: {why}")),
    };
    let api_version = runtime.str_at(&["apiVersion"]);
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let asked = &job.runtime;
    let same =
        meta::kind_word(&runtime) == asked.kind && group == asked.group && meta::name(&runtime) == asked.name;
    if same { Ok(runtime) } else { wrong("refers to the wrong runtime".to_owned()) }
}

/// Annotation in which kubectl keeps all that was applied: the object twice.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What is kept of a runtime: what it is, not what became of it.
fn kept(job: &TrainJobFacts, runtime: &Tree) -> Tree {
    let part = |path: &[&str]| runtime.at(path).cloned().filter(|it| !it.is_empty());
    debug_assert_eq!(job.runtime.group, GROUP, "other runtimes are not made into anything");
    tree!({"apiVersion": API_VERSION, "kind": &job.runtime.kind, "metadata": {"name": meta::name(runtime)}})
        .with_option(meta_path::NAMESPACE, part(meta_path::NAMESPACE))
        .with_option(meta_path::LABELS, part(meta_path::LABELS))
        .with_option(
            meta_path::ANNOTATIONS,
            part(meta_path::ANNOTATIONS).map(|it| it.without_key(LAST_APPLIED)),
        )
        .with_option(&["spec"], part(&["spec"]))
}
