//! The pvc-protection and pv-protection finalizers: a claim stays while a scheduled pod uses it, a volume while it is bound.

use muster_api::client::{ApiObject, Kind, Subresource};
use muster_api::condition::{self, DesiredCondition};
use muster_api::consts::{finalizers, managers};
use muster_api::paths::{claim as claim_path, pod as pod_path, volume as volume_path};
use muster_api::pod::{self, PodPhase};
use muster_api::time::Time;
use muster_api::{kinds, meta, volume};
use muster_tree::{Text, Tree};

use super::{look, write};
use crate::controller::{Precondition, Reconciled, Step};

/// Adds the missing finalizer of a volume, or removes that of an unused, deleted one.
pub fn volume(it: &ApiObject) -> Option<Reconciled> {
    let used = it.tree.str_at(volume_path::PHASE) == "Bound";
    change(it, &kinds::PERSISTENT_VOLUMES, &managers::VOLUME_PROTECTION, finalizers::PV_PROTECTION, used)
}

/// The same for a claim and the pods that name it.
pub fn claim<'a, I: Iterator<Item = &'a ApiObject>>(
    it: &ApiObject,
    using: impl Fn() -> I,
) -> Option<Reconciled> {
    let used = using().any(|pod| keeps(pod, it));
    let mut plan = change(
        it,
        &kinds::PERSISTENT_VOLUME_CLAIMS,
        &managers::CLAIM_PROTECTION,
        finalizers::PVC_PROTECTION,
        used,
    )?;
    if meta::deletion_timestamp(&it.tree).is_some() {
        // A pod that is unscheduled in the cache may be bound by now: read it live.
        let unchanged = using().map(|pod| {
            let name = look(&kinds::PODS, &meta::namespace(&pod.tree), &meta::name(&pod.tree));
            Step::Precondition(name, Precondition::Unchanged(pod.revision))
        });
        plan.steps = unchanged.chain(plan.steps).collect();
    }
    Some(plan)
}

fn change(it: &ApiObject, kind: &Kind, by: &Text, finalizer: &str, used: bool) -> Option<Reconciled> {
    let kept = meta::has_finalizer(&it.tree, finalizer);
    let patch = match (meta::deletion_timestamp(&it.tree).is_some(), kept) {
        (true, true) if !used => meta::remove_finalizer_merge_patch(&it.tree, finalizer),
        (false, false) => volume::protected(&it.tree, finalizer),
        _ => return None,
    };
    Some(Reconciled::with_steps(vec![write(by, kind, it, Subresource::Main, patch)]))
}

/// Whether a pod blocks the deletion of a claim.
fn keeps(it: &ApiObject, claim: &ApiObject) -> bool {
    let placed = !it.tree.str_at(pod_path::NODE_NAME).is_empty();
    let shut_down = meta::deletion_timestamp(&it.tree).is_some() && meta::deletion_grace_secs(&it.tree) == 0;
    placed && uses(it, claim, |own| !own || !shut_down)
}

/// Whether a pod names a claim; `counts` says whether it counts, given whether the claim was made for the pod.
fn uses(it: &ApiObject, claim: &ApiObject, counts: impl Fn(bool) -> bool) -> bool {
    let name = meta::name(&claim.tree);
    let owned = || meta::controller_of(&claim.tree).is_some_and(|owner| owner.uid == meta::uid(&it.tree));
    pod::volume_claims(&it.tree).any(|used| {
        let own = used.ephemeral_volume.is_some();
        used.claim == name && counts(own) && (!own || owned())
    })
}

/// Updates the condition of a bound claim that says whether a pod uses it; `None` if unchanged.
pub fn unused<'a, I: Iterator<Item = &'a ApiObject>>(
    it: &ApiObject,
    using: impl Fn() -> I,
    now: Time,
) -> Option<Reconciled> {
    if it.tree.str_at(claim_path::PHASE) != "Bound" || meta::deletion_timestamp(&it.tree).is_some() {
        return None;
    }
    let ended = |pod: &ApiObject| PodPhase::of(pod.tree.str_at(pod_path::PHASE)).is_terminal();
    let used = using().any(|pod| !ended(pod) && uses(pod, it, |_| true));
    let (reason, message) = match used {
        true => ("PodUsingPVC", "A pod is currently referencing this PVC"),
        false => ("NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let mut all = it.tree.items_at(claim_path::CONDITIONS).to_vec();
    let wanted = DesiredCondition { condition_type: "Unused", status: !used, reason, message };
    if !condition::set(&mut all, &wanted, now) {
        return None;
    }
    let patch = Tree::Null.with(claim_path::CONDITIONS, Tree::list(all));
    Some(Reconciled::with_steps(vec![write(
        &managers::CLAIM_PROTECTION,
        &kinds::PERSISTENT_VOLUME_CLAIMS,
        it,
        Subresource::Status,
        patch,
    )]))
}
