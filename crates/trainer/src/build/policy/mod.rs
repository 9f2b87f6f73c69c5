//! ML policies: rendezvous of the training processes, one module per framework.
//!
//! They run in one order, each where the runtime has its policy. A TrainJob without `spec.trainer` gets no environment
//! variables in the trainer's container.

mod flux;
mod jax;
mod mpi;
mod plain;
mod torch;
pub mod torchtune;
mod xgboost;

pub use mpi::KeyPair;
pub use torch::Procs;

use super::jobset_builder::JobSetBuilder;
use super::{BuildRequest, RuntimeError};

/// Applies the runtime's policies.
pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) -> Result<(), RuntimeError> {
    torch::enforce(draft)?;
    mpi::enforce(draft)?;
    jax::enforce(draft);
    xgboost::enforce(draft);
    flux::enforce(draft)?;
    plain::enforce(draft);
    Ok(())
}

/// Creates the objects that the pods mount; pod counts must be final.
pub(super) fn build(draft: &mut JobSetBuilder<'_>, asked: &BuildRequest<'_>) {
    mpi::build(draft, asked.keys);
    flux::build(draft);
}
