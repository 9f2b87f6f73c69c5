//! Runtimes without a policy of their own for it: number of nodes and the TrainJob's environment variables.

use muster_api::train::paths::runtime as runtime_path;

use crate::build::jobset_builder::JobSetBuilder;
use crate::build::lists::with_env;

pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) {
    let others = [runtime_path::TORCH, runtime_path::MPI, runtime_path::JAX];
    // These policies set both themselves.
    if others.iter().any(|path| draft.runtime.at(path).is_some()) {
        return;
    }
    draft.resize_trainer();
    let env = draft.env();
    draft.change_trainer(|container| with_env(container, env));
}
