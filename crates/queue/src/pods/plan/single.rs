//! A pod by itself and its Workload.

use muster_api::meta::Owner;
use muster_api::paths::pod as path;
use muster_api::pod::Phase;
use muster_api::queue::words::{MAIN, messages, reasons};
use muster_api::queue::{PodSet, WorkloadFacts};
use muster_tree::{Text, Tree};

use super::end::Ended;
use super::group::{make, rewrite};
use super::wait::BySet;
use super::{Action, Hold, Pass, Plea, SeenWorkload, stop};
use crate::jobs::construct::template_of_pod;
use crate::jobs::equal::{self, Compared};
use crate::jobs::naming::{self, Maker};
use crate::pods::member::Member;

/// Decides about a pod by itself.
pub(super) fn run(pass: &mut Pass<'_>, ours: &[&Member]) {
    let Some(pod) = ours.first().copied() else { return pass.without_pods() };
    if pod.decl.group.is_some() {
        return pass.hold(Hold::WrongKey);
    }
    let own: Vec<&SeenWorkload> = pass.seen.workloads.iter().filter(|it| is_own(&it.facts, pod)).collect();
    if pod.deleting.is_some() {
        return leave(pass, pod, &own);
    }
    if let Some(name) = &pod.decl.prebuilt {
        return prebuilt(pass, pod, name);
    }
    let matching = own.iter().position(|it| it.facts.is_finished() || is_like(pass, &it.facts, pod));
    for (at, other) in own.iter().enumerate() {
        if matching.is_some_and(|kept| kept != at) {
            pass.delete_not_matching(other, Some(pod));
        }
    }
    match matching {
        Some(at) => with_workload(pass, pod, own[at]),
        None => without_workload(pass, pod, &own),
    }
}

/// Whether a pod controls a Workload.
fn is_own(workload: &WorkloadFacts, pod: &Member) -> bool {
    let is_pod = |owner: &Owner| owner.kind == "Pod" && owner.group().is_empty();
    workload.controller().is_some_and(|owner| is_pod(owner) && owner.uid == pod.this.uid)
}

/// Whether a Workload is what its pod is. What is put onto a pod at its start is no difference.
fn is_like(pass: &Pass<'_>, workload: &WorkloadFacts, pod: &Member) -> bool {
    let sets = [set_of(pod)];
    let compared = Compared { object: &pod.tree, pod_sets: &sets, is_suspended: pod.suspended() };
    equal::is_like(&compared, workload, pass.seen.flavor)
}

/// The only set of a pod by itself.
fn set_of(pod: &Member) -> PodSet {
    let template = template_of_pod(&pod.tree);
    PodSet { name: MAIN.into(), template, count: 1, min_count: None, topology: Tree::Null }
}

/// A pod that is being deleted holds its share until it has ended; then it goes, and its Workload after it.
fn leave(pass: &mut Pass<'_>, pod: &Member, own: &[&SeenWorkload]) {
    let now = pass.seen.now;
    if pod.holds_quota(now) {
        pass.hold(Hold::StillActive);
        return pass.look_when_over(&[pod]);
    }
    for workload in own {
        let facts = &workload.facts;
        if facts.is_finished() || facts.deleting {
            pass.let_workload_go(workload);
        } else if facts.is_evicted() && facts.has_quota() {
            pass.add(Action::Release(workload.this(), super::Comeback::Never));
        } else if pod.terminated() && !pod.stopped {
            pass.finish(workload, how_it_ended(pod), &[]);
        }
    }
    pass.let_go([pod]);
}

/// No Workload is this pod's.
fn without_workload(pass: &mut Pass<'_>, pod: &Member, others: &[&SeenWorkload]) {
    if pod.terminated() {
        pass.let_go([pod]);
        return;
    }
    let words = if others.is_empty() { stop::MISSING } else { stop::NOT_MATCHING };
    if pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, words) {
        return;
    }
    let maker = Maker { kind: "Pod", group: "", name: &pod.this.name, uid: &pod.this.uid };
    let (name, queue) = (naming::workload(maker, pass.seen.settings.room), pod.queue.clone());
    let plea = Plea { name, queue, sets: vec![set_of(pod)], pods: vec![pod] };
    match others {
        [] => make(pass, &plea),
        [one] if !one.facts.has_quota() && !one.facts.deleting => rewrite(pass, one, &plea),
        _ => others.iter().for_each(|other| pass.delete_not_matching(other, Some(pod))),
    }
}

/// A Workload that the user made for one pod.
fn prebuilt(pass: &mut Pass<'_>, pod: &Member, name: &Text) {
    let Some(workload) = pass.seen.workloads.iter().find(|it| it.facts.name == *name) else {
        if pod.terminated() {
            pass.let_go([pod]);
        }
        pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, stop::MISSING);
        return pass.hold(Hold::Prebuilt(name.clone()));
    };
    let facts = &workload.facts;
    if facts.controller().is_some_and(|owner| owner.uid != pod.this.uid) {
        pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, stop::NOT_MATCHING);
        return pass.hold(Hold::NameConflict(name.clone()));
    }
    if !facts.is_finished() && !is_like(pass, facts, pod) {
        let end = Ended { reason: reasons::OUT_OF_SYNC, message: messages::OUT_OF_SYNC.to_owned() };
        pass.stop(&[pod], reasons::NO_MATCHING_WORKLOAD, stop::NOT_MATCHING);
        return pass.finish(workload, end, &[]);
    }
    if facts.controller().is_none() {
        let owner = Owner::controller_tree("v1", "Pod", &pod.this.name, &pod.this.uid);
        return pass.add(Action::AddOwners(workload.this(), vec![owner]));
    }
    with_workload(pass, pod, workload);
}

fn with_workload(pass: &mut Pass<'_>, pod: &Member, workload: &SeenWorkload) {
    let facts = &workload.facts;
    if facts.is_finished() {
        pass.let_go([pod]);
        return pass.let_workload_go(workload);
    }
    if facts.deleting {
        return pass.follow_deleted(workload, &[pod]);
    }
    if pod.terminated() {
        return pass.finish(workload, how_it_ended(pod), &[pod]);
    }
    if pass.tell_ready(workload, &[pod]) || pass.follow_priority(workload, &[pod]) {
        return;
    }
    if facts.is_evicted() && pass.evict(workload, &[pod]) {
        return;
    }
    if facts.is_admitted() && !facts.is_evicted() {
        let Some(set) = facts.pod_sets.first() else { return };
        let by_set = BySet::from([(set.name.clone(), vec![pod])]);
        return pass.start(workload, &by_set, &[pod]);
    }
    pass.stop_unadmitted(&[pod]);
    pass.tell_checks(workload, &[pod]);
    pass.follow_queue(workload, &pod.queue, &[pod]);
}

fn how_it_ended(pod: &Member) -> Ended {
    let reason = if pod.phase == Phase::Succeeded { reasons::SUCCEEDED } else { reasons::FAILED };
    Ended { reason, message: pod.tree.str_at(path::MESSAGE).to_owned() }
}
