//! The runtime as a TrainJob first found it: what is kept of it, and how it is found again.
//!
//! A TrainJob stays with the runtime it began with, whatever becomes of that.

use muster_api::meta;
use muster_api::paths::{config_map, meta as meta_path};
use muster_api::train::words::SNAPSHOT_KEY;
use muster_api::train::{TrainJobFacts, snapshot};
use muster_tree::{Text, Tree, tree};

/// Annotation in which kubectl keeps all that was applied: the object twice.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why a snapshot is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSnapshot {
    /// The ConfigMap is another's.
    #[error("ConfigMap {name} is owned by another object")]
    Foreign {
        /// Its name.
        name: Text,
    },
    /// It says nothing.
    #[error("ConfigMap {name} is missing the key {SNAPSHOT_KEY:?}")]
    Empty {
        /// Its name.
        name: Text,
    },
    /// It says something else.
    #[error("unable to unmarshal the runtime in ConfigMap {name}: {why}")]
    Unreadable {
        /// Its name.
        name: Text,
        /// What is wrong.
        why: String,
    },
    /// It is the snapshot of something else.
    #[error("ConfigMap {name} refers to the wrong runtime: {has} instead of {wants}")]
    Other {
        /// Its name.
        name: Text,
        /// Kind, group and name of what it has.
        has: String,
        /// Of what the TrainJob names.
        wants: String,
    },
}

/// The ConfigMap that keeps a runtime for a TrainJob: what it is called and what it says, not who wrote it when.
#[must_use]
pub fn of(job: &TrainJobFacts, runtime: &Tree) -> Tree {
    let keys =
        [meta_path::NAME, meta_path::NAMESPACE, meta_path::UID, meta_path::LABELS, meta_path::ANNOTATIONS];
    let runtime = runtime.without(&[meta_path::ANNOTATIONS, &[LAST_APPLIED]].concat());
    let kept = tree!({"apiVersion": runtime.text_at(&["apiVersion"]), "kind": meta::kind_word(&runtime)});
    let kept = keys.iter().fold(kept, |kept, path| match runtime.at(path).filter(|it| !it.is_empty()) {
        Some(value) => kept.with(path, value),
        None => kept,
    });
    let kept = kept.with_option(&["spec"], runtime.get("spec").cloned());
    snapshot(job, &kept)
}

/// The runtime in a snapshot.
///
/// # Errors
/// The snapshot is not this TrainJob's, or not of the runtime that it names.
pub fn read(job: &TrainJobFacts, snapshot: &Tree) -> Result<Tree, BadSnapshot> {
    let name = meta::name(snapshot);
    if meta::controller(snapshot).is_none_or(|owner| owner.uid != job.uid) {
        return Err(BadSnapshot::Foreign { name });
    }
    let text = snapshot.at(config_map::DATA).and_then(|data| data.get(SNAPSHOT_KEY)?.as_str());
    let Some(text) = text else { return Err(BadSnapshot::Empty { name }) };
    let runtime = match Tree::parse_yaml(text) {
        Ok(runtime) if runtime.is_map() => runtime,
        Ok(other) => {
            let why = format!("it is no object but {}", other.type_word());
            return Err(BadSnapshot::Unreadable { name, why });
        }
        Err(why) => return Err(BadSnapshot::Unreadable { name, why: why.to_string() }),
    };
    let group = runtime.str_at(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    let has = called(&meta::kind_word(&runtime), group, &meta::name(&runtime));
    let wants = called(&job.runtime.kind, &job.runtime.group, &job.runtime.name);
    if has == wants { Ok(runtime) } else { Err(BadSnapshot::Other { name, has, wants }) }
}

fn called(kind: &str, group: &str, name: &str) -> String {
    format!("{kind}.{group} {name}")
}
