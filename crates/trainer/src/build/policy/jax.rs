//! JAX: how many processes there are, which one a pod is, and where the first one is.

use muster_api::train::paths::runtime as runtime_path;
use muster_api::train::words::{TRAINER_PORT, env};

use crate::build::draft::Draft;
use crate::build::lists::{rank, variable, with_env, with_port};

pub(super) fn enforce(draft: &mut Draft<'_>) {
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
