//! The objects of a TrainJob, and which of them are applied: not those that run or did not change.

use muster_api::consts::jobset::KIND as JOB_SET;
use muster_api::gang_objects::consts::{GROUP_KIND, WORKLOAD_KIND};
use muster_api::meta;
use muster_api::paths::jobset;
use muster_api::train::TrainJobFacts;
use muster_tree::Tree;

use super::snapshot;
use crate::build::{BuildError, BuiltObjects};

const SECRET: &str = "Secret";

/// The desired objects of a TrainJob.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DesiredObjects {
    /// The ConfigMap with the runtime snapshot, if it does not exist yet.
    pub snapshot: Option<Tree>,
    pub built: BuiltObjects,
}

impl DesiredObjects {
    /// Builds from the runtime in the snapshot. If there is none it builds from the current runtime, and snapshots
    /// that.
    ///
    /// # Errors
    /// The runtime does not exist, the snapshot is invalid or the build fails; the text is for an event.
    pub fn of(
        job: &TrainJobFacts,
        snapshot: Option<&Tree>,
        runtime: Option<&Tree>,
        build: impl FnOnce(&Tree) -> Result<BuiltObjects, BuildError>,
    ) -> Result<DesiredObjects, BuildError> {
        let source = snapshot::find(job, snapshot, runtime)?;
        Ok(DesiredObjects { built: build(&source.runtime)?, snapshot: source.snapshot })
    }
}

/// Reads existing objects from the cache.
pub trait ChildLister {
    /// The live object of the same kind and name.
    fn existing(&self, object: &Tree) -> Option<Tree>;

    /// The object as it was last applied, if that is known: only then is a field that is no longer built noticed.
    fn last_applied(&self, object: &Tree) -> Option<Tree>;
}

/// What the desired objects are compared with.
pub(super) struct ApplyContext<'a> {
    pub job: &'a TrainJobFacts,
    /// The live JobSet of the same name, whatever its owner is.
    pub set: Option<&'a Tree>,
    pub around: &'a dyn ChildLister,
}

impl ApplyContext<'_> {
    /// The objects to apply.
    pub fn applied(&self, made: &DesiredObjects) -> Result<Vec<Tree>, BuildError> {
        let is_stranger =
            |set: &&Tree| meta::controller_of(set).is_none_or(|owner| owner.uid != self.job.uid);
        // A forced apply would take over fields of a JobSet that another object owns.
        if let Some(set) = self.set.filter(is_stranger) {
            let words = format!("jobset {:?} exists and is not this TrainJob's", meta::name(set).as_str());
            return Err(BuildError(words));
        }
        let all = made.snapshot.iter().chain(&made.built.objects);
        Ok(all.filter(|object| self.is_wanted(object)).cloned().collect())
    }

    fn is_wanted(&self, object: &Tree) -> bool {
        let is_set = meta::kind_name(object) == JOB_SET;
        let there = if is_set { self.set.cloned() } else { self.around.existing(object) };
        let Some(there) = there else { return true };
        let left_alone = match meta::kind_name(object).as_str() {
            // What is applied to an object that is being deleted is lost: its deletion triggers another
            // reconciliation.
            _ if meta::deletion_timestamp(&there).is_some() => true,
            // A running JobSet is left alone. It is applied if the TrainJob or the JobSet is suspended.
            JOB_SET => !self.job.suspend && there.bool_at(jobset::SUSPEND) != Some(true),
            GROUP_KIND | WORKLOAD_KIND => !self.job.suspend,
            // SSH keys are random: new ones would differ from those in running pods.
            SECRET => true,
            _ => false,
        };
        !left_alone && !self.is_written(object, &there)
    }

    /// Whether the object was applied as it is, and no field of it was changed since.
    fn is_written(&self, object: &Tree, there: &Tree) -> bool {
        self.around.last_applied(object).is_some_and(|last| last == *object) && is_superset(there, object)
    }
}

/// Whether `there` contains all of `wanted`; its maps may contain more.
fn is_superset(there: &Tree, wanted: &Tree) -> bool {
    match (there, wanted) {
        (Tree::Map(_), Tree::Map(_)) => wanted
            .entries()
            .iter()
            .all(|(key, below)| there.get(key).is_some_and(|it| is_superset(it, below))),
        (Tree::List(_), Tree::List(_)) => {
            let (there, wanted) = (there.items(), wanted.items());
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(it, want)| is_superset(it, want))
        }
        _ => there == wanted,
    }
}
