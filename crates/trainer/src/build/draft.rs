//! The JobSet on its way from the runtime to what is applied.
//!
//! It is changed in place, step by step: each replicatedJob keeps its pods' template, and how many pods it has is
//! written into it at the very end.

use muster_api::paths::{container, jobset, pod, replicated_job as job};
use muster_api::train::paths::{runtime as runtime_path, train_job as path, trainer};
use muster_api::train::words::{TRAINER_PORT, names};
use muster_api::train::{Ancestor, TrainJobFacts, owner};
use muster_tree::{Text, Tree, tree};

use super::resources::with_resources;
use super::{Error, lists, patches};

/// A JobSet in the making, and what stands beside it.
pub(super) struct Draft<'a> {
    /// The TrainJob.
    pub job: &'a Tree,
    /// What is read of it.
    pub facts: TrainJobFacts,
    /// The runtime.
    pub runtime: &'a Tree,
    /// The JobSet; its replicatedJobs are in `sets`.
    pub jobset: Tree,
    /// Its replicatedJobs.
    pub sets: Vec<Set>,
    /// Objects that are there before the JobSet.
    pub beside: Vec<Tree>,
    /// What the trainer runs, where a policy decides that.
    pub run: Run,
}

/// Who decides what the trainer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Run {
    /// The TrainJob, over the runtime.
    AsSaid,
    /// The policy decides about the command.
    Command,
    /// The policy decides about the command, and there are no arguments any more.
    CommandAlone,
}

impl<'a> Draft<'a> {
    /// The runtime's template with patches, numbers of pods and resources.
    pub fn of(job: &'a Tree, runtime: &'a Tree) -> Result<Draft<'a>, Error> {
        if let Some((manager, job)) = patches::unknown_job(job, runtime) {
            return Err(Error::UnknownJob { manager, job });
        }
        let jobset = patches::merged(job, runtime)?;
        let sets = jobset.items_at(jobset::JOBS).iter().map(|it| Set::of(it, runtime)).collect();
        let facts = TrainJobFacts::of(job);
        let mut draft = Draft { job, facts, runtime, jobset, sets, beside: Vec::new(), run: Run::AsSaid };
        if let Some(resources) = draft.trainer().and_then(|it| it.at(trainer::RESOURCES)) {
            draft.change_trainers(|container| with_resources(container, resources));
        }
        Ok(draft)
    }

    /// What the TrainJob says of what trains.
    pub fn trainer(&self) -> Option<&'a Tree> {
        self.job.at(path::TRAINER).filter(|it| it.is_map())
    }

    /// How many nodes the TrainJob wants; zero is a number, too.
    pub fn nodes(&self) -> Option<u32> {
        count_at(self.trainer()?, trainer::NODES)
    }

    /// How many processes the TrainJob wants on each node.
    pub fn procs(&self) -> Option<u32> {
        count_at(self.trainer()?, trainer::PROCS)
    }

    /// Variables of the TrainJob.
    pub fn env(&self) -> &'a [Tree] {
        self.trainer().map(|it| it.items_at(trainer::ENV)).unwrap_or_default()
    }

    /// The set that trains.
    pub fn trainer_set(&self) -> Option<&Set> {
        self.sets.iter().find(|it| it.step == Some(Ancestor::Trainer))
    }

    /// The container that trains.
    pub fn trainer_container(&self) -> Option<&Tree> {
        self.trainer_set()?.container(names::NODE)
    }

    /// The set of this name.
    pub fn set(&mut self, name: &str) -> Option<&mut Set> {
        self.sets.iter_mut().find(|it| it.name == name)
    }

    /// Changes the set that trains.
    pub fn change_trainer_set(&mut self, change: impl FnOnce(&mut Set)) {
        if let Some(set) = self.sets.iter_mut().find(|it| it.step == Some(Ancestor::Trainer)) {
            change(set);
        }
    }

    /// Changes the container that trains.
    pub fn change_trainer(&mut self, change: impl Fn(&Tree) -> Tree) {
        self.change_trainer_set(|set| {
            set.change_container(names::NODE, change);
        });
    }

    /// Changes the containers that train, those of workers included where the launcher of MPI is one of them.
    pub fn change_trainers(&mut self, change: impl Fn(&Tree) -> Tree) {
        let with_workers = self.runtime.bool_at(runtime_path::MPI_LAUNCHER_AS_NODE) == Some(true);
        for set in &mut self.sets {
            let is_worker = with_workers && set.name == names::NODE;
            if is_worker || set.step == Some(Ancestor::Trainer) {
                set.change_container(names::NODE, &change);
            }
        }
    }

    /// As many nodes as the TrainJob wants.
    pub fn resize_trainer(&mut self) {
        if let Some(nodes) = self.nodes() {
            self.change_trainer_set(|set| set.count = nodes);
        }
    }

    /// Where the first node is.
    pub fn head(&self) -> String {
        let name = &self.facts.name;
        format!("{name}-{}-0-0.{name}", names::NODE)
    }

    /// Where the first node listens.
    pub fn head_with_port(&self) -> String {
        format!("{}:{TRAINER_PORT}", self.head())
    }

    /// The domain of the pods' names.
    pub fn subdomain(&self) -> Text {
        match self.jobset.text_at(jobset::SUBDOMAIN) {
            none if none.is_empty() => self.facts.name.clone(),
            subdomain => subdomain,
        }
    }

    /// The name of something beside the JobSet.
    pub fn named(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.facts.name)
    }

    /// An object beside the JobSet: it goes with the TrainJob.
    pub fn object(&self, api_version: &str, kind: &str, name: &str) -> Tree {
        tree!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name,
            "namespace": &self.facts.namespace, "ownerReferences": [(owner(&self.facts))]}})
    }
}

