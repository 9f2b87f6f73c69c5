//! The gang objects of a Job, and the Jobs to reconcile after an event of one.

use muster_api::client::{ApiObject, Kind, Uid};
use muster_api::gang_objects::{self, GangSupport, JobGang, ObjectsToCreate};
use muster_api::{kinds, meta};
use muster_job::JobGangSnapshot;
use muster_tree::Text;

use super::job_of;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, ReconcileRequest};

/// Whether this kind is a gang object.
pub fn is_kind(gangs: GangSupport, kind: &Kind) -> bool {
    gang_objects::kinds(gangs).any(|it| it == kind)
}

/// The candidates for the gang objects of a Job.
pub fn groups<'a>(
    gangs: GangSupport,
    asks: &'a JobGang,
    caches: &'a Caches,
    name_in_use: &'a dyn Fn(&Kind, &Text) -> bool,
) -> JobGangSnapshot<'a> {
    let maker = &asks.owner;
    let (workloads, group_kind) = (gangs.api.workloads(), gangs.api.groups());
    let workloads = match &asks.objects {
        ObjectsToCreate::Group { owner, .. } => caches
            .in_namespace(workloads, &maker.namespace)
            .filter(|it| gang_objects::is_for(&it.tree, owner.group(), &owner.kind, &owner.name))
            .collect(),
        _ => controlled(&maker.uid, workloads, caches)
            .filter(|it| gang_objects::is_for(&it.tree, &kinds::JOBS.group, maker.kind, &maker.name))
            .collect(),
    };
    let groups = group_kind.into_iter().flat_map(|kind| controlled(&maker.uid, kind, caches)).collect();
    JobGangSnapshot { gangs, asks, workloads, groups, name_in_use }
}

fn controlled<'a>(uid: &'a Uid, kind: &'a Kind, caches: &'a Caches) -> impl Iterator<Item = &'a ApiObject> {
    let all = caches.owned_by(uid).filter(move |(key, _)| key.kind == *kind).map(|(_, object)| object);
    all.filter(move |object| meta::controller_of(&object.tree).is_some_and(|owner| owner.uid == *uid))
}

/// The Jobs to reconcile after an event of a Workload or PodGroup: its controller, and the Jobs with the same controller. Status
/// updates of the scheduler are ignored.
pub fn requests_for(seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
    if let (Some(before), Some(after)) = (seen.old, seen.new)
        && before.tree.at(&["spec"]) == after.tree.at(&["spec"])
        && meta::deletion_timestamp(&before.tree) == meta::deletion_timestamp(&after.tree)
    {
        return Vec::new();
    }
    let object = &seen.latest().tree;
    if let Some(job) = job_of(object) {
        return vec![ObjectKey::new(&kinds::JOBS, &seen.key.namespace, &job.name).into()];
    }
    if let Some(owner) = meta::controller_of(object) {
        let jobs = caches.owned_by(&owner.uid).filter(|(key, _)| key.kind == kinds::JOBS);
        return jobs.map(|(key, _)| key.clone().into()).collect();
    }
    // Created by a user: its reference names the Job.
    let concerned = |job: &&ApiObject| {
        meta::controller_of(&job.tree)
            .is_some_and(|owner| gang_objects::is_for(object, owner.group(), &owner.kind, &owner.name))
    };
    let jobs = caches.in_namespace(&kinds::JOBS, &seen.key.namespace).filter(concerned);
    jobs.map(|job| ObjectKey::of(&kinds::JOBS, &job.tree).into()).collect()
}
