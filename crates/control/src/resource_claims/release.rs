//! Releases ResourceClaims: stale reservations first, then the allocation, then the finalizer, then the claim.

use std::collections::BTreeSet;

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Preconditions, RequestVerb, Subresource, Uid,
};
use muster_api::consts::{finalizers, managers};
use muster_api::paths::resource_claim as path;
use muster_api::{kinds, meta, resource_claim};
use muster_tree::Text;

use super::{is_bare, write};
use crate::cache::Caches;
use crate::controller::{ObjectKey, Precondition, Reconciled, Step};

/// Claims deallocated here that still have their finalizer. Only these lose it without being deleted: the scheduler may be about
/// to allocate others.
#[derive(Debug, Default)]
pub(super) struct Releases(BTreeSet<ObjectKey>);

/// The state of a consumer.
enum Consumer {
    Here,
    Stale,
    /// Not in the cache: it has to be read live.
    Unknown(Text),
}

impl Releases {
    pub(super) fn forget(&mut self, key: &ObjectKey) {
        self.0.remove(key);
    }

    pub(super) fn plan(&mut self, key: &ObjectKey, object: &ApiObject, caches: &Caches) -> Reconciled {
        let consumers = resource_claim::consumers(&object.tree);
        let state = |it: &resource_claim::ClaimConsumer| consumer(it, &key.namespace, caches);
        let all: Vec<(Uid, Consumer)> = consumers.iter().map(|it| (it.uid.clone(), state(it))).collect();
        if all.iter().any(|(_, it)| !matches!(it, Consumer::Here)) {
            return self.remove(key, object, &all);
        }
        if !all.is_empty() {
            self.0.remove(key);
            return Reconciled::done();
        }
        let protected = meta::has_finalizer(&object.tree, finalizers::CLAIM_PROTECTION);
        let deleting = meta::deletion_timestamp(&object.tree).is_some();
        if protected && deleting && !is_bare(&object.tree) {
            return Reconciled::with_steps(vec![Step::Request(write(
                object,
                Subresource::Status,
                RequestVerb::MergePatch(resource_claim::deallocate_patch()),
            ))]);
        }
        if protected && is_bare(&object.tree) && (deleting || self.0.contains(key)) {
            let act = RequestVerb::MergePatch(meta::remove_finalizer_merge_patch(
                &object.tree,
                finalizers::CLAIM_PROTECTION,
            ));
            return Reconciled::with_steps(vec![Step::Request(write(object, Subresource::Main, act))]);
        }
        if object.tree.at(path::ALLOCATION).is_some() || !protected {
            self.0.remove(key);
        }
        if !deleting && is_over(object, caches) {
            return Reconciled::with_steps(vec![Step::Request(delete(object))]);
        }
        Reconciled::done()
    }

    /// Removes stale reservations, after a live read of consumers that are not in the cache.
    fn remove(&mut self, key: &ObjectKey, object: &ApiObject, all: &[(Uid, Consumer)]) -> Reconciled {
        let mut steps = Vec::new();
        for (uid, it) in all {
            if let Consumer::Unknown(name) = it {
                let on = ObjectKey::new(&kinds::PODS, &key.namespace, name).target(Subresource::Main);
                let call = ApiRequest {
                    field_manager: managers::CLAIMS.clone(),
                    target: on,
                    preconditions: Preconditions::default(),
                    verb: RequestVerb::Get,
                };
                steps.push(Step::Precondition(call, Precondition::Deleted(uid.clone())));
            }
        }
        let stays = |uid: &Uid| all.iter().any(|(it, state)| it == uid && matches!(state, Consumer::Here));
        let act = RequestVerb::MergePatch(resource_claim::remove_consumers_patch(&object.tree, stays));
        steps.push(Step::Request(write(object, Subresource::Status, act)));
        self.0.insert(key.clone());
        Reconciled::with_steps(steps)
    }
}

fn consumer(it: &resource_claim::ClaimConsumer, namespace: &Text, caches: &Caches) -> Consumer {
    // A consumer that is not a pod is kept.
    let Some(name) = &it.pod else { return Consumer::Here };
    match caches.get(&kinds::PODS, namespace, name) {
        None => Consumer::Unknown(name.clone()),
        Some(pod) if meta::uid(&pod.tree) != it.uid || resource_claim::is_done_with_claims(&pod.tree) => {
            Consumer::Stale
        }
        Some(_) => Consumer::Here,
    }
}

/// Whether the owner pod of a generated claim has terminated. The claim of a deleted pod is garbage-collected.
fn is_over(object: &ApiObject, caches: &Caches) -> bool {
    let Some((name, uid, _)) = resource_claim::owner_pod(&object.tree) else { return false };
    let pod = caches.get(&kinds::PODS, &meta::namespace(&object.tree), &name);
    pod.is_some_and(|pod| meta::uid(&pod.tree) != uid || resource_claim::is_done_with_claims(&pod.tree))
}

fn delete(object: &ApiObject) -> ApiRequest {
    let on = meta::target(&kinds::RESOURCE_CLAIMS, &object.tree, Subresource::Main);
    ApiRequest::delete(managers::CLAIMS.clone(), on, meta::uid(&object.tree), DeletionPropagation::Background)
}
