//! Validates TrainJobs that run torchtune.

use muster_api::train::generated::torchtune::{LLAMA3_2_1B, LLAMA3_2_3B, LLAMA3_3_70B, MODELS, QWEN2_5_1_5B};
use muster_api::train::paths::{runtime, train_job, trainer};
use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::Problems;
use super::review::TrainJobReview;
use crate::build::policy::torchtune::{Mode, is_requested, managed_key, model};

/// The only model with a multi-node recipe.
const MULTI_NODE: &str = LLAMA3_3_70B;
/// The model without QLoRA recipes.
const UNQUANTIZED: &str = QWEN2_5_1_5B;
/// Models with a QLoRA recipe for a single device only.
const ONE_DEVICE_QUANTIZED: [&str; 2] = [LLAMA3_2_1B, LLAMA3_2_3B];

pub(super) fn check(sight: &TrainJobReview<'_>, problems: &mut Problems) {
    let is_torch = sight.runtime.at(runtime::TORCH).is_some_and(Tree::is_map);
    if !is_torch || !sight.job.at(train_job::TRAINER).is_some_and(is_requested) {
        return;
    }
    let args = sight.trainer(trainer::ARGS).map(Tree::items).unwrap_or_default();
    let mode = Mode::of(args);
    match model(&sight.reference.name).filter(|it| MODELS.contains(&it.as_str())) {
        Some(model) => tuned(sight, &model, mode, problems),
        None => {
            let why = "must have a supported pretrained model in its name, as torchtune-llama3.2-1b";
            problems.push(FieldError::invalid("spec.runtimeRef.name", &sight.reference.name, why));
        }
    }
    let nodes = sight.nodes();
    if mode != Mode::Full && nodes > 1 {
        let why = "LoRA and QLoRA are not supported for multi-node tuning: must be 1";
        problems.push(FieldError::invalid("spec.trainer.numNodes", nodes, why));
    }
    for (at, word) in args.iter().enumerate() {
        if let Some(key) = word.as_str().and_then(managed_key) {
            let why = format!("must not set immutable config {key}: the runtime says it");
            problems.push(FieldError::invalid(format!("spec.trainer.args[{at}]"), word, why));
        }
    }
}

/// Validates the scale and the method for this model.
fn tuned(sight: &TrainJobReview<'_>, model: &str, mode: Mode, problems: &mut Problems) {
    let nodes = sight.nodes();
    if nodes > 1 && model != MULTI_NODE {
        let why = format!("must be 1 for the model {model}");
        problems.push(FieldError::invalid("spec.trainer.numNodes", nodes, why));
    }
    if mode != Mode::Qlora {
        return;
    }
    if model == UNQUANTIZED {
        let why = format!("QLoRA is not supported for the model {model}");
        problems.push(FieldError::invalid("spec.trainer.args", model, why));
    }
    let procs = sight.trainer(trainer::PROCS).cloned();
    let one_device = procs.as_ref().and_then(Tree::as_int) == Some(1) || sight.gpus() == Some(1);
    if ONE_DEVICE_QUANTIZED.contains(&model) && !one_device {
        let why = format!("must be auto or 1 for QLoRA of the model {model}");
        let procs = procs.unwrap_or_else(|| "auto".into());
        problems.push(FieldError::invalid("spec.trainer.numProcPerNode", procs, why));
        let resources = sight.trainer(trainer::RESOURCES).cloned().unwrap_or_default();
        let why = format!("must have gpu resource with value 1 for QLoRA of the model {model}");
        problems.push(FieldError::invalid("spec.trainer.resourcesPerNode", resources, why));
    }
}
