//! torchtune: which recipe tunes which model, told by the runtime's name, the devices and the arguments.
//!
//! Admission asks the same functions about what it refuses.

use muster_api::paths::container;
use muster_api::train::made::torchtune as words;
use muster_api::train::paths::trainer;
use muster_tree::{Text, Tree};

use super::torch::Procs;
use crate::build::Error;
use crate::build::draft::Draft;
use crate::build::resources::gpus;

/// What is trained of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All of it.
    Full,
    /// A small addition to it.
    Lora,
    /// The same, beside a model whose numbers are kept short.
    Qlora,
}

impl Mode {
    /// What arguments ask for.
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

/// On how much it is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// One device.
    Device,
    /// The devices of one node.
    Node,
    /// Several nodes.
    Nodes,
}

impl Scale {
    /// For so many nodes, with so many processes and GPUs each.
    #[must_use]
    pub fn of(nodes: u32, procs: Procs, gpus: u32) -> Scale {
        match nodes {
            2.. => Scale::Nodes,
            _ if procs == Procs::Number(1) || gpus == 1 => Scale::Device,
            _ => Scale::Node,
        }
    }
}

/// Whether a trainer asks for torchtune: by this very command.
#[must_use]
pub fn is_meant(said: &Tree) -> bool {
    let command = said.items_at(trainer::COMMAND).iter().map(Tree::as_str);
    command.eq(words::ENTRYPOINT.into_iter().map(Some))
}

/// The model that a runtime's name speaks of: `torchtune-llama3.2-1b` is for `llama3_2/1B`.
#[must_use]
pub fn model(runtime: &str) -> Option<Text> {
    let parts: Vec<&str> = runtime.split('-').collect();
    let [_, family, size] = parts[..] else { return None };
    Some(Text::from(format!("{}/{}", family.replace('.', "_"), size.to_uppercase())))
}

/// The recipe, and what the name of its configuration ends with. Several nodes train all of a model or nothing.
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

/// What is said of a word of the form `key=value` that the runtime decides.
#[must_use]
pub fn managed_key(word: &str) -> Option<&'static str> {
    let key = word.split_once('=').map_or(word, |(key, _)| key);
    words::MANAGED.into_iter().find(|managed| *managed == key)
}

/// The whole command; arguments stay those of the TrainJob.
pub(super) fn command(draft: &Draft<'_>, nodes: u32, procs: Procs) -> Result<Tree, Error> {
    let runtime = &draft.facts.runtime.name;
    let model = model(runtime).ok_or_else(|| Error::NoModel { runtime: runtime.clone() })?;
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
    let managed = own.iter().filter(|word| word.as_str().is_some_and(|word| managed_key(word).is_some()));
    let mut all: Vec<Tree> = words::ENTRYPOINT.into_iter().map(Tree::from).collect();
    all.extend(meeting_point.map(Tree::from));
    all.extend([Tree::from(recipe), words::CONFIG.into(), format!("{model}{suffix}").into()]);
    all.extend(managed.cloned());
    Ok(Tree::list(all))
}
