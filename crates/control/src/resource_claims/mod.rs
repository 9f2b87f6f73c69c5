//! The ResourceClaim controller: creates claims from templates, and removes stale reservations.
//!
//! - A pod with a ResourceClaimTemplate gets a claim; `status.resourceClaimStatuses` of the pod names it.
//! - A reservation for a pod that is deleted, terminated or recreated is removed. After the last one the devices are deallocated,
//!   and then the finalizer is removed.
//! - A generated claim is deleted when its pod has terminated.
//!
//! # Guarantees
//!
//! - The name of a generated claim is derived from the pod's UID, so that a retried create is idempotent.
//! - Nothing is reserved for unscheduled pods: the scheduler does that.
//! - No reservation is removed because a pod is missing in the cache: the pod is read live first.

mod index;
mod release;

use muster_api::client::{ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource};
use muster_api::consts::{managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::name_suffix::suffix;
use muster_api::paths::{pod as path, resource_claim as claim_path};
use muster_api::time::Time;
use muster_api::{kinds, meta, resource_claim};
use muster_tree::{Text, Tree};

use self::index::Index;
use self::release::Releases;
use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, ReconcileRequest, Reconciled, Step};

/// The claim controller.
#[derive(Debug, Default)]
pub struct ResourceClaimController {
    index: Index,
    releases: Releases,
}

impl Controller for ResourceClaimController {
    fn name(&self) -> &'static str {
        "resourceclaim"
    }

    fn kinds(&self) -> Vec<Kind> {
        let all = [&kinds::PODS, &kinds::RESOURCE_CLAIMS, &kinds::RESOURCE_CLAIM_TEMPLATES];
        all.map(Clone::clone).to_vec()
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ReconcileRequest> {
        let keys = match &seen.key.kind {
            kind if *kind == kinds::PODS => self.pod_wakes(seen),
            kind if *kind == kinds::RESOURCE_CLAIMS => {
                let mut keys = self.index.users(seen.key);
                let owner = resource_claim::owner_pod(&seen.latest().tree);
                keys.extend(owner.map(|(pod, ..)| ObjectKey::new(&kinds::PODS, &seen.key.namespace, &pod)));
                if seen.new.is_some() {
                    keys.push(seen.key.clone());
                } else {
                    self.releases.forget(seen.key);
                }
                keys
            }
            kind if *kind == kinds::RESOURCE_CLAIM_TEMPLATES => self.index.users(seen.key),
            _ => Vec::new(),
        };
        keys.into_iter().map(ReconcileRequest::from).collect()
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let Some(object) = caches.find(key) else {
            return Reconciled::done();
        };
        if key.kind == kinds::RESOURCE_CLAIMS {
            return self.releases.plan(key, object, caches);
        }
        if meta::deletion_timestamp(&object.tree).is_some()
            || resource_claim::is_done_with_claims(&object.tree)
        {
            return Reconciled::done();
        }
        provide(object, caches)
    }
}

impl ResourceClaimController {
    fn pod_wakes(&mut self, seen: &WatchEvent<'_>) -> Vec<ObjectKey> {
        let before = seen.old.map(|pod| resource_claim::pod_claims(&pod.tree)).unwrap_or_default();
        let after = seen.new.map(|pod| resource_claim::pod_claims(&pod.tree)).unwrap_or_default();
        if before.is_empty() && after.is_empty() {
            return Vec::new();
        }
        self.index.change(seen.key, &before, &after);
        if seen.new.is_some_and(|pod| !resource_claim::is_done_with_claims(&pod.tree)) {
            return vec![seen.key.clone()];
        }
        // A terminated pod does not need its claims.
        let named = if after.is_empty() { before } else { after };
        let claims = named.into_iter().filter_map(|it| it.claim);
        claims.map(|name| ObjectKey::new(&kinds::RESOURCE_CLAIMS, &seen.key.namespace, &name)).collect()
    }
}

/// Creates the missing claims of a pod and sets them in its status; reserves those of a scheduled pod.
fn provide(pod: &ApiObject, caches: &Caches) -> Reconciled {
    let named = resource_claim::pod_claims(&pod.tree);
    let (mut creates, mut names, mut news) = (Vec::new(), Vec::new(), false);
    for it in named.iter().filter(|it| !it.template.is_empty()) {
        if let Some(name) = it.claim.as_ref().filter(|name| is_own(pod, name, caches)) {
            names.push((it.pod_claim_name.clone(), name.clone()));
            continue;
        }
        news = true;
        match orphan(pod, &it.pod_claim_name, caches) {
            Some(name) => names.push((it.pod_claim_name.clone(), name)),
            None => match make(pod, it, caches) {
                Ok(call) => {
                    names.push((it.pod_claim_name.clone(), call.target.name.clone()));
                    creates.push(call);
                }
                Err(why) => {
                    return Reconciled::with_steps(vec![Step::Event(complaint(
                        pod,
                        &it.pod_claim_name,
                        &why,
                    ))]);
                }
            },
        }
    }
    let mut steps = Vec::new();
    if !creates.is_empty() {
        steps.push(Step::Parallel(creates));
    }
    if news {
        names.sort();
        let act =
            RequestVerb::Apply { body: resource_claim::claim_statuses_apply(&pod.tree, &names), force: true };
        let on = meta::target(&kinds::PODS, &pod.tree, Subresource::Status);
        let guard = Preconditions { uid: Some(meta::uid(&pod.tree)), revision: None };
        steps.push(Step::Request(ApiRequest {
            field_manager: managers::CLAIMS.clone(),
            target: on,
            preconditions: guard,
            verb: act,
        }));
    }
    steps.extend(reserve(pod, &named, caches));
    Reconciled::with_steps(steps)
}

