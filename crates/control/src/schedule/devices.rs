//! ResourceClaims: watch events for the scheduler, and the requests before a pod is bound.
//!
//! A claim gets its finalizer first, then its allocation together with the reservation for the pod, in one write with a
//! `resourceVersion` precondition: two writers cannot both succeed. The pod is bound when all its claims are reserved for it.

use muster_api::client::{ApiError, ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource};
use muster_api::consts::{finalizers, managers};
use muster_api::paths::{meta as meta_path, resource_claim as path};
use muster_api::time::Time;
use muster_api::{kinds, meta, resource_claim};
use muster_scheduler::Scheduler;
use muster_scheduler::devices::{ClaimAction, ClaimBindTask, ClaimKey, RequeueScope};
use muster_tree::Text;

use super::{PreBind, steps};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, Reconciled, Step};

/// The kinds to watch.
pub fn kinds() -> Vec<Kind> {
    [&kinds::RESOURCE_CLAIMS, &kinds::RESOURCE_SLICES, &kinds::DEVICE_CLASSES].map(Clone::clone).to_vec()
}

/// Feeds a watch event to the scheduler; returns the pods that may wait for it.
pub fn on_event(scheduler: &mut Scheduler, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ObjectKey> {
    let name = &seen.key.name;
    match &seen.key.kind {
        kind if *kind == kinds::RESOURCE_CLAIMS => return on_claim_event(scheduler, seen),
        kind if *kind == kinds::RESOURCE_SLICES => scheduler.update_devices(|book| match seen.new {
            Some(_) if same_spec(seen) => RequeueScope::default(),
            Some(slice) => book.update_slice(&slice.tree),
            None => book.delete_slice(name),
        }),
        kind if *kind == kinds::DEVICE_CLASSES => scheduler.update_devices(|book| match seen.new {
            Some(_) if same_spec(seen) => RequeueScope::default(),
            Some(class) => book.update_class(&class.tree),
            None => book.delete_class(name),
        }),
        _ => {}
    }
    Vec::new()
}

fn same_spec(seen: &WatchEvent<'_>) -> bool {
    let spec = |object: Option<&ApiObject>| object.and_then(|it| it.tree.get("spec")).cloned();
    seen.old.is_some() && spec(seen.old) == spec(seen.new)
}

fn on_claim_event(scheduler: &mut Scheduler, seen: &WatchEvent<'_>) -> Vec<ObjectKey> {
    let key: ClaimKey = (seen.key.namespace.clone(), seen.key.name.clone());
    let users = scheduler.pods_using_claim(&key);
    scheduler.update_devices(|book| match seen.new {
        Some(claim) => book.update_claim(claim),
        None => book.delete_claim(&key),
    });
    users.iter().map(|(namespace, name)| ObjectKey::new(&kinds::PODS, namespace, name)).collect()
}

/// Allocates and reserves a claim for a pod.
pub fn run(
    scheduler: &mut Scheduler,
    pod: &ApiObject,
    errand: &ClaimBindTask,
    caches: &Caches,
    now: Time,
) -> PreBind {
    let (namespace, name) = &errand.claim;
    let claim = caches.get(&kinds::RESOURCE_CLAIMS, namespace, name);
    let Some(claim) = claim.filter(|it| meta::deletion_timestamp(&it.tree).is_none()) else {
        return PreBind::Failed;
    };
    let allocation = match &errand.action {
        ClaimAction::Stale => return PreBind::Failed,
        ClaimAction::Reserve => None,
        ClaimAction::Allocate(_) if !meta::has_finalizer(&claim.tree, finalizers::CLAIM_PROTECTION) => {
            let act = RequestVerb::MergePatch(resource_claim::add_finalizer_patch(&claim.tree));
            return after(call(steps::scheduler_of(pod), claim, Subresource::Main, act));
        }
        ClaimAction::Allocate(allocation) => {
            scheduler.update_devices(|book| {
                book.allocation_sent(&errand.claim, claim.revision);
                RequeueScope::default()
            });
            Some(allocation)
        }
    };
    let patch = resource_claim::reserve_patch(&claim.tree, &pod.tree, allocation, now);
    after(call(steps::scheduler_of(pod), claim, Subresource::Status, RequestVerb::MergePatch(patch)))
}

/// A PreBind request failed. The assumed allocation is dropped only if the request certainly did not happen.
pub fn on_request_error(scheduler: &mut Scheduler, call: &ApiRequest, why: &ApiError) {
    let writes = call.target.kind == kinds::RESOURCE_CLAIMS && call.target.subresource == Subresource::Status;
    // A request whose reply was lost may have happened, and a conflict may be caused by an own request whose reply was lost.
    let never = matches!(
        why,
        ApiError::NotFound(_)
            | ApiError::Invalid(_)
            | ApiError::Forbidden(_)
            | ApiError::TooManyRequests { .. }
    );
    if writes && never {
        let key = (call.target.namespace.clone(), call.target.name.clone());
        scheduler.update_devices(|book| book.allocation_not_written(&key));
    }
}

/// Deallocates devices that keep an unschedulable pod from other nodes and that no other pod uses. Where it is not known
/// whether they were allocated, removing the finalizer makes the outstanding allocation fail with a conflict.
pub fn deallocate(scheduler: &Scheduler, pod: &ApiObject, caches: &Caches) -> Option<Step> {
    let by = steps::scheduler_of(pod);
    let (namespace, name) =
        scheduler.deallocatable_claim(&(meta::namespace(&pod.tree), meta::name(&pod.tree)))?;
    let claim = caches.get(&kinds::RESOURCE_CLAIMS, &namespace, &name)?;
    let given = claim.tree.at(path::ALLOCATION).is_some();
    let step = if given {
        call(by, claim, Subresource::Status, RequestVerb::MergePatch(resource_claim::deallocate_patch()))
    } else {
        let bare = meta::remove_finalizer_merge_patch(&claim.tree, finalizers::CLAIM_PROTECTION);
        call(by, claim, Subresource::Main, RequestVerb::MergePatch(bare))
    };
    Some(Step::Request(step))
}

/// Resolves claims whose allocation is unknown and that no pod waits for any more: whether a write to them succeeds or
/// conflicts, the result shows the live allocation.
pub fn resolve_unknown_allocations(scheduler: &Scheduler, caches: &Caches) -> Vec<Step> {
    let doubtful = scheduler.indeterminate_claims();
    let claims =
        doubtful.iter().filter_map(|(namespace, name)| caches.get(&kinds::RESOURCE_CLAIMS, namespace, name));
    let bare = |claim: &ApiObject| {
        RequestVerb::MergePatch(meta::remove_finalizer_merge_patch(&claim.tree, finalizers::CLAIM_PROTECTION))
    };
    let touch = claims.map(|claim| call(managers::SCHEDULER.clone(), claim, Subresource::Main, bare(claim)));
    let touch: Vec<ApiRequest> = touch.collect();
    if touch.is_empty() { Vec::new() } else { vec![Step::Parallel(touch)] }
}

fn after(call: ApiRequest) -> PreBind {
    PreBind::Pending(Reconciled::with_steps(vec![Step::Request(call)]))
}

fn call(by: Text, claim: &ApiObject, part: Subresource, act: RequestVerb) -> ApiRequest {
    debug_assert!(claim.tree.at(meta_path::UID).is_some(), "a claim in a cache was created");
    ApiRequest {
        field_manager: by,
        target: meta::target(&kinds::RESOURCE_CLAIMS, &claim.tree, part),
        preconditions: Preconditions { uid: Some(meta::uid(&claim.tree)), revision: Some(claim.revision) },
        verb: act,
    }
}
