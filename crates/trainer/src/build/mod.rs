//! The JobSet, and what stands beside it, that a TrainJob and its runtime yield.
//!
//! The runtime's template is patched ([`merged`]), told of its framework ([`policy`]), grouped, and finished with what
//! the TrainJob says itself. Queues ask the same function for the pods of a TrainJob that does not run yet.
//!
//! # Invariants
//!
//! - [`build`] is pure: what it is asked is all it knows, keys and certificates included, and the same question has the
//!   same answer, down to the order of lists.
//! - What comes out is what we own and nothing else: it is applied as it is. Whatever pods need comes before the JobSet.
//! - Steps have one order: patches, frameworks, groups, reporting, initializers, what the trainer says. Where two say
//!   the same thing, the later one counts.
//!
//! # Deliberately absent
//!
//! What is refused (that is admission's, which asks here what patches come to), and who applies what when.

pub mod change;
mod draft;
mod groups;
mod jobset;
mod lists;
mod patches;
mod pod_sets;
pub mod policy;
mod progress;
mod resources;

use std::fmt;

use muster_api::gang::Gangs;
use muster_api::port::Uid;
use muster_api::queue::PodSet;
use muster_tree::{Text, Tree};

pub use patches::{merged, unknown_job};
pub use policy::KeyPair;
pub use progress::Reporting;

use draft::Draft;

/// Everything that a JobSet is made of.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// The TrainJob.
    pub job: &'a Tree,
    /// Its runtime, as the TrainJob first found it.
    pub runtime: &'a Tree,
    /// New keys for MPI; none where the Secret is there already, which never changes.
    pub keys: Option<KeyPair<'a>>,
    /// How gangs are spelled here; none where nobody knows them.
    pub gangs: Option<Gangs>,
    /// The UID of the Workload, once it is there.
    pub workload_uid: Option<&'a Uid>,
    /// Where training tells of itself; none where it does not.
    pub reporting: Option<Reporting<'a>>,
}

impl<'a> Asked<'a> {
    /// With nothing around the two.
    #[must_use]
    pub fn new(job: &'a Tree, runtime: &'a Tree) -> Asked<'a> {
        Asked { job, runtime, keys: None, gangs: None, workload_uid: None, reporting: None }
    }
}

/// What a TrainJob is made into, in the order in which it is applied: the JobSet comes last, so that what its pods need
/// is there before them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Built {
    /// The objects, each with apiVersion, kind, name, namespace and owner.
    pub objects: Vec<Tree>,
}

impl Built {
    /// The JobSet.
    #[must_use]
    pub fn jobset(&self) -> Option<&Tree> {
        self.objects.last()
    }

    /// What it asks of a queue.
    #[must_use]
    pub fn pod_sets(&self) -> Vec<PodSet> {
        self.jobset().map(pod_sets::of).unwrap_or_default()
    }
}

/// Why nothing can be built. The words are what its event says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A patch contradicts itself or the template.
    #[error("runtime patch of {manager} for replicated job {job}: {why}")]
    Patch {
        /// Who patches.
        manager: Text,
        /// What.
        job: Text,
        /// What is wrong.
        why: String,
    },
    /// A patch is for something that is not there.
    #[error(
        "runtime patch of {manager} must not have replicated job that doesn't exist in the runtime: {job}"
    )]
    UnknownJob {
        /// Who patches.
        manager: Text,
        /// What.
        job: Text,
    },
    /// A runtime tells a container that is not there.
    #[error("envInjection target podSet {job} container {container} not found")]
    NoTarget {
        /// Of which replicatedJob.
        job: Text,
        /// Which one.
        container: Text,
    },
    /// The runtime's name speaks of no model.
    #[error(
        "runtime {runtime} must have a supported pretrained model in its name, as in torchtune-llama3.2-1b"
    )]
    NoModel {
        /// The runtime.
        runtime: Text,
    },
    /// Another MPI than we know.
    #[error("MPI implementation {name} isn't supported, only OpenMPI is")]
    Implementation {
        /// Which.
        name: Text,
    },
    /// Flux needs to know how many nodes there are.
    #[error("spec.trainer.numNodes is required by a Flux runtime")]
    NoNodes,
    /// The runtime wants gangs, and nobody here knows any.
    #[error("the runtime's podGroupPolicy asks for a Workload, and Workloads are not served here")]
    NoGangs,
}

/// Why nothing can be made of a TrainJob, in words that fit an event after a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError(pub String);

impl BuildError {
    /// With these words.
    pub fn new(words: impl Into<String>) -> BuildError {
        BuildError(words.into())
    }
}

impl From<Error> for BuildError {
    fn from(error: Error) -> BuildError {
        BuildError(error.to_string())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

/// What a TrainJob becomes.
///
/// # Errors
/// The runtime or the patches cannot be followed; trying again helps only when one of them changes.
pub fn build(asked: &Asked<'_>) -> Result<Built, Error> {
    let mut draft = Draft::of(asked.job, asked.runtime)?;
    policy::enforce(&mut draft)?;
    policy::build(&mut draft, asked);
    groups::build(&mut draft, asked)?;
    if let Some(to) = asked.reporting {
        progress::build(&mut draft, to);
    }
    let jobset = jobset::build(&mut draft);
    let mut objects = draft.beside;
    objects.push(jobset);
    Ok(Built { objects })
}
