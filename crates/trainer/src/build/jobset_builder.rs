//! The JobSet under construction, from the runtime's template to the object that is applied.
//!
//! It is mutated step by step: each replicatedJob keeps its pod template, and its number of pods is written into it at the
//! very end.

use muster_api::paths::{container, jobset, pod, replicated_job as job};
use muster_api::train::consts::{TRAINER_PORT, names};
use muster_api::train::paths::{runtime as runtime_path, train_job as path, trainer};
use muster_api::train::{Ancestor, TrainJobFacts, owner_reference};
use muster_tree::{Text, Tree, tree};

use super::resources::with_resources;
use super::{RuntimeError, lists, patches};

/// A JobSet under construction, and the objects beside it.
pub(super) struct JobSetBuilder<'a> {
    pub job: &'a Tree,
    /// The parsed fields of the TrainJob.
    pub facts: TrainJobFacts,
    pub runtime: &'a Tree,
    /// The JobSet without its replicatedJobs, which are in `sets`.
    pub jobset: Tree,
    pub sets: Vec<PodSetBuilder>,
    /// Objects that are applied before the JobSet.
    pub beside: Vec<Tree>,
    /// Which of the trainer's command and arguments a policy sets.
    pub run: TrainerCommand,
}

/// The source of the trainer's command and arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrainerCommand {
    /// The TrainJob overrides the runtime.
    FromTrainJob,
    /// The policy sets the command.
    Command,
    /// The policy sets the command and removes the arguments.
    FromPolicyWithoutArgs,
}

impl<'a> JobSetBuilder<'a> {
    /// The runtime's template with runtime patches, pod counts and resources applied.
    pub fn of(job: &'a Tree, runtime: &'a Tree) -> Result<JobSetBuilder<'a>, RuntimeError> {
        if let Some((manager, job)) = patches::unknown_job(job, runtime) {
            return Err(RuntimeError::UnknownJob { manager, job });
        }
        let jobset = patches::merge_runtime_patches(job, runtime)?;
        let sets = jobset.items_at(jobset::JOBS).iter().map(|it| PodSetBuilder::of(it, runtime)).collect();
        let facts = TrainJobFacts::of(job);
        let mut draft = JobSetBuilder {
            job,
            facts,
            runtime,
            jobset,
            sets,
            beside: Vec::new(),
            run: TrainerCommand::FromTrainJob,
        };
        // Before the policies: they read the GPUs and CPUs of the merged container.
        if let Some(resources) = draft.trainer().and_then(|it| it.at(trainer::RESOURCES)) {
            draft.change_trainers(|container| with_resources(container, resources));
        }
        Ok(draft)
    }

    /// `spec.trainer`, if it is set.
    pub fn trainer(&self) -> Option<&'a Tree> {
        self.job.at(path::TRAINER).filter(|it| it.is_map())
    }

    /// `spec.trainer.numNodes`; zero is a value, too.
    pub fn nodes(&self) -> Option<u32> {
        count_at(self.trainer()?, trainer::NODES)
    }

    /// `spec.trainer.numProcPerNode`, if it is set.
    pub fn procs(&self) -> Option<u32> {
        count_at(self.trainer()?, trainer::PROCS)
    }

    /// The variables of `spec.trainer.env`.
    pub fn env(&self) -> &'a [Tree] {
        self.trainer().map(|it| it.items_at(trainer::ENV)).unwrap_or_default()
    }

    /// The replicatedJob of the trainer step.
    pub fn trainer_set(&self) -> Option<&PodSetBuilder> {
        self.sets.iter().find(|it| it.step == Some(Ancestor::Trainer))
    }

    /// The `node` container of the trainer step.
    pub fn trainer_container(&self) -> Option<&Tree> {
        self.trainer_set()?.container(names::NODE)
    }

    /// The replicatedJob of this name.
    pub fn set(&mut self, name: &str) -> Option<&mut PodSetBuilder> {
        self.sets.iter_mut().find(|it| it.name == name)
    }

    /// Changes the replicatedJob of the trainer step.
    pub fn change_trainer_set(&mut self, change: impl FnOnce(&mut PodSetBuilder)) {
        if let Some(set) = self.sets.iter_mut().find(|it| it.step == Some(Ancestor::Trainer)) {
            change(set);
        }
    }

    /// Changes the trainer's container.
    pub fn change_trainer(&mut self, change: impl Fn(&Tree) -> Tree) {
        self.change_trainer_set(|set| {
            set.change_container(names::NODE, change);
        });
    }

    /// Changes the containers that train; if the MPI launcher runs as a node, those of the workers as well.
    pub fn change_trainers(&mut self, change: impl Fn(&Tree) -> Tree) {
        let with_workers = self.runtime.bool_at(runtime_path::MPI_LAUNCHER_AS_NODE) == Some(true);
        for set in &mut self.sets {
            let is_worker = with_workers && set.name == names::NODE;
            if is_worker || set.step == Some(Ancestor::Trainer) {
                set.change_container(names::NODE, &change);
            }
        }
    }

    /// Applies `spec.trainer.numNodes`, if it is set.
    pub fn resize_trainer(&mut self) {
        if let Some(nodes) = self.nodes() {
            self.change_trainer_set(|set| set.count = nodes);
        }
    }

    /// DNS name of the first node.
    pub fn head(&self) -> String {
        let name = &self.facts.name;
        format!("{name}-{}-0-0.{name}", names::NODE)
    }

    /// DNS name and port of the first node.
    pub fn head_with_port(&self) -> String {
        format!("{}:{TRAINER_PORT}", self.head())
    }

    /// The subdomain of the pods' DNS names.
    pub fn subdomain(&self) -> Text {
        match self.jobset.text_at(jobset::SUBDOMAIN) {
            none if none.is_empty() => self.facts.name.clone(),
            subdomain => subdomain,
        }
    }

    /// The name of an object beside the JobSet.
    pub fn named(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.facts.name)
    }

    /// An object beside the JobSet, owned by the TrainJob.
    pub fn object(&self, api_version: &str, kind: &str, name: &str) -> Tree {
        tree!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name,
            "namespace": &self.facts.namespace, "ownerReferences": [(owner_reference(&self.facts))]}})
    }
}

