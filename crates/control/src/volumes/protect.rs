//! Keeps what is in use: a claim while a pod on a node uses it, a volume while it is bound.

use muster_api::condition::{self, Wanted};
use muster_api::paths::{claim as claim_path, pod as pod_path, volume as volume_path};
use muster_api::pod::{self, Phase};
use muster_api::port::{Kind, Object, Part};
use muster_api::time::Time;
use muster_api::words::{finalizers, managers};
use muster_api::{kinds, meta, volume};
use muster_tree::{Text, Tree};

use super::{look, write};
use crate::plan::{Plan, Step, Want};

/// Adds what is missing, or takes away what keeps an unused volume; `None` when there is nothing to do.
pub fn volume(it: &Object) -> Option<Plan> {
    let used = it.tree.str_at(volume_path::PHASE) == "Bound";
    change(it, &kinds::VOLUMES, &managers::VOLUME_PROTECTION, finalizers::PV_PROTECTION, used)
}

/// The same for a claim and the pods that name it.
pub fn claim<'a, I: Iterator<Item = &'a Object>>(it: &Object, using: impl Fn() -> I) -> Option<Plan> {
    let used = using().any(|pod| keeps(pod, it));
    let mut plan = change(it, &kinds::CLAIMS, &managers::CLAIM_PROTECTION, finalizers::PVC_PROTECTION, used)?;
    if meta::deleting(&it.tree).is_some() {
        // Pods that had no node when last heard of may have one by now.
        let unchanged = using().map(|pod| {
            let name = look(&kinds::PODS, &meta::namespace(&pod.tree), &meta::name(&pod.tree));
            Step::Look(name, Want::Unchanged(pod.revision))
        });
        plan.steps = unchanged.chain(plan.steps).collect();
    }
    Some(plan)
}

fn change(it: &Object, kind: &Kind, by: &Text, finalizer: &str, used: bool) -> Option<Plan> {
    let kept = meta::has_finalizer(&it.tree, finalizer);
    let patch = match (meta::deleting(&it.tree).is_some(), kept) {
        (true, true) if !used => meta::without_finalizer(&it.tree, finalizer),
        (false, false) => volume::protected(&it.tree, finalizer),
        _ => return None,
    };
    Some(Plan::of(vec![write(by, kind, it, Part::Main, patch)]))
}

/// Whether a pod keeps a claim from going.
fn keeps(it: &Object, claim: &Object) -> bool {
    let placed = !it.tree.str_at(pod_path::NODE_NAME).is_empty();
    let shut_down = meta::deleting(&it.tree).is_some() && meta::grace_secs(&it.tree) == 0;
    placed && uses(it, claim, |own| !own || !shut_down)
}

/// Whether a pod names a claim; `counts` says whether it counts, given whether the claim was made for the pod.
fn uses(it: &Object, claim: &Object, counts: impl Fn(bool) -> bool) -> bool {
    let name = meta::name(&claim.tree);
    let owned = || meta::controller(&claim.tree).is_some_and(|owner| owner.uid == meta::uid(&it.tree));
    pod::claims(&it.tree).any(|used| {
        let own = used.made_for.is_some();
        used.claim == name && counts(own) && (!own || owned())
    })
}

/// Says of a bound claim whether any pod uses it; `None` when it says so already.
pub fn unused<'a, I: Iterator<Item = &'a Object>>(
    it: &Object,
    using: impl Fn() -> I,
    now: Time,
) -> Option<Plan> {
    if it.tree.str_at(claim_path::PHASE) != "Bound" || meta::deleting(&it.tree).is_some() {
        return None;
    }
    let ended = |pod: &Object| Phase::of(pod.tree.str_at(pod_path::PHASE)).ended();
    let used = using().any(|pod| !ended(pod) && uses(pod, it, |_| true));
    let (reason, message) = match used {
        true => ("PodUsingPVC", "A pod is currently referencing this PVC"),
        false => ("NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    let mut all = it.tree.items_at(claim_path::CONDITIONS).to_vec();
    let wanted = Wanted { kind: "Unused", holds: !used, reason, message };
    if !condition::set(&mut all, &wanted, now) {
        return None;
    }
    let patch = Tree::Null.with(claim_path::CONDITIONS, Tree::list(all));
    Some(Plan::of(vec![write(&managers::CLAIM_PROTECTION, &kinds::CLAIMS, it, Part::Status, patch)]))
}
