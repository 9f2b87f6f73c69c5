//! No framework, or one that leaves these to us: how many nodes, and the variables of the TrainJob.

use muster_api::train::paths::runtime as runtime_path;

use crate::build::draft::Draft;
use crate::build::lists::with_env;

pub(super) fn enforce(draft: &mut Draft<'_>) {
    let others = [runtime_path::TORCH, runtime_path::MPI, runtime_path::JAX];
    if others.iter().any(|path| draft.runtime.at(path).is_some()) {
        return;
    }
    draft.resize_trainer();
    let env = draft.env();
    draft.change_trainer(|container| with_env(container, env));
}
