//! The XGBoost policy: tracker address, worker id and number of workers.

use muster_api::train::consts::{TRAINER_PORT, env};
use muster_api::train::paths::runtime as runtime_path;

use crate::build::jobset_builder::JobSetBuilder;
use crate::build::lists::{rank, variable, with_env, with_port};
use crate::build::resources::gpus;

pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) {
    if draft.runtime.at(runtime_path::XGBOOST).is_none() {
        return;
    }
    draft.resize_trainer();
    let (Some(set), Some(container), Some(_)) =
        (draft.trainer_set(), draft.trainer_container(), draft.trainer())
    else {
        return;
    };
    // One worker per GPU; a node without GPUs is one worker.
    let workers = u64::from(set.count) * u64::from(gpus(container).max(1));
    let told = [
        variable(env::DMLC_TRACKER_URI, draft.head()),
        variable(env::DMLC_TRACKER_PORT, TRAINER_PORT.to_string()),
        rank(env::DMLC_TASK_ID),
        variable(env::DMLC_NUM_WORKER, workers.to_string()),
    ];
    draft.change_trainer(|container| with_port(&with_env(container, &told), TRAINER_PORT.into()));
}