fn is_own(pod: &ApiObject, name: &Text, caches: &Caches) -> bool {
    let found = caches.get(&kinds::RESOURCE_CLAIMS, &meta::namespace(&pod.tree), name);
    let uid = meta::uid(&pod.tree);
    found.is_some_and(|it| meta::controller_of(&it.tree).is_some_and(|owner| owner.uid == uid))
}

/// A claim generated for the pod that its status does not name yet.
fn orphan(pod: &ApiObject, within: &Text, caches: &Caches) -> Option<Text> {
    let uid = meta::uid(&pod.tree);
    let mut made = caches.owned_by(&uid).filter(|(key, _)| key.kind == kinds::RESOURCE_CLAIMS);
    let ours = |it: &ApiObject| {
        resource_claim::owner_pod(&it.tree).is_some_and(|(_, owner, name)| owner == uid && name == *within)
    };
    made.find(|(_, it)| ours(it)).map(|(key, _)| key.name.clone())
}

/// The create of a claim, under the first free generated name.
fn make(
    pod: &ApiObject,
    it: &resource_claim::PodResourceClaim,
    caches: &Caches,
) -> Result<ApiRequest, String> {
    let namespace = meta::namespace(&pod.tree);
    let template = caches.get(&kinds::RESOURCE_CLAIM_TEMPLATES, &namespace, &it.template);
    let Some(template) = template else {
        let name = &it.template;
        return Err(format!(
            "resource claim template \"{name}\": resourceclaimtemplate.resource.k8s.io \"{name}\" not found"
        ));
    };
    let base = resource_claim::generate_name(&meta::name(&pod.tree), &it.pod_claim_name);
    let seed = format!("{}/{}", meta::uid(&pod.tree), it.pod_claim_name);
    let mut names = (0..).map(|n| Text::from(format!("{base}{}", suffix(&seed, None, n))));
    let free = |name: &Text| caches.get(&kinds::RESOURCE_CLAIMS, &namespace, name).is_none();
    let name = names.find(free).expect("not every name is taken");
    let made = resource_claim::from_template(&template.tree, &pod.tree, &it.pod_claim_name, &name);
    let key = ObjectKey::new(&kinds::RESOURCE_CLAIMS, &namespace, &name);
    Ok(ApiRequest {
        field_manager: managers::CLAIMS.clone(),
        target: key.target(Subresource::Main),
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(made),
    })
}

/// Reserves the claims of a pod that was bound without a reservation, by another scheduler or by `spec.nodeName`.
fn reserve(pod: &ApiObject, named: &[resource_claim::PodResourceClaim], caches: &Caches) -> Option<Step> {
    if pod.tree.str_at(path::NODE_NAME).is_empty() {
        return None;
    }
    let uid = meta::uid(&pod.tree);
    let mut claims = named.iter().filter_map(|it| {
        caches.get(&kinds::RESOURCE_CLAIMS, &meta::namespace(&pod.tree), it.claim.as_ref()?)
    });
    let lacking = claims.find(|it| {
        let reserved = resource_claim::consumers(&it.tree).iter().any(|consumer| consumer.uid == uid);
        it.tree.at(claim_path::ALLOCATION).is_some()
            && !reserved
            && meta::deletion_timestamp(&it.tree).is_none()
    })?;
    let act = RequestVerb::MergePatch(resource_claim::reserve_patch(
        &lacking.tree,
        &pod.tree,
        None,
        Time::default(),
    ));
    Some(Step::Request(write(lacking, Subresource::Status, act)))
}

/// A write with preconditions on what was read.
fn write(claim: &ApiObject, part: Subresource, act: RequestVerb) -> ApiRequest {
    ApiRequest {
        field_manager: managers::CLAIMS.clone(),
        target: meta::target(&kinds::RESOURCE_CLAIMS, &claim.tree, part),
        preconditions: Preconditions { uid: Some(meta::uid(&claim.tree)), revision: Some(claim.revision) },
        verb: act,
    }
}

fn complaint(pod: &ApiObject, within: &Text, why: &str) -> Event {
    Event {
        action: Text::new(),
        reporting_controller: managers::CLAIM_EVENTS.clone(),
        regarding: ObjectReference::of(&kinds::PODS, "Pod", &pod.tree),
        event_type: EventType::Warning,
        reason: reasons::FAILED_CLAIM_CREATION.into(),
        message: format!("PodResourceClaim {within}: {why}").into(),
    }
}

/// Whether a claim has no allocation.
fn is_bare(claim: &Tree) -> bool {
    claim.at(claim_path::ALLOCATION).is_none() && claim.items_at(claim_path::RESERVED_FOR).is_empty()
}

#[cfg(test)]
mod tests;
