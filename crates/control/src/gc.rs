//! The garbage collector: owner references and the three propagation policies.
//!
//! - Background: an object without an existing owner is deleted; references to absent owners beside an existing one are removed.
//! - Foreground: an owner stays until its blocking dependents are deleted.
//! - Orphan: the owner references of the dependents are removed before the owner is deleted.
//!
//! # Guarantees
//!
//! - Before an object is deleted for lack of owners, each owner is read live: a lagging cache deletes nothing.
//! - A delete carries the UID and the `resourceVersion` that the decision was made for.

use muster_api::client::{
    ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget, RequestVerb, Subresource,
    Uid,
};
use muster_api::consts::{finalizers, managers, reasons};
use muster_api::event::{Event, EventType, ObjectReference};
use muster_api::meta::{self, OwnerReference};
use muster_api::time::Time;
use muster_api::{kinds, paths::meta as meta_path, paths::owner as owner_path};
use muster_tree::{Text, Tree};

use crate::cache::{Caches, WatchEvent};
use crate::controller::{Controller, ObjectKey, Precondition, ReconcileRequest, Reconciled, Step};

/// Dependents orphaned in one step.
const DEPENDENTS_PER_STEP_MAX: usize = 500;

/// The garbage collector.
#[derive(Debug, Default)]
pub struct GarbageCollector;

impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        "gc"
    }

    fn kinds(&self) -> Vec<Kind> {
        vec![kinds::CRDS.clone()]
    }

    fn watches_all_kinds(&self) -> bool {
        true
    }

    fn map_event(&mut self, seen: &WatchEvent<'_>, caches: &Caches) -> Vec<ReconcileRequest> {
        let tree = &seen.latest().tree;
        let metadata =
            |object: Option<&ApiObject>| object.and_then(|object| object.tree.get("metadata").cloned());
        if metadata(seen.old) == metadata(seen.new) {
            return Vec::new();
        }
        let mut keys: Vec<ReconcileRequest> = Vec::new();
        if seen.new.is_some() {
            if !tree.items_at(meta_path::OWNERS).is_empty() || meta::deletion_timestamp(tree).is_some() {
                keys.push(seen.key.clone().into());
            }
        } else {
            keys.extend(caches.owned_by(&meta::uid(tree)).map(|(key, _)| key.clone().into()));
        }
        // An owner in foreground deletion is reconciled whenever one of its dependents changes.
        let was = seen.old.map(|before| &before.tree).into_iter().chain([tree]);
        let waiting = was.flat_map(meta::owner_references).filter_map(|owner| caches.by_uid(&owner.uid));
        keys.extend(waiting.filter(|(_, owner)| is_waiting(&owner.tree)).map(|(key, _)| key.clone().into()));
        keys
    }

    fn reconcile(&mut self, key: &ObjectKey, caches: &Caches, _now: Time) -> Reconciled {
        let Some(object) = caches.find(key) else {
            return Reconciled::done();
        };
        let deleting = meta::deletion_timestamp(&object.tree).is_some();
        if deleting && meta::has_finalizer(&object.tree, finalizers::ORPHAN) {
            return orphan(key, object, caches);
        }
        if is_waiting(&object.tree) {
            return foreground(key, object, caches);
        }
        if deleting { Reconciled::done() } else { judge(key, object, caches) }
    }
}

fn is_waiting(tree: &Tree) -> bool {
    meta::deletion_timestamp(tree).is_some() && meta::has_finalizer(tree, finalizers::FOREGROUND)
}

/// Removes the owner reference from the dependents, then the orphan finalizer from the owner.
fn orphan(key: &ObjectKey, owner: &ApiObject, caches: &Caches) -> Reconciled {
    let uid = meta::uid(&owner.tree);
    let forget = |(key, object): (&ObjectKey, &ApiObject)| {
        let patch = meta::retain_owners_patch(&object.tree, |owner| owner.uid != uid);
        guarded(key, object, RequestVerb::MergePatch(patch))
    };
    let calls: Vec<ApiRequest> = caches.owned_by(&uid).map(forget).collect();
    let mut steps: Vec<Step> =
        calls.chunks(DEPENDENTS_PER_STEP_MAX).map(|chunk| Step::Parallel(chunk.to_vec())).collect();
    steps.push(Step::Request(guarded(
        key,
        owner,
        RequestVerb::MergePatch(meta::remove_finalizer_merge_patch(&owner.tree, finalizers::ORPHAN)),
    )));
    Reconciled::with_steps(steps)
}

