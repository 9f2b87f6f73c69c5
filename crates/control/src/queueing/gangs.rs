//! Gangs of plain pod groups: created when the group is admitted, before its pods are ungated.

use muster_api::client::{ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource};
use muster_api::gang_objects;
use muster_api::meta;
use muster_api::queue::WorkloadFacts;
use muster_api::queue::consts::managers;
use muster_queue::pods::gang::{self, GangDecision, GangSnapshot};
use muster_queue::pods::reconciler::{ObservedWorkload, PodReconcileKey as PodKey};
use muster_tree::{Text, Tree};

use super::pods::key_of;
use super::{QueueController, requests};
use crate::cache::Caches;
use crate::controller::{ObjectKey, Step};

/// Whether the pods of a group may be ungated.
pub(super) struct Gates {
    /// Whether the gang exists, or none is needed.
    pub open: bool,
    /// Steps that create or update the gang.
    pub steps: Vec<Step>,
    /// The message if another owner has the name of the gang.
    pub taken: Option<String>,
}

impl QueueController {
    /// Whether this kind is a gang object.
    pub(super) fn is_gang(&self, kind: &Kind) -> bool {
        self.gangs.is_some_and(|gangs| gang_objects::kinds(gangs).any(|it| it == kind))
    }

    /// Reconciles the gang of a pod group.
    pub(super) fn gang_of(
        &self,
        of: &PodKey,
        pods: &[&ApiObject],
        workloads: &[ObservedWorkload],
        caches: &Caches,
    ) -> Gates {
        let free = Gates { open: true, steps: Vec::new(), taken: None };
        let (PodKey::Group { namespace, name }, Some(gangs)) = (of, self.gangs) else { return free };
        let admitted =
            |it: &&WorkloadFacts| it.is_admitted() && !it.is_evicted() && !it.is_finished() && !it.deleting;
        let Some(admitted) = workloads.iter().map(|it| &it.facts).find(admitted) else { return free };
        let find = |kind: &'static Kind| caches.get(kind, namespace, name);
        let pods: Vec<&Tree> = pods.iter().map(|it| &it.tree).collect();
        let decided = gang::reconcile(&GangSnapshot {
            gangs,
            admitted,
            pods: &pods,
            workload: find(gangs.api.workloads()),
            group: gangs.api.groups().and_then(find),
        });
        match decided {
            GangDecision::NotRequested => free,
            GangDecision::Ready(steps) => Gates { steps: steps.into_iter().map(call).collect(), ..free },
            GangDecision::CreateFirst(steps) => {
                Gates { open: false, steps: steps.into_iter().map(call).collect(), taken: None }
            }
            GangDecision::NameConflict(message) => {
                Gates { open: false, steps: Vec::new(), taken: Some(message) }
            }
        }
    }
}

fn call(step: gang::GangWrite) -> Step {
    match step {
        gang::GangWrite::Make(kind, object) => {
            let on = meta::target(kind, &object, Subresource::Main);
            let by = managers::KUEUE.clone();
            Step::Request(ApiRequest {
                field_manager: by,
                target: on,
                preconditions: Preconditions::default(),
                verb: RequestVerb::Create(object),
            })
        }
        gang::GangWrite::Patch(kind, object, patch) => {
            requests::merge(kind, &object, Subresource::Main, patch)
        }
    }
}

/// Whether only the status of a gang object changed, which the scheduler writes and pod groups do not use.
pub(super) fn is_only_status(before: Option<&ApiObject>, after: Option<&ApiObject>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return false };
    let same = |path: &[&str]| before.tree.at(path) == after.tree.at(path);
    same(&["spec"]) && same(&["metadata", "ownerReferences"]) && same(&["metadata", "deletionTimestamp"])
}

/// The pod group that a gang object of this name belongs to.
pub(super) fn concerned(namespace: &Text, name: &Text) -> ObjectKey {
    key_of(&PodKey::Group { namespace: namespace.clone(), name: name.clone() })
}
