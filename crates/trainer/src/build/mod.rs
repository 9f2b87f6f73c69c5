//! Builds the JobSet, and the objects beside it, of a TrainJob and its runtime.
//!
//! The runtimePatches are merged into the template of the runtime ([`merge_runtime_patches`]); then the ML policy
//! ([`policy`]), the pod group policy, progress reporting and the fields of the TrainJob apply. Queueing calls the
//! same function for the pod sets of a suspended TrainJob.
//!
//! # Guarantees
//!
//! - [`build`] is pure: SSH keys and certificates are inputs, and equal input gives equal output, down to the order
//!   of lists.
//! - The result contains only fields that we own: it is applied as it is. Objects that pods need come before the JobSet.
//! - The order is fixed: runtimePatches, ML policy, pod group policy, progress reporting, initializers,
//!   `spec.trainer`. If two of them set the same field, the later one wins.
//!
//! # Deliberately absent
//!
//! Validation, see [`crate::kinds::admission`]; which objects are applied and when, see [`crate::controller`].

pub mod immutability;
mod jobset;
mod jobset_builder;
mod lists;
mod patches;
mod pod_groups;
mod pod_sets;
pub mod policy;
mod progress;
mod resources;

use std::fmt;

use muster_api::client::Uid;
use muster_api::gang::GangSupport;
use muster_api::queue::PodSet;
use muster_tree::{Text, Tree};

pub use patches::{merge_runtime_patches, unknown_job};
pub use policy::KeyPair;
pub use progress::Reporting;

use jobset_builder::JobSetBuilder;

/// The input of a build.
#[derive(Debug, Clone, Copy)]
pub struct BuildRequest<'a> {
    pub job: &'a Tree,
    /// Its runtime, from the snapshot that was taken when the TrainJob was first reconciled.
    pub runtime: &'a Tree,
    /// New SSH keys for MPI; `None` where the Secret exists, which never changes.
    pub keys: Option<KeyPair<'a>>,
    /// The gang API of the cluster, if any.
    pub gangs: Option<GangSupport>,
    /// The UID of the native Workload, once it exists.
    pub workload_uid: Option<&'a Uid>,
    /// The progress endpoint, if it is enabled.
    pub reporting: Option<Reporting<'a>>,
}

impl<'a> BuildRequest<'a> {
    /// A request with the optional parts unset.
    #[must_use]
    pub fn new(job: &'a Tree, runtime: &'a Tree) -> BuildRequest<'a> {
        BuildRequest { job, runtime, keys: None, gangs: None, workload_uid: None, reporting: None }
    }
}

/// The objects of a TrainJob, in the order in which they are applied: the JobSet is the last, so that what its pods mount
/// exists before them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BuiltObjects {
    /// Each with apiVersion, kind, name, namespace and owner reference.
    pub objects: Vec<Tree>,
}

impl BuiltObjects {
    #[must_use]
    pub fn jobset(&self) -> Option<&Tree> {
        self.objects.last()
    }

    /// Its pod sets for quota.
    #[must_use]
    pub fn pod_sets(&self) -> Vec<PodSet> {
        self.jobset().map(pod_sets::of).unwrap_or_default()
    }
}

/// Why a runtime or its patches cannot be built. The message is that of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// A patch conflicts with itself or the template.
    #[error("runtime patch of {manager} for replicated job {job}: {why}")]
    Patch { manager: Text, job: Text, why: String },
    /// A patch names a replicatedJob that the runtime does not have.
    #[error(
        "runtime patch of {manager} must not have replicated job that doesn't exist in the runtime: {job}"
    )]
    UnknownJob { manager: Text, job: Text },
    /// `envInjection` names a container that does not exist.
    #[error("envInjection target podSet {job} container {container} not found")]
    NoTarget { job: Text, container: Text },
    /// The runtime's name contains no pretrained model.
    #[error(
        "runtime {runtime} must have a supported pretrained model in its name, as in torchtune-llama3.2-1b"
    )]
    NoModel { runtime: Text },
    /// An MPI implementation other than OpenMPI.
    #[error("MPI implementation {name} isn't supported, only OpenMPI is")]
    Implementation { name: Text },
    /// The Flux policy needs `numNodes`.
    #[error("spec.trainer.numNodes is required by a Flux runtime")]
    NoNodes,
    /// The runtime asks for a Workload, and the cluster has no gang API.
    #[error("the runtime's podGroupPolicy asks for a Workload, and Workloads are not served here")]
    NoGangs,
}

/// Why the objects of a TrainJob cannot be built, as a message that fits an event after a colon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildError(pub String);

impl BuildError {
    pub fn new(words: impl Into<String>) -> BuildError {
        BuildError(words.into())
    }
}

impl From<RuntimeError> for BuildError {
    fn from(error: RuntimeError) -> BuildError {
        BuildError(error.to_string())
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BuildError {}

/// Builds the objects of a TrainJob.
///
/// # Errors
/// The runtime or a patch is invalid; a retry helps only after one of them changed.
pub fn build(asked: &BuildRequest<'_>) -> Result<BuiltObjects, RuntimeError> {
    let mut draft = JobSetBuilder::of(asked.job, asked.runtime)?;
    policy::enforce(&mut draft)?;
    policy::build(&mut draft, asked);
    // After the policies: groups count the pods that they set.
    pod_groups::build(&mut draft, asked)?;
    if let Some(to) = asked.reporting {
        progress::build(&mut draft, to);
    }
    let jobset = jobset::build(&mut draft);
    let mut objects = draft.beside;
    // The JobSet is last: its pods mount the objects before it.
    objects.push(jobset);
    Ok(BuiltObjects { objects })
}
