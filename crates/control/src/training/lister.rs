//! The lister of a TrainJob's namespace, and the objects that a TrainJob is built into.

use muster_api::client::{Kind, Uid};
use muster_api::consts::jobset::KIND as JOB_SET;
use muster_api::environment::Entropy;
use muster_api::gang::{COSCHEDULING_GROUPS, VOLCANO_GROUPS};
use muster_api::gang_objects::GangSupport;
use muster_api::gang_objects::consts::{GROUP_KIND, WORKLOAD_KIND};
use muster_api::train::generated::mpi::SSH_SUFFIX;
use muster_api::train::paths::runtime as runtime_path;
use muster_api::train::{TrainJobFacts, snapshot_name};
use muster_api::{kinds, meta};
use muster_trainer::build::{BuildError, BuildRequest, BuiltObjects, build};
use muster_trainer::controller::{ChildLister, DesiredObjects};
use muster_trainer::ssh_keys::{ENTROPY_BYTES, SshKeys};
use muster_tree::{Text, Tree};

use super::TrainJobControllerConfig;
use super::state::TrainJobState;
use crate::cache::Caches;
use crate::controller::ObjectKey;

/// Reads the objects of a TrainJob's namespace from the caches.
pub struct TrainJobLister<'a> {
    pub job: &'a Tree,
    pub facts: &'a TrainJobFacts,
    pub caches: &'a Caches,
    pub settings: &'a TrainJobControllerConfig,
    pub entropy: &'a dyn Entropy,
    pub kept: Option<&'a TrainJobState>,
}

impl TrainJobLister<'_> {
    /// The JobSet with the name of the TrainJob.
    pub fn jobset(&self) -> Option<Tree> {
        let set = self.named(&kinds::JOBSETS, &self.facts.name)?;
        Some(told(set, &meta::api_version(&kinds::JOBSETS), JOB_SET))
    }

    /// The objects that the TrainJob is built into.
    pub fn made(&self) -> Result<DesiredObjects, BuildError> {
        let snapshot = self.named(&kinds::CONFIG_MAPS, &snapshot_name(&self.facts.name));
        let reference = &self.facts.runtime;
        let runtime = reference.runtime_kind().and_then(|kind| {
            let key = super::runtime_key(kind, &self.facts.namespace, &reference.name);
            self.caches.find(&key).map(|it| &it.tree)
        });
        DesiredObjects::of(self.facts, snapshot, runtime, |runtime| self.built(runtime))
    }

    fn built(&self, runtime: &Tree) -> Result<BuiltObjects, BuildError> {
        let keys = self.lacks_keys(runtime).then(|| self.new_keys());
        let workload_uid = self.workload_uid();
        Ok(build(&BuildRequest {
            job: self.job,
            runtime,
            keys: keys.as_ref().map(SshKeys::pair),
            gangs: self.settings.gangs,
            workload_uid: workload_uid.as_ref(),
            reporting: self.settings.progress_endpoint.as_ref().map(super::ProgressEndpoint::borrowed),
        })?)
    }

    /// Whether SSH keys have to be generated: existing keys are reused, since running pods have them.
    fn lacks_keys(&self, runtime: &Tree) -> bool {
        let secret = Text::from(format!("{}{SSH_SUFFIX}", self.facts.name));
        runtime.at(runtime_path::MPI).is_some() && self.named(&kinds::SECRETS, &secret).is_none()
    }

    fn new_keys(&self) -> SshKeys {
        let mut chance = [0; ENTROPY_BYTES];
        self.entropy.fill(&mut chance);
        SshKeys::of(chance)
    }

    fn workload_uid(&self) -> Option<Uid> {
        let workload = self.named(self.settings.gangs?.api.workloads(), &self.facts.name)?;
        let is_own = meta::controller_of(workload).is_some_and(|owner| owner.uid == self.facts.uid);
        is_own.then(|| meta::uid(workload))
    }

    fn named(&self, kind: &Kind, name: &Text) -> Option<&Tree> {
        self.caches.get(kind, &self.facts.namespace, name).map(|it| &it.tree)
    }
}

impl ChildLister for TrainJobLister<'_> {
    fn existing(&self, object: &Tree) -> Option<Tree> {
        let kind = kind_of(self.settings.gangs, object)?;
        let there = &self.caches.find(&ObjectKey::of(kind, object))?.tree;
        Some(told(there, &meta::api_version(kind), &meta::kind_name(object)))
    }

    fn last_applied(&self, object: &Tree) -> Option<Tree> {
        self.kept?.applied(object).cloned()
    }
}

/// An object with `apiVersion` and `kind`, which the items of a list lack.
fn told(object: &Tree, api_version: &str, kind: &str) -> Tree {
    object.with(&["apiVersion"], api_version).with(&["kind"], kind)
}

/// The kind of an object that a TrainJob is built into.
pub fn kind_of(gangs: Option<GangSupport>, object: &Tree) -> Option<&'static Kind> {
    let form = gangs.map(|it| it.api);
    let all = [
        (Some(&kinds::JOBSETS), JOB_SET),
        (Some(&kinds::CONFIG_MAPS), "ConfigMap"),
        (Some(&kinds::SECRETS), "Secret"),
        (Some(&COSCHEDULING_GROUPS), GROUP_KIND),
        (Some(&VOLCANO_GROUPS), GROUP_KIND),
        (form.map(|it| it.workloads()), WORKLOAD_KIND),
        (form.and_then(|it| it.groups()), GROUP_KIND),
    ];
    let (version, word) = (object.text_at(&["apiVersion"]), meta::kind_name(object));
    let is_it = |(kind, of): &(Option<&'static Kind>, &str)| {
        word == *of && kind.is_some_and(|kind| meta::api_version(kind) == version)
    };
    all.into_iter().find(is_it)?.0
}
