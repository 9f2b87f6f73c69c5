//! What a Job sees of its gang, and whom a change of one concerns.

use muster_api::gang_make::{self, Gangs, JobAsks, Makes};
use muster_api::port::{Kind, Object, Uid};
use muster_api::{kinds, meta};
use muster_job::Groups;
use muster_tree::Text;

use super::job_of;
use crate::cache::{Caches, Seen};
use crate::plan::{Key, Wake};

/// Whether these are Workloads or PodGroups.
pub fn is_kind(gangs: Gangs, kind: &Kind) -> bool {
    gang_make::kinds(gangs).any(|it| it == kind)
}

/// The objects that may be those of a Job's gang.
pub fn groups<'a>(
    gangs: Gangs,
    asks: &'a JobAsks,
    caches: &'a Caches,
    taken: &'a dyn Fn(&Kind, &Text) -> bool,
) -> Groups<'a> {
    let maker = &asks.maker;
    let (workloads, group_kind) = (gangs.form.workloads(), gangs.form.groups());
    let workloads = match &asks.makes {
        Makes::Group { owner, .. } => caches
            .in_namespace(workloads, &maker.namespace)
            .filter(|it| gang_make::is_for(&it.tree, owner.group(), &owner.kind, &owner.name))
            .collect(),
        _ => controlled(&maker.uid, workloads, caches)
            .filter(|it| gang_make::is_for(&it.tree, &kinds::JOBS.group, maker.kind, &maker.name))
            .collect(),
    };
    let groups = group_kind.into_iter().flat_map(|kind| controlled(&maker.uid, kind, caches)).collect();
    Groups { gangs, asks, workloads, groups, taken }
}

fn controlled<'a>(uid: &'a Uid, kind: &'a Kind, caches: &'a Caches) -> impl Iterator<Item = &'a Object> {
    let all = caches.owned_by(uid).filter(move |(key, _)| key.kind == *kind).map(|(_, object)| object);
    all.filter(move |object| meta::controller(&object.tree).is_some_and(|owner| owner.uid == *uid))
}

/// The Jobs that a changed Workload or PodGroup concerns: the one that controls it, and those whose owner does. How a
/// group fares is the scheduler's business.
pub fn wakes(seen: &Seen<'_>, caches: &Caches) -> Vec<Wake> {
    if let (Some(before), Some(after)) = (seen.before, seen.after)
        && before.tree.at(&["spec"]) == after.tree.at(&["spec"])
        && meta::deleting(&before.tree) == meta::deleting(&after.tree)
    {
        return Vec::new();
    }
    let object = &seen.newest().tree;
    if let Some(job) = job_of(object) {
        return vec![Key::new(&kinds::JOBS, &seen.key.namespace, &job.name).into()];
    }
    if let Some(owner) = meta::controller(object) {
        let jobs = caches.owned_by(&owner.uid).filter(|(key, _)| key.kind == kinds::JOBS);
        return jobs.map(|(key, _)| key.clone().into()).collect();
    }
    // Made by hand: it says itself whose it is.
    let concerned = |job: &&Object| {
        meta::controller(&job.tree)
            .is_some_and(|owner| gang_make::is_for(object, owner.group(), &owner.kind, &owner.name))
    };
    let jobs = caches.in_namespace(&kinds::JOBS, &seen.key.namespace).filter(concerned);
    jobs.map(|job| Key::of(&kinds::JOBS, &job.tree).into()).collect()
}
