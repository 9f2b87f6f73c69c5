//! A TrainJob beside its runtime: what a rule can ask of both together.

use muster_api::paths::{container, mount, pod, replicated_job};
use muster_api::train::paths::{patch, patch_container, patch_job, runtime, train_job, trainer};
use muster_api::train::{Ancestor, RuntimeRef, gpu_count};
use muster_tree::{Text, Tree};

use super::Live;

/// What rules look at.
pub(super) struct Sight<'a> {
    /// Namespace of the TrainJob.
    pub namespace: &'a Text,
    /// The TrainJob as it would be.
    pub job: &'a Tree,
    /// As it is.
    pub old: Option<&'a Tree>,
    /// Which runtime it names.
    pub reference: &'a RuntimeRef,
    /// Its runtime.
    pub runtime: &'a Tree,
    /// Other objects.
    pub live: &'a dyn Live,
}

impl<'a> Sight<'a> {
    /// The replicatedJobs of the runtime.
    pub fn jobs(&self) -> &'a [Tree] {
        self.runtime.items_at(runtime::JOBS)
    }

    /// The replicatedJob of this name.
    pub fn named(&self, name: &str) -> Option<&'a Tree> {
        self.jobs().iter().find(|job| job.str_at(replicated_job::NAME) == name)
    }

    /// What others change.
    pub fn patches(&self) -> &'a [Tree] {
        self.job.items_at(train_job::PATCHES)
    }

    /// The runtime's reference as messages show it.
    pub fn shown(&self) -> Tree {
        self.job.at(train_job::RUNTIME).cloned().unwrap_or_default()
    }

    /// Whether a container of a job, patched or not, mounts a volume.
    pub fn mounts(&self, job: &str, name: &str, volume: &str) -> bool {
        let own = self.named(job).map(|it| containers(it, pod::CONTAINERS)).unwrap_or_default();
        let own = own.iter().filter(|it| it.str_at(container::NAME) == name);
        let own = own.flat_map(|it| it.items_at(container::MOUNTS));
        let jobs = self.patches().iter().flat_map(|it| it.items_at(patch::JOBS));
        let jobs = jobs.filter(|it| it.str_at(patch_job::NAME) == job);
        let patched = jobs.flat_map(|it| it.items_at(patch_job::CONTAINERS));
        let patched = patched.filter(|it| it.str_at(patch_container::NAME) == name);
        let patched = patched.flat_map(|it| it.items_at(patch_container::MOUNTS));
        own.chain(patched).any(|it| it.str_at(mount::NAME) == volume)
    }

    /// An annotation of the JobSet, patched or not: the last one counts.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        let patches = self.patches().iter().rev().filter_map(|it| it.at(patch::ANNOTATIONS));
        let mut all = patches.chain(self.runtime.at(runtime::TEMPLATE_ANNOTATIONS));
        all.find_map(|it| it.get(key)).and_then(Tree::as_str)
    }

    /// Names of variables that the TrainJob sets for what trains.
    pub fn env(&self) -> Vec<Text> {
        let all = self.trainer(trainer::ENV).map(Tree::items).unwrap_or_default();
        all.iter().map(|it| it.text_at(&["name"])).collect()
    }

    /// What the TrainJob says of what trains.
    pub fn trainer(&self, path: &[&str]) -> Option<&'a Tree> {
        self.job.at(train_job::TRAINER)?.at(path).filter(|it| !it.is_null())
    }

    /// How many nodes train.
    pub fn nodes(&self) -> i64 {
        let own = self.trainer(trainer::NODES).and_then(Tree::as_int);
        own.or_else(|| self.runtime.int_at(runtime::NODES)).unwrap_or(1)
    }

    /// How many GPUs each node has, with what the TrainJob asks for merged into what the runtime gives.
    pub fn gpus(&self) -> Option<i64> {
        let step = self.jobs().iter().find(|job| Ancestor::of(job) == Some(Ancestor::Trainer))?;
        let wanted = Ancestor::Trainer.container();
        let mut all = containers(step, pod::CONTAINERS).iter();
        let node = all.find(|it| it.str_at(container::NAME) == wanted)?;
        let given = node.get("resources").cloned().unwrap_or_else(Tree::empty_map);
        let own = self.trainer(trainer::RESOURCES);
        let merge = |all: Tree, part: &str| match own.and_then(|it| it.get(part)) {
            Some(more) => all.with(&[part], all.get(part).unwrap_or(&Tree::Null).merge(more)),
            None => all,
        };
        gpu_count(&merge(merge(given, "requests"), "limits"))
    }
}

/// Containers of a replicatedJob's pods.
pub(super) fn containers<'a>(job: &'a Tree, path: &[&str]) -> &'a [Tree] {
    job.at(replicated_job::POD_TEMPLATE).map(|it| it.items_at(path)).unwrap_or_default()
}

/// Whether a replicatedJob has a container of this name, among those that come first or the others.
pub(super) fn has_container(job: &Tree, name: &str) -> bool {
    let all = containers(job, pod::CONTAINERS).iter().chain(containers(job, pod::INIT_CONTAINERS));
    all.into_iter().any(|it| it.str_at(container::NAME) == name)
}
