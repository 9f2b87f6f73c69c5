//! What a TrainJob is made into, and how much of it is written: what runs is left alone, what did not change too.

use muster_api::gang_make::words::{GROUP_KIND, WORKLOAD_KIND};
use muster_api::meta;
use muster_api::paths::jobset;
use muster_api::train::TrainJobFacts;
use muster_api::words::jobset::KIND as JOB_SET;
use muster_tree::Tree;

use super::snapshot;
use crate::build::{BuildError, Built};

const SECRET: &str = "Secret";

/// What a TrainJob is made into.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Made {
    /// The ConfigMap that keeps its runtime, where there is none yet.
    pub snapshot: Option<Tree>,
    /// The rest.
    pub built: Built,
}

impl Made {
    /// What a TrainJob is made into: of the runtime in its snapshot, or where there is none of the runtime as it is now,
    /// which is kept from then on.
    ///
    /// # Errors
    /// It cannot be made; the words are for an event.
    pub fn of(
        job: &TrainJobFacts,
        snapshot: Option<&Tree>,
        runtime: Option<&Tree>,
        build: impl FnOnce(&Tree) -> Result<Built, BuildError>,
    ) -> Result<Made, BuildError> {
        let source = snapshot::find(job, snapshot, runtime)?;
        Ok(Made { built: build(&source.runtime)?, snapshot: source.snapshot })
    }
}

/// What there is already.
pub trait Around {
    /// The object of this object's kind and name.
    fn existing(&self, object: &Tree) -> Option<Tree>;

    /// What was applied to it last, if that is remembered: then what is left out now is known to be gone.
    fn applied(&self, object: &Tree) -> Option<Tree>;
}

/// Where objects are applied.
pub(super) struct Setting<'a> {
    pub job: &'a TrainJobFacts,
    /// The JobSet of its name.
    pub set: Option<&'a Tree>,
    pub around: &'a dyn Around,
}

impl Setting<'_> {
    /// What is to be applied.
    pub fn applied(&self, made: &Made) -> Result<Vec<Tree>, BuildError> {
        let is_stranger = |set: &&Tree| meta::controller(set).is_none_or(|owner| owner.uid != self.job.uid);
        if let Some(set) = self.set.filter(is_stranger) {
            let words = format!("jobset {:?} exists and is not this TrainJob's", meta::name(set).as_str());
            return Err(BuildError(words));
        }
        let all = made.snapshot.iter().chain(&made.built.objects);
        Ok(all.filter(|object| self.is_wanted(object)).cloned().collect())
    }

    fn is_wanted(&self, object: &Tree) -> bool {
        let is_set = meta::kind_word(object) == JOB_SET;
        let there = if is_set { self.set.cloned() } else { self.around.existing(object) };
        let Some(there) = there else { return true };
        let left_alone = match meta::kind_word(object).as_str() {
            _ if meta::deleting(&there).is_some() => true,
            JOB_SET => !self.job.suspend && there.bool_at(jobset::SUSPEND) != Some(true),
            GROUP_KIND | WORKLOAD_KIND => !self.job.suspend,
            // Keys are made by chance: those that pods have are kept.
            SECRET => true,
            _ => false,
        };
        !left_alone && !self.is_written(object, &there)
    }

    /// Whether an object is there as it would be applied.
    fn is_written(&self, object: &Tree, there: &Tree) -> bool {
        self.around.applied(object).is_some_and(|last| last == *object) && covers(there, object)
    }
}

/// Whether everything that is wanted is there; more may be.
fn covers(there: &Tree, wanted: &Tree) -> bool {
    match (there, wanted) {
        (Tree::Map(_), Tree::Map(_)) => {
            wanted.entries().iter().all(|(key, below)| there.get(key).is_some_and(|it| covers(it, below)))
        }
        (Tree::List(_), Tree::List(_)) => {
            let (there, wanted) = (there.items(), wanted.items());
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(it, want)| covers(it, want))
        }
        _ => there == wanted,
    }
}
