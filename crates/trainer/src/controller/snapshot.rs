//! The runtime snapshot of a TrainJob, in a ConfigMap: later changes of the runtime do not affect the TrainJob.

use muster_api::meta;
use muster_api::paths::meta as meta_path;
use muster_api::train::consts::{API_VERSION, GROUP, SNAPSHOT_KEY};
use muster_api::train::{self, TrainJobFacts};
use muster_tree::{Tree, tree};

use crate::build::BuildError;

/// The runtime that a TrainJob is built from.
#[derive(Debug, Clone, PartialEq)]
pub struct RuntimeSource {
    pub runtime: Tree,
    /// The ConfigMap to create, if it does not exist yet.
    pub snapshot: Option<Tree>,
}

/// The runtime to build from: the one in the snapshot, else the current one.
///
/// # Errors
/// The snapshot is invalid, or the runtime does not exist; the text is for an event.
pub fn find(
    job: &TrainJobFacts,
    snapshot: Option<&Tree>,
    runtime: Option<&Tree>,
) -> Result<RuntimeSource, BuildError> {
    if let Some(kept) = snapshot {
        return Ok(RuntimeSource { runtime: read(job, kept)?, snapshot: None });
    }
    let Some(runtime) = runtime else {
        let words = format!("{} {:?} not found", job.runtime.kind, job.runtime.name.as_str());
        return Err(BuildError(words));
    };
    let runtime = kept(job, runtime);
    let snapshot = train::snapshot(job, &runtime);
    Ok(RuntimeSource { runtime, snapshot: Some(snapshot) })
}

/// Reads the runtime in a snapshot.
///
/// # Errors
/// Another object owns the ConfigMap, or it contains no runtime or a different one.
pub fn read(job: &TrainJobFacts, snapshot: &Tree) -> Result<Tree, BuildError> {
    let name = meta::name(snapshot);
    let wrong = |words: String| Err(BuildError(format!("runtime snapshot {:?} {words}", name.as_str())));
    // A tenant can create a ConfigMap of this name first: its content must not become the runtime.
    if meta::controller_of(snapshot).is_none_or(|owner| owner.uid != job.uid) {
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
        meta::kind_name(&runtime) == asked.kind && group == asked.group && meta::name(&runtime) == asked.name;
    if same { Ok(runtime) } else { wrong("refers to the wrong runtime".to_owned()) }
}

/// The annotation of kubectl with the whole applied object: it would double the size of a snapshot.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The part of a runtime that is snapshotted: name, labels, annotations and spec, without the metadata that API
/// servers set.
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