/// Deletes the blocking dependents, then removes the foreground finalizer from the owner.
fn foreground(key: &ObjectKey, owner: &ApiObject, caches: &Caches) -> Reconciled {
    let uid = meta::uid(&owner.tree);
    let blocking: Vec<&ObjectKey> =
        caches.owned_by(&uid).filter(|(_, d)| blocks(&d.tree, &uid)).map(|(key, _)| key).collect();
    if blocking.is_empty() {
        let patch = meta::remove_finalizer_merge_patch(&owner.tree, finalizers::FOREGROUND);
        return Reconciled::with_steps(vec![Step::Request(guarded(
            key,
            owner,
            RequestVerb::MergePatch(patch),
        ))]);
    }
    Reconciled { enqueue: blocking.into_iter().cloned().collect(), ..Reconciled::default() }
}

fn blocks(dependent: &Tree, uid: &Uid) -> bool {
    meta::owner_references(dependent).any(|owner| owner.uid == *uid && owner.block_owner_deletion)
}

/// The state of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It exists.
    Solid,
    /// It is in foreground deletion and waits for this dependent.
    Waiting,
    /// It is not in the cache.
    Absent,
    /// It exists in another namespace: a cross-namespace reference is invalid.
    Elsewhere,
}

fn standing(key: &ObjectKey, owner: &OwnerReference, caches: &Caches) -> Standing {
    match caches.by_uid(&owner.uid) {
        None => Standing::Absent,
        Some((at, _)) if !at.namespace.is_empty() && at.namespace != key.namespace => Standing::Elsewhere,
        Some((at, _)) if at.name != owner.name => Standing::Absent,
        Some((_, live)) if owner.block_owner_deletion && is_waiting(&live.tree) => Standing::Waiting,
        Some(_) => Standing::Solid,
    }
}

/// Deletes an object without existing owners.
fn judge(key: &ObjectKey, object: &ApiObject, caches: &Caches) -> Reconciled {
    let owners: Vec<(OwnerReference, Standing)> = meta::owner_references(&object.tree)
        .map(|owner| (owner.clone(), standing(key, &owner, caches)))
        .collect();
    let any = |wanted: Standing| owners.iter().any(|(_, standing)| *standing == wanted);
    if owners.iter().all(|(_, standing)| *standing == Standing::Solid) {
        return Reconciled::done();
    }
    let mut steps = Vec::new();
    for (owner, standing) in &owners {
        match standing {
            Standing::Absent => match look(key, owner, caches) {
                Some(look) => steps.push(look),
                // The kind is not served: absence of the owner cannot be verified.
                None => return Reconciled::done(),
            },
            Standing::Elsewhere => steps.push(Step::Event(elsewhere(key, object, owner))),
            _ => {}
        }
    }
    if any(Standing::Solid) {
        let solid: Vec<&Uid> =
            owners.iter().filter(|(_, s)| *s == Standing::Solid).map(|(o, _)| &o.uid).collect();
        let patch = meta::retain_owners_patch(&object.tree, |owner| solid.contains(&&owner.uid));
        steps.push(Step::Request(guarded(key, object, RequestVerb::MergePatch(patch))));
        return Reconciled::with_steps(steps);
    }
    let uid = meta::uid(&object.tree);
    // In a cycle of owners in foreground deletion each object would block the next for ever. This object stops blocking its
    // owners (`blockOwnerDeletion: false`), as upstream does: the others are deleted in order, and then it has no owner.
    if any(Standing::Waiting) && caches.owned_by(&uid).any(|(_, dependent)| is_waiting(&dependent.tree)) {
        return Reconciled::with_steps(vec![Step::Request(guarded(
            key,
            object,
            RequestVerb::MergePatch(unblocking(&object.tree)),
        ))]);
    }
    let cascade = match () {
        () if any(Standing::Waiting) && caches.owned_by(&uid).next().is_some() => {
            DeletionPropagation::Foreground
        }
        () if meta::has_finalizer(&object.tree, finalizers::ORPHAN) => DeletionPropagation::Orphan,
        () if meta::has_finalizer(&object.tree, finalizers::FOREGROUND) => DeletionPropagation::Foreground,
        () => DeletionPropagation::Background,
    };
    let mut delete = ApiRequest::delete(managers::GC.clone(), key.target(Subresource::Main), uid, cascade);
    delete.preconditions.revision = Some(object.revision);
    steps.push(Step::Request(delete));
    Reconciled::with_steps(steps)
}

/// A merge patch that sets `blockOwnerDeletion` to false for all owners.
fn unblocking(object: &Tree) -> Tree {
    let free = |owner: &Tree| owner.with(owner_path::BLOCKS, false);
    Tree::Null.with(meta_path::OWNERS, Tree::list(object.items_at(meta_path::OWNERS).iter().map(free)))
}

