//! The lister of a JobSet's namespace.

use muster_api::client::{ApiObject, Kind, Uid};
use muster_api::consts::jobset as words;
use muster_api::gang_objects::GangSupport;
use muster_api::jobset::JobSetFacts;
use muster_api::paths::{container_status as container, meta as meta_path, pod as pod_path};
use muster_api::train::TrainJobFacts;
use muster_api::train::consts::TRAIN_JOB;
use muster_api::{kinds, meta};
use muster_jobset::reconcile::{ChildLister, ExistingObject, InPlacePod, OwnerState};
use muster_tree::{Text, Tree, literal};

use crate::cache::Caches;

/// Reads the objects of a JobSet's namespace from the caches.
pub struct NamespaceLister<'a> {
    pub set: &'a Tree,
    pub facts: &'a JobSetFacts,
    pub caches: &'a Caches,
    pub claims: Option<&'a Kind>,
    pub gangs: Option<GangSupport>,
}

impl NamespaceLister<'_> {
    fn held(&self, kind: &Kind, name: &Text) -> Option<ExistingObject> {
        let ApiObject { tree, .. } = self.caches.get(kind, &self.facts.namespace, name)?;
        Some(ExistingObject {
            uid: meta::uid(tree),
            controller: meta::controller_of(tree),
            jobset: meta::label(tree, words::NAME).map(Text::from),
            deleting: meta::deletion_timestamp(tree).is_some(),
        })
    }
}

impl ChildLister for NamespaceLister<'_> {
    fn job(&self, name: &Text) -> Option<ExistingObject> {
        self.held(&kinds::JOBS, name)
    }

    fn service(&self, name: &Text) -> Option<ExistingObject> {
        self.held(&kinds::SERVICES, name)
    }

    fn volume_claim(&self, name: &Text) -> Option<ExistingObject> {
        self.held(&kinds::PERSISTENT_VOLUME_CLAIMS, name)
    }

    fn device_claim(&self, name: &Text) -> Option<ExistingObject> {
        self.held(self.claims?, name)
    }

    fn workload(&self, name: &Text) -> Option<ExistingObject> {
        self.held(self.gangs?.api.workloads(), name)
    }

    fn group(&self, name: &Text) -> Option<ExistingObject> {
        self.held(self.gangs?.api.groups()?, name)
    }

    fn pods(&self) -> Vec<InPlacePod> {
        let pods = self.caches.in_namespace(&kinds::PODS, &self.facts.namespace);
        let own = pods.filter(|pod| meta::label(&pod.tree, words::NAME) == Some(self.facts.name.as_str()));
        own.map(|pod| in_place(&pod.tree)).collect()
    }

    fn remaining_dependent(&self, job: &Uid) -> Option<(Text, Text)> {
        let (key, _) = self.caches.owned_by(job).next()?;
        let kind = if key.kind == kinds::PODS { literal!("pod") } else { key.kind.plural.clone() };
        Some((kind, key.name.clone()))
    }

    fn owner_state(&self) -> OwnerState {
        let Some(owner) = meta::controller_of(self.set).filter(|owner| owner.kind == TRAIN_JOB) else {
            return OwnerState::None;
        };
        let Some((_, parent)) = self.caches.by_uid(&owner.uid) else { return OwnerState::Unknown };
        if TrainJobFacts::of(&parent.tree).status.is_finished() {
            OwnerState::Notified
        } else {
            OwnerState::NotNotified
        }
    }
}

fn in_place(pod: &Tree) -> InPlacePod {
    let lists = [pod_path::INIT_STATUSES, pod_path::CONTAINER_STATUSES];
    let all = lists.into_iter().flat_map(|list| pod.items_at(list));
    let restarts = all.filter_map(|it| it.int_at(container::RESTARTS)).max().unwrap_or(0);
    InPlacePod {
        restarts: u32::try_from(restarts).unwrap_or(0),
        failed: pod.str_at(pod_path::PHASE) == "Failed",
        attempt: pod
            .at(meta_path::ANNOTATIONS)
            .and_then(|all| all.get(words::IN_PLACE_ATTEMPT)?.as_text().cloned()),
    }
}
