//! torchtune: selects recipe and configuration by the runtime's name, the devices and the arguments.
//!
//! Admission validates with the same functions.

use muster_api::paths::container;
use muster_api::train::generated::torchtune as words;
use muster_api::train::paths::trainer;
use muster_tree::{Text, Tree};

use super::torch::Procs;
use crate::build::RuntimeError;
use crate::build::jobset_builder::JobSetBuilder;
use crate::build::resources::gpus;

/// The fine-tuning method, by the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Full,
    /// Low-rank adapters beside the frozen weights.
    Lora,
    /// Low-rank adapters beside quantized weights.
    Qlora,
}

impl Mode {
    /// The method that the arguments select.
    #[must_use]
    pub fn of(args: &[Tree]) -> Mode {
        let words = || args.iter().filter_map(Tree::as_str);
        let is_true = |key: &str| {
            let pairs = words().filter_map(|word| word.split_once('='));
            pairs.into_iter().any(|(name, value)| name.contains(key) && value.eq_ignore_ascii_case("true"))
        };
        if is_true(words::QUANTIZE) && !is_true(words::DORA) {
            return Mode::Qlora;
        }
        if words().any(|word| word.contains(words::LORA)) { Mode::Lora } else { Mode::Full }
    }
}

/// The scale of a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Device,
    /// All devices of one node.
    Node,
    Nodes,
}

impl Scale {
    /// For this number of nodes, and processes and GPUs per node.
    #[must_use]
    pub fn of(nodes: u32, procs: Procs, gpus: u32) -> Scale {
        match nodes {
            2.. => Scale::Nodes,
            _ if procs == Procs::Number(1) || gpus == 1 => Scale::Device,
            _ => Scale::Node,
        }
    }
}

/// Whether a trainer uses torchtune: its command is exactly torchtune's entry point.
#[must_use]
pub fn is_requested(said: &Tree) -> bool {
    let command = said.items_at(trainer::COMMAND).iter().map(Tree::as_str);
    command.eq(words::ENTRYPOINT.into_iter().map(Some))
}

/// The model in a runtime's name: `torchtune-llama3.2-1b` is for `llama3_2/1B`.
#[must_use]
pub fn model(runtime: &str) -> Option<Text> {
    let parts: Vec<&str> = runtime.split('-').collect();
    let [_, family, size] = parts[..] else { return None };
    Some(Text::from(format!("{}/{}", family.replace('.', "_"), size.to_uppercase())))
}

/// The recipe, and the suffix of its configuration. Multi-node recipes support full fine-tuning only.
#[must_use]
pub fn recipe(mode: Mode, scale: Scale) -> (&'static str, &'static str) {
    match (scale, mode) {
        (Scale::Nodes, _) => ("full_finetune_distributed", "_full_multinode"),
        (Scale::Node, Mode::Full) => ("full_finetune_distributed", "_full"),
        (Scale::Node, Mode::Lora) => ("lora_finetune_distributed", "_lora"),
        (Scale::Node, Mode::Qlora) => ("lora_finetune_distributed", "_qlora"),
        (Scale::Device, Mode::Full) => ("full_finetune_single_device", "_full_single_device"),
        (Scale::Device, Mode::Lora) => ("lora_finetune_single_device", "_lora_single_device"),
        (Scale::Device, Mode::Qlora) => ("lora_finetune_single_device", "_qlora_single_device"),
    }
}

/// The key of a `key=value` argument that the runtime manages.
#[must_use]
pub fn managed_key(word: &str) -> Option<&'static str> {
    let key = word.split_once('=').map_or(word, |(key, _)| key);
    words::MANAGED.into_iter().find(|managed| *managed == key)
}

/// The whole command; the arguments remain those of the TrainJob.
pub(super) fn command(draft: &JobSetBuilder<'_>, nodes: u32, procs: Procs) -> Result<Tree, RuntimeError> {
    let runtime = &draft.facts.runtime.name;
    let model = model(runtime).ok_or_else(|| RuntimeError::NoModel { runtime: runtime.clone() })?;
    let gpus = draft.trainer_container().map_or(0, gpus);
    let args = draft.trainer().map(|it| it.items_at(trainer::ARGS)).unwrap_or_default();
    let (recipe, suffix) = recipe(Mode::of(args), Scale::of(nodes, procs, gpus));
    let meets = match procs {
        Procs::Number(number) => number > 1,
        Procs::Auto => gpus > 1,
    };
    let meeting_point =
        (nodes > 1 || meets).then(|| format!("{}={}", words::MEETING_POINT, draft.head_with_port()));
    let own = draft.trainer_container().map(|it| it.items_at(container::COMMAND)).unwrap_or_default();
    // Managed keys come from the runtime alone: admission rejects them in the arguments of a TrainJob.
    let managed = own.iter().filter(|word| word.as_str().is_some_and(|word| managed_key(word).is_some()));
    let mut all: Vec<Tree> = words::ENTRYPOINT.into_iter().map(Tree::from).collect();
    all.extend(meeting_point.map(Tree::from));
    all.extend([Tree::from(recipe), words::CONFIG.into(), format!("{model}{suffix}").into()]);
    all.extend(managed.cloned());
    Ok(Tree::list(all))
}