/// A live read of an owner that is not in the cache.
fn look(key: &ObjectKey, owner: &OwnerReference, caches: &Caches) -> Option<Step> {
    let (kind, namespaced) = kind_of(owner, caches)?;
    let namespace = if namespaced { key.namespace.clone() } else { Text::new() };
    if namespaced && namespace.is_empty() {
        return None;
    }
    let on = RequestTarget { kind, namespace, name: owner.name.clone(), subresource: Subresource::Main };
    let call = ApiRequest {
        field_manager: managers::GC.clone(),
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    };
    Some(Step::Precondition(call, Precondition::Deleted(owner.uid.clone())))
}

/// The kind an owner reference names, and whether it is namespaced.
fn kind_of(owner: &OwnerReference, caches: &Caches) -> Option<(Kind, bool)> {
    let group = owner.group();
    let custom = caches.all(&kinds::CRDS).find_map(|crd| {
        let spec = crd.tree.get("spec")?;
        let is = spec.str_at(&["group"]) == group && spec.str_at(&["names", "kind"]) == owner.kind;
        is.then(|| (spec.text_at(&["names", "plural"]), spec.str_at(&["scope"]) == "Namespaced"))
    });
    let found = |is: &dyn Fn(&str) -> bool| {
        caches.kinds().find(|kind| kind.group == group && is(&kind.plural)).cloned()
    };
    match custom {
        Some((plural, namespaced)) => found(&|known| known == plural).map(|kind| (kind, namespaced)),
        None => {
            let kind = found(&|known| kinds::is_plural(known, &owner.kind))?;
            let namespaced = !kinds::is_cluster_scoped(&kind);
            Some((kind, namespaced))
        }
    }
}

fn guarded(key: &ObjectKey, object: &ApiObject, act: RequestVerb) -> ApiRequest {
    let guard = Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) };
    ApiRequest {
        field_manager: managers::GC.clone(),
        target: key.target(Subresource::Main),
        preconditions: guard,
        verb: act,
    }
}

fn elsewhere(key: &ObjectKey, object: &ApiObject, owner: &OwnerReference) -> Event {
    let about = ObjectReference::of(&key.kind, &meta::kind_name(&object.tree), &object.tree);
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace \"{}\"",
        owner.api_version, owner.kind, key.namespace, owner.name, owner.uid, key.namespace
    );
    Event {
        action: Text::new(),
        reporting_controller: managers::GC.clone(),
        regarding: about,
        event_type: EventType::Warning,
        reason: reasons::OWNER_REF_INVALID_NAMESPACE.into(),
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use muster_api::client::WatchChange;
    use muster_tree::tree;

    use super::*;

    /// A pod owned by another pod.
    fn pod(name: &str, owner: &str, is_deleted: bool) -> Tree {
        let pod = tree!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "n", "uid": name, "ownerReferences": [{"apiVersion": "v1",
                "kind": "Pod", "name": owner, "uid": owner, "controller": true, "blockOwnerDeletion": true}]}});
        if !is_deleted {
            return pod;
        }
        pod.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")
            .with(&["metadata", "finalizers"], Tree::list([finalizers::FOREGROUND]))
    }

    fn acts(pods: &[Tree], name: &str) -> Vec<RequestVerb> {
        let mut caches = Caches::default();
        for tree in pods {
            caches.apply_watch_change(
                &kinds::PODS,
                WatchChange::Applied(ApiObject { tree: tree.clone(), revision: 1 }),
            );
        }
        let key = ObjectKey::new(&kinds::PODS, &"n".into(), &name.into());
        let steps = GarbageCollector.reconcile(&key, &caches, Time(0)).steps;
        let act = |step| match step {
            Step::Request(call) => Some(call.verb),
            _ => None,
        };
        steps.into_iter().filter_map(act).collect()
    }

    #[test]
    fn a_circle_of_owners_is_opened_where_it_closes() {
        let circle = [pod("a", "c", true), pod("b", "a", true), pod("c", "b", false)];
        let [RequestVerb::MergePatch(patch)] = &acts(&circle, "c")[..] else { panic!("a patch") };
        let owner = &patch.items_at(meta_path::OWNERS)[0];
        assert_eq!((owner.str_at(&["name"]), owner.bool_at(owner_path::BLOCKS)), ("b", Some(false)));
        // Once it blocks no more, each of the others may go.
        let open = [circle[0].clone(), circle[1].clone(), circle[2].merge(patch)];
        let [RequestVerb::MergePatch(patch)] = &acts(&open, "b")[..] else { panic!("a patch") };
        assert_eq!(*patch, meta::remove_finalizer_merge_patch(&open[1], finalizers::FOREGROUND));
    }

    #[test]
    fn an_owner_that_waits_takes_its_dependent_along() {
        let line = [pod("a", "nobody", true), pod("b", "a", false)];
        let [RequestVerb::Delete { propagation_policy: cascade, .. }] = &acts(&line, "b")[..] else {
            panic!("a deletion")
        };
        assert_eq!(*cascade, DeletionPropagation::Background);
    }
}
