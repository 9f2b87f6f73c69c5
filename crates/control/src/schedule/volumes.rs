//! PersistentVolumeClaims: watch events for the scheduler, and the requests before a pod is bound.
//!
//! A claim is bound to a volume, or annotated with the selected node; the volume binder and the provisioner do the rest, and the
//! pod waits for them.

use muster_api::client::{ApiObject, ApiRequest, Kind, Preconditions, RequestVerb, Subresource};
use muster_api::consts::storage;
use muster_api::paths::{csi_driver, csi_node, volume as volume_path};
use muster_api::time::Time;
use muster_api::{kinds, meta, volume};
use muster_scheduler::volumes::{ClaimFacts, ClaimKey, StorageClassFacts, VolumeBindTask, VolumeFacts};
use muster_scheduler::{PodKey, Scheduler};
use muster_tree::{Text, Tree};

use super::{PreBind, steps};
use crate::cache::{Caches, WatchEvent};
use crate::controller::{ObjectKey, Reconciled, Step};

/// The kinds to watch.
pub fn kinds() -> Vec<Kind> {
    [&kinds::PERSISTENT_VOLUME_CLAIMS, &kinds::PERSISTENT_VOLUMES, &kinds::STORAGE_CLASSES, &kinds::CSI_NODES]
        .map(Clone::clone)
        .into()
}

/// Feeds a watch event to the scheduler; returns the pods that may wait for it.
pub fn on_event(scheduler: &mut Scheduler, seen: &WatchEvent<'_>, _caches: &Caches) -> Vec<ObjectKey> {
    let (name, after) = (&seen.key.name, seen.new.map(|it| &it.tree));
    let mut waiting: Vec<PodKey> = Vec::new();
    match &seen.key.kind {
        kind if *kind == kinds::PERSISTENT_VOLUME_CLAIMS => {
            let key: ClaimKey = (seen.key.namespace.clone(), name.clone());
            scheduler.update_volumes(|book| {
                waiting = book.pods_relying_on(&key).to_vec();
                book.update_claim(&key, after.map(ClaimFacts::of))
            });
        }
        kind if *kind == kinds::PERSISTENT_VOLUMES => scheduler.update_volumes(|book| {
            waiting =
                book.assumed_for(name).map(|claim| book.pods_relying_on(claim).to_vec()).unwrap_or_default();
            book.update_volume(name, after.map(VolumeFacts::of))
        }),
        kind if *kind == kinds::STORAGE_CLASSES => {
            scheduler.update_volumes(|book| book.update_class(name, after.map(StorageClassFacts::of)));
        }
        kind if *kind == kinds::CSI_NODES => {
            let limits =
                after.map(|tree| tree.items_at(csi_node::DRIVERS).iter().filter_map(limit).collect());
            scheduler.update_volumes(|book| book.update_limits(name, limits));
        }
        _ => {}
    }
    waiting.iter().map(|(namespace, name)| ObjectKey::new(&kinds::PODS, namespace, name)).collect()
}

fn limit(driver: &Tree) -> Option<(Text, i64)> {
    Some((driver.text_at(csi_driver::NAME), driver.int_at(csi_driver::COUNT)?))
}

/// Binds or provisions a claim for a pod.
pub fn run(pod: &ApiObject, errand: &VolumeBindTask, caches: &Caches, _now: Time) -> PreBind {
    let by = steps::scheduler_of(pod);
    let claim_of =
        |(namespace, name): &ClaimKey| caches.get(&kinds::PERSISTENT_VOLUME_CLAIMS, namespace, name);
    match errand {
        VolumeBindTask::Infeasible => PreBind::Failed,
        VolumeBindTask::Bind { claim, volume } => {
            let volume = caches.get(&kinds::PERSISTENT_VOLUMES, &Text::new(), volume);
            claim_of(claim).zip(volume).map_or(PreBind::Failed, |(claim, volume)| give(by, claim, volume))
        }
        VolumeBindTask::Provision { claim, node } => {
            claim_of(claim).map_or(PreBind::Failed, |claim| ask(by, claim, node))
        }
    }
}

