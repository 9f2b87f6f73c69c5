//! The JAX policy: number of processes, process id and coordinator address as environment variables.

use muster_api::train::consts::{TRAINER_PORT, env};
use muster_api::train::paths::runtime as runtime_path;

use crate::build::jobset_builder::JobSetBuilder;
use crate::build::lists::{rank, variable, with_env, with_port};

pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) {
    if draft.runtime.at(runtime_path::JAX).is_none() {
        return;
    }
    draft.resize_trainer();
    let (Some(set), Some(_)) = (draft.trainer_set(), draft.trainer()) else { return };
    let told = [
        variable(env::JAX_NUM_PROCESSES, set.count.to_string()),
        rank(env::JAX_PROCESS_ID),
        variable(env::JAX_COORDINATOR_ADDRESS, draft.head_with_port()),
    ];
    draft.change_trainer(|container| with_port(&with_env(container, &told), TRAINER_PORT.into()));
}
