//! What a TrainJob sees of its namespace, and what it would be made into there.

use muster_api::gang::{COSCHEDULING_GROUPS, VOLCANO_GROUPS};
use muster_api::gang_make::Gangs;
use muster_api::gang_make::words::{GROUP_KIND, WORKLOAD_KIND};
use muster_api::port::{Kind, Uid};
use muster_api::ports::Entropy;
use muster_api::train::made::mpi::SSH_SUFFIX;
use muster_api::train::paths::runtime as runtime_path;
use muster_api::train::{TrainJobFacts, snapshot_name};
use muster_api::words::jobset::KIND as JOB_SET;
use muster_api::{kinds, meta};
use muster_trainer::build::{Asked, BuildError, Built, build};
use muster_trainer::keys::{CHANCE, Keys};
use muster_trainer::life::{Around, Made};
use muster_tree::{Text, Tree};

use super::Settings;
use super::kept::Kept;
use crate::cache::Caches;
use crate::plan::Key;

/// A TrainJob in its namespace.
pub struct Sight<'a> {
    pub job: &'a Tree,
    pub facts: &'a TrainJobFacts,
    pub caches: &'a Caches,
    pub settings: &'a Settings,
    pub entropy: &'a dyn Entropy,
    pub kept: Option<&'a Kept>,
}

impl Sight<'_> {
    /// The JobSet of its name.
    pub fn jobset(&self) -> Option<Tree> {
        let set = self.named(&kinds::JOBSETS, &self.facts.name)?;
        Some(told(set, &meta::api_version(&kinds::JOBSETS), JOB_SET))
    }

    /// What it would be made into.
    pub fn made(&self) -> Result<Made, BuildError> {
        let snapshot = self.named(&kinds::CONFIG_MAPS, &snapshot_name(&self.facts.name));
        let reference = &self.facts.runtime;
        let runtime = reference.known().and_then(|kind| {
            let key = super::runtime_key(kind, &self.facts.namespace, &reference.name);
            self.caches.find(&key).map(|it| &it.tree)
        });
        Made::of(self.facts, snapshot, runtime, |runtime| self.built(runtime))
    }

    fn built(&self, runtime: &Tree) -> Result<Built, BuildError> {
        let keys = self.lacks_keys(runtime).then(|| self.new_keys());
        let workload_uid = self.workload_uid();
        Ok(build(&Asked {
            job: self.job,
            runtime,
            keys: keys.as_ref().map(Keys::pair),
            gangs: self.settings.gangs,
            workload_uid: workload_uid.as_ref(),
            reporting: self.settings.reporting.as_ref().map(super::Reporting::borrowed),
        })?)
    }

    /// Keys are made once: those that pods have are kept.
    fn lacks_keys(&self, runtime: &Tree) -> bool {
        let secret = Text::from(format!("{}{SSH_SUFFIX}", self.facts.name));
        runtime.at(runtime_path::MPI).is_some() && self.named(&kinds::SECRETS, &secret).is_none()
    }

    fn new_keys(&self) -> Keys {
        let mut chance = [0; CHANCE];
        self.entropy.fill(&mut chance);
        Keys::of(chance)
    }

    fn workload_uid(&self) -> Option<Uid> {
        let workload = self.named(self.settings.gangs?.form.workloads(), &self.facts.name)?;
        let is_own = meta::controller(workload).is_some_and(|owner| owner.uid == self.facts.uid);
        is_own.then(|| meta::uid(workload))
    }

    fn named(&self, kind: &Kind, name: &Text) -> Option<&Tree> {
        self.caches.get(kind, &self.facts.namespace, name).map(|it| &it.tree)
    }
}

impl Around for Sight<'_> {
    fn existing(&self, object: &Tree) -> Option<Tree> {
        let kind = kind_of(self.settings.gangs, object)?;
        let there = &self.caches.find(&Key::of(kind, object))?.tree;
        Some(told(there, &meta::api_version(kind), &meta::kind_word(object)))
    }

    fn applied(&self, object: &Tree) -> Option<Tree> {
        self.kept?.applied(object).cloned()
    }
}

/// An object that says of which kind it is: in lists of servers that is said once for all.
fn told(object: &Tree, api_version: &str, kind: &str) -> Tree {
    object.with(&["apiVersion"], api_version).with(&["kind"], kind)
}

/// The kind of an object that a TrainJob is made into, as it is called here.
pub fn kind_of(gangs: Option<Gangs>, object: &Tree) -> Option<&'static Kind> {
    let form = gangs.map(|it| it.form);
    let all = [
        (Some(&kinds::JOBSETS), JOB_SET),
        (Some(&kinds::CONFIG_MAPS), "ConfigMap"),
        (Some(&kinds::SECRETS), "Secret"),
        (Some(&COSCHEDULING_GROUPS), GROUP_KIND),
        (Some(&VOLCANO_GROUPS), GROUP_KIND),
        (form.map(|it| it.workloads()), WORKLOAD_KIND),
        (form.and_then(|it| it.groups()), GROUP_KIND),
    ];
    let (version, word) = (object.text_at(&["apiVersion"]), meta::kind_word(object));
    let is_it = |(kind, of): &(Option<&'static Kind>, &str)| {
        word == *of && kind.is_some_and(|kind| meta::api_version(kind) == version)
    };
    all.into_iter().find(is_it)?.0
}
