//! How the pods of a TrainJob find each other: one file for each framework.
//!
//! All run in one order, each where the runtime has its policy. A TrainJob that says nothing of a trainer gets nothing
//! put into that container.

mod flux;
mod jax;
mod mpi;
mod plain;
mod torch;
pub mod torchtune;
mod xgboost;

pub use mpi::KeyPair;
pub use torch::Procs;

use super::draft::Draft;
use super::{Asked, Error};

/// Puts into the draft what its frameworks need.
pub(super) fn enforce(draft: &mut Draft<'_>) -> Result<(), Error> {
    torch::enforce(draft)?;
    mpi::enforce(draft)?;
    jax::enforce(draft);
    xgboost::enforce(draft);
    flux::enforce(draft)?;
    plain::enforce(draft);
    Ok(())
}

/// Makes what has to be there before the pods. Numbers of pods are settled.
pub(super) fn build(draft: &mut Draft<'_>, asked: &Asked<'_>) {
    mpi::build(draft, asked.keys);
    flux::build(draft);
}