/// The pods of one replicatedJob.
pub(super) struct Set {
    /// Name of the replicatedJob.
    pub name: Text,
    /// Which step of training it is.
    pub step: Option<Ancestor>,
    /// Pods of one Job.
    pub count: u32,
    /// The replicatedJob.
    pub job: Tree,
}

impl Set {
    fn of(job: &Tree, runtime: &Tree) -> Set {
        let step = Ancestor::of(job);
        let by_policy = step == Some(Ancestor::Trainer) && runtime.at(runtime_path::ML_POLICY).is_some();
        let count =
            if by_policy { count_at(runtime, runtime_path::NODES) } else { count_at(job, job::PARALLELISM) };
        // A step is one Job, whatever a runtime says that nobody looked at.
        let job = if step.is_some() { job.with(job::REPLICAS, 1) } else { job.clone() };
        Set { name: job.text_at(job::NAME), step, count: count.unwrap_or(1).max(1), job }
    }

    /// The template of its pods.
    pub fn pods(&self) -> Tree {
        self.job.at(job::POD_TEMPLATE).cloned().unwrap_or_else(Tree::empty_map)
    }

    /// Changes the template of its pods.
    pub fn change_pods(&mut self, change: impl FnOnce(&Tree) -> Tree) {
        self.job = self.job.with(job::POD_TEMPLATE, change(&self.pods()));
    }

    /// One of its containers; init containers are others.
    pub fn container(&self, name: &str) -> Option<&Tree> {
        let all = self.job.at(job::POD_TEMPLATE)?.items_at(pod::CONTAINERS);
        all.iter().find(|it| it.str_at(container::NAME) == name)
    }

    /// Changes one of its containers, and says whether there is such a one.
    pub fn change_container(&mut self, name: &str, change: impl Fn(&Tree) -> Tree) -> bool {
        self.change_in(pod::CONTAINERS, name, change)
    }

    /// The same for what runs before them.
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

    /// Gives its pods these volumes.
    pub fn add_volumes(&mut self, volumes: &[Tree]) {
        self.change_pods(|pods| lists::with_volumes(pods, volumes));
    }

    /// How many Jobs it has.
    pub fn replicas(&self) -> u32 {
        count_at(&self.job, job::REPLICAS).unwrap_or(1)
    }

    /// The names of all its pods.
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