/// The pods of one replicatedJob.
pub(super) struct PodSetBuilder {
    pub name: Text,
    /// Which step of the training it is.
    pub step: Option<Ancestor>,
    /// Number of pods per Job.
    pub count: u32,
    pub job: Tree,
}

impl PodSetBuilder {
    fn of(job: &Tree, runtime: &Tree) -> PodSetBuilder {
        let step = Ancestor::of(job);
        // With an `mlPolicy` its `numNodes` is the number of pods, and `parallelism` of the template is ignored.
        let by_policy = step == Some(Ancestor::Trainer) && runtime.at(runtime_path::ML_POLICY).is_some();
        let count =
            if by_policy { count_at(runtime, runtime_path::NODES) } else { count_at(job, job::PARALLELISM) };
        // A step is one Job, also if the runtime skipped validation and has other `replicas`.
        let job = if step.is_some() { job.with(job::REPLICAS, 1) } else { job.clone() };
        PodSetBuilder { name: job.text_at(job::NAME), step, count: count.unwrap_or(1).max(1), job }
    }

    /// Its pod template; empty if it is unset.
    pub fn pods(&self) -> Tree {
        self.job.at(job::POD_TEMPLATE).cloned().unwrap_or_else(Tree::empty_map)
    }

    /// Changes its pod template.
    pub fn change_pods(&mut self, change: impl FnOnce(&Tree) -> Tree) {
        self.job = self.job.with(job::POD_TEMPLATE, change(&self.pods()));
    }

    /// One of its containers, init containers excluded.
    pub fn container(&self, name: &str) -> Option<&Tree> {
        let all = self.job.at(job::POD_TEMPLATE)?.items_at(pod::CONTAINERS);
        all.iter().find(|it| it.str_at(container::NAME) == name)
    }

    /// Changes a container; returns whether it exists.
    pub fn change_container(&mut self, name: &str, change: impl Fn(&Tree) -> Tree) -> bool {
        self.change_in(pod::CONTAINERS, name, change)
    }

    /// Changes an init container; returns whether it exists.
    pub fn change_init_container(&mut self, name: &str, change: impl Fn(&Tree) -> Tree) -> bool {
        self.change_in(pod::INIT_CONTAINERS, name, change)
    }

    fn change_in(&mut self, list: &[&str], name: &str, change: impl Fn(&Tree) -> Tree) -> bool {
        let pods = self.pods();
        let is_it = |it: &Tree| it.str_at(container::NAME) == name;
        let Some(all) = pods.at(list).filter(|all| all.items().iter().any(is_it)) else {
            return false;
        };
        let all = all.map_items(|_, it| if is_it(it) { change(it) } else { it.clone() });
        self.change_pods(|pods| pods.with(list, all));
        true
    }

    /// Adds volumes to its pods.
    pub fn add_volumes(&mut self, volumes: &[Tree]) {
        self.change_pods(|pods| lists::with_volumes(pods, volumes));
    }

    /// Its number of Jobs.
    pub fn replicas(&self) -> u32 {
        count_at(&self.job, job::REPLICAS).unwrap_or(1)
    }

    /// The DNS names of all its pods.
    pub fn endpoints(&self, train_job: &str, subdomain: &str) -> Vec<String> {
        let of = |replica: u32| {
            (0..self.count).map(move |at| format!("{train_job}-{}-{replica}-{at}.{subdomain}", self.name))
        };
        (0..self.replicas()).flat_map(of).collect()
    }
}

pub(super) fn count_at(tree: &Tree, path: &[&str]) -> Option<u32> {
    tree.int_at(path).map(|n| u32::try_from(n).unwrap_or(0))
}
