//! The PyTorch policy: nodes, processes per node, node rank and master address in torchrun's `PET_*` variables.

use muster_api::train::consts::{TRAINER_PORT, env};
use muster_api::train::paths::{env_target, runtime as runtime_path, trainer};
use muster_tree::{Text, Tree};

use super::torchtune;
use crate::build::RuntimeError;
use crate::build::jobset_builder::{JobSetBuilder, TrainerCommand};
use crate::build::lists::{rank, variable, with_env, with_port};
use crate::build::resources::{cpus, gpus};

/// Processes per node, `--nproc-per-node` of torchrun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Procs {
    Number(u32),
    /// One per GPU, which torchrun determines.
    Auto,
}

impl Procs {
    /// `numProcPerNode` of the TrainJob, else one per GPU, else one per CPU of the container.
    #[must_use]
    pub fn of(said: Option<u32>, container: Option<&Tree>) -> Procs {
        match (said, container) {
            (Some(number), _) => Procs::Number(number),
            (None, Some(container)) if gpus(container) == 0 => Procs::Number(cpus(container)),
            (None, None) => Procs::Number(1),
            (None, Some(_)) => Procs::Auto,
        }
    }
}

impl std::fmt::Display for Procs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Procs::Number(number) => number.fmt(f),
            Procs::Auto => f.write_str("auto"),
        }
    }
}

pub(super) fn enforce(draft: &mut JobSetBuilder<'_>) -> Result<(), RuntimeError> {
    if draft.runtime.at(runtime_path::TORCH).is_none() {
        return Ok(());
    }
    draft.resize_trainer();
    let nodes = draft.trainer_set().map_or(1, |set| set.count);
    let procs = Procs::of(draft.procs(), draft.trainer_container());
    let told = [
        variable(env::PET_NNODES, nodes.to_string()),
        variable(env::PET_NPROC_PER_NODE, procs.to_string()),
        rank(env::PET_NODE_RANK),
        variable(env::PET_MASTER_ADDR, draft.head()),
        variable(env::PET_MASTER_PORT, TRAINER_PORT.to_string()),
    ];
    tell_targets(draft, &told)?;
    let Some(said) = draft.trainer() else { return Ok(()) };
    let is_tuned = torchtune::is_requested(said);
    // torchtune passes the master address as an argument.
    let told = if is_tuned { &told[..3] } else { &told[..] };
    let (env, port) = (draft.env(), i64::from(TRAINER_PORT));
    draft.change_trainer(|container| with_port(&with_env(&with_env(container, env), told), port));
    if is_tuned {
        let command = torchtune::command(draft, nodes, procs)?;
        draft.change_trainer(|container| container.with(trainer::COMMAND, command.clone()));
        draft.run = TrainerCommand::Command;
    }
    Ok(())
}

/// Adds the variables to the containers that `envInjection` targets.
fn tell_targets(draft: &mut JobSetBuilder<'_>, told: &[Tree]) -> Result<(), RuntimeError> {
    for target in draft.runtime.items_at(runtime_path::TORCH_TARGETS) {
        let job = target.text_at(env_target::JOB);
        for container in target.items_at(env_target::CONTAINERS).iter().filter_map(Tree::as_text) {
            tell_target(draft, &job, container, told)?;
        }
    }
    Ok(())
}

fn tell_target(
    draft: &mut JobSetBuilder<'_>,
    job: &Text,
    container: &Text,
    told: &[Tree],
) -> Result<(), RuntimeError> {
    let is_told = draft.set(job).is_some_and(|set| {
        set.change_container(container, |it| with_env(it, told))
            || set.change_init_container(container, |it| with_env(it, told))
    });
    if is_told {
        Ok(())
    } else {
        Err(RuntimeError::NoTarget { job: job.clone(), container: container.clone() })
    }
}