/// Gives a volume to a claim, or waits for the binder to complete it.
fn give(by: Text, claim: &ApiObject, it: &ApiObject) -> PreBind {
    let (facts, of) = (ClaimFacts::of(&claim.tree), VolumeFacts::of(&it.tree));
    if of.reserved.is_some() && !of.is_for(&facts) || of.deleting {
        return PreBind::Failed;
    }
    if it.tree.text_at(volume_path::CLAIM_UID) == facts.uid {
        return PreBind::Pending(Reconciled::done());
    }
    write(by, &kinds::PERSISTENT_VOLUMES, it, volume::bind_patch(claim, of.reserved.is_none()))
}

/// Says on which node a volume shall be made, or waits until it is.
fn ask(by: Text, claim: &ApiObject, node: &Text) -> PreBind {
    match meta::annotation(&claim.tree, storage::SELECTED_NODE) {
        Some(selected) if selected == node => PreBind::Pending(Reconciled::done()),
        Some(_) => PreBind::Failed,
        None => write(
            by,
            &kinds::PERSISTENT_VOLUME_CLAIMS,
            claim,
            volume::annotation(storage::SELECTED_NODE, Some(node)),
        ),
    }
}

fn write(by: Text, kind: &Kind, object: &ApiObject, patch: Tree) -> PreBind {
    let call = ApiRequest {
        field_manager: by,
        target: meta::target(kind, &object.tree, Subresource::Main),
        preconditions: Preconditions { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) },
        verb: RequestVerb::MergePatch(patch),
    };
    PreBind::Pending(Reconciled::with_steps(vec![Step::Request(call)]))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn claim(change: &Tree) -> ApiObject {
        let tree = tree!({"metadata": {"namespace": "ns", "name": "c", "uid": "u"}, "spec": {}});
        ApiObject { tree: tree.merge(change), revision: 5 }
    }

    fn by() -> Text {
        "me".into()
    }

    fn calls(ready: &PreBind) -> Option<usize> {
        match ready {
            PreBind::Pending(plan) => Some(plan.steps.len()),
            _ => None,
        }
    }

    #[test]
    fn a_node_is_named_once_and_another_one_ends_it() {
        let selected =
            |node: &str| tree!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
        assert_eq!(calls(&ask(by(), &claim(&tree!({})), &"n".into())), Some(1));
        assert_eq!(calls(&ask(by(), &claim(&selected("n")), &"n".into())), Some(0), "only waits");
        assert_eq!(ask(by(), &claim(&selected("m")), &"n".into()), PreBind::Failed);
    }

    #[test]
    fn a_volume_is_given_once_and_never_taken_from_another() {
        let volume = |claim: Tree| ApiObject {
            tree: tree!({"metadata": {"name": "v", "uid": "vu"}, "spec": {"claimRef": claim}}),
            revision: 6,
        };
        let free =
            ApiObject { tree: tree!({"metadata": {"name": "v", "uid": "vu"}, "spec": {}}), revision: 6 };
        let claim = claim(&tree!({}));
        assert_eq!(calls(&give(by(), &claim, &free)), Some(1));
        let mine = volume(tree!({"namespace": "ns", "name": "c", "uid": "u"}));
        assert_eq!(calls(&give(by(), &claim, &mine)), Some(0), "the binder is at it");
        let meant = volume(tree!({"namespace": "ns", "name": "c"}));
        assert_eq!(calls(&give(by(), &claim, &meant)), Some(1), "its author meant it so");
        let others = volume(tree!({"namespace": "ns", "name": "d", "uid": "w"}));
        assert_eq!(give(by(), &claim, &others), PreBind::Failed);
        let namesake = volume(tree!({"namespace": "ns", "name": "c", "uid": "old"}));
        assert_eq!(give(by(), &claim, &namesake), PreBind::Failed);
    }
}
