//! A TrainJob and its runtime, as the rules read them.

use muster_api::paths::{container, mount, pod, replicated_job};
use muster_api::train::paths::{patch, patch_container, patch_job, runtime, train_job, trainer};
use muster_api::train::{Ancestor, RuntimeRef, gpu_count};
use muster_tree::{Text, Tree};

use super::TrainingLister;

/// The input of the rules.
pub(super) struct TrainJobReview<'a> {
    /// The namespace of the request.
    pub namespace: &'a Text,
    /// The TrainJob as it would be stored.
    pub job: &'a Tree,
    pub old: Option<&'a Tree>,
    /// Its reference to the runtime.
    pub reference: &'a RuntimeRef,
    pub runtime: &'a Tree,
    pub live: &'a dyn TrainingLister,
}

impl<'a> TrainJobReview<'a> {
    /// The replicatedJobs of the runtime.
    pub fn jobs(&self) -> &'a [Tree] {
        self.runtime.items_at(runtime::JOBS)
    }

    /// The replicatedJob of this name.
    pub fn named(&self, name: &str) -> Option<&'a Tree> {
        self.jobs().iter().find(|job| job.str_at(replicated_job::NAME) == name)
    }

    pub fn patches(&self) -> &'a [Tree] {
        self.job.items_at(train_job::PATCHES)
    }

    /// The value of `spec.runtimeRef`, for messages.
    pub fn shown(&self) -> Tree {
        self.job.at(train_job::RUNTIME).cloned().unwrap_or_default()
    }

    /// Whether a container of a replicatedJob mounts a volume, in the runtime or by a patch.
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

    /// An annotation of the JobSet: that of the last patch with it, else that of the runtime.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        let patches = self.patches().iter().rev().filter_map(|it| it.at(patch::ANNOTATIONS));
        let mut all = patches.chain(self.runtime.at(runtime::TEMPLATE_ANNOTATIONS));
        all.find_map(|it| it.get(key)).and_then(Tree::as_str)
    }

    /// Names of the variables in `spec.trainer.env`.
    pub fn env(&self) -> Vec<Text> {
        let all = self.trainer(trainer::ENV).map(Tree::items).unwrap_or_default();
        all.iter().map(|it| it.text_at(&["name"])).collect()
    }

    /// A field of `spec.trainer`, if it is set.
    pub fn trainer(&self, path: &[&str]) -> Option<&'a Tree> {
        self.job.at(train_job::TRAINER)?.at(path).filter(|it| !it.is_null())
    }

    /// The number of nodes: that of the TrainJob, else that of the runtime, else one.
    pub fn nodes(&self) -> i64 {
        let own = self.trainer(trainer::NODES).and_then(Tree::as_int);
        own.or_else(|| self.runtime.int_at(runtime::NODES)).unwrap_or(1)
    }

    /// GPUs per node, with `resourcesPerNode` merged over the resources of the runtime.
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

/// The containers, or init containers, in the pod template of a replicatedJob.
pub(super) fn containers<'a>(job: &'a Tree, path: &[&str]) -> &'a [Tree] {
    job.at(replicated_job::POD_TEMPLATE).map(|it| it.items_at(path)).unwrap_or_default()
}

/// Whether a replicatedJob has a container or init container of this name.
pub(super) fn has_container(job: &Tree, name: &str) -> bool {
    let all = containers(job, pod::CONTAINERS).iter().chain(containers(job, pod::INIT_CONTAINERS));
    all.into_iter().any(|it| it.str_at(container::NAME) == name)
}
