//! What the scheduler hears of volumes, and what is done about them before a pod is bound.
//!
//! A claim is given a volume, or the node on which one shall be made; the binder and the provisioner do the rest, and
//! the pod waits for them.

use muster_api::paths::{csi_driver, csi_node, volume as volume_path};
use muster_api::port::{Act, Call, Guard, Kind, Object, Part};
use muster_api::time::Time;
use muster_api::words::storage;
use muster_api::{kinds, meta, volume};
use muster_scheduler::volumes::{ClaimFacts, ClaimKey, ClassFacts, Errand, VolumeFacts};
use muster_scheduler::{PodKey, Scheduler};
use muster_tree::{Text, Tree};

use super::{Ready, steps};
use crate::cache::{Caches, Seen};
use crate::plan::{Key, Plan, Step};

/// The kinds it must see.
pub fn kinds() -> Vec<Kind> {
    [&kinds::CLAIMS, &kinds::VOLUMES, &kinds::STORAGE_CLASSES, &kinds::CSI_NODES].map(Clone::clone).into()
}

/// Tells the scheduler of a change; the pods whose errands it may concern.
pub fn hear(scheduler: &mut Scheduler, seen: &Seen<'_>, _caches: &Caches) -> Vec<Key> {
    let (name, after) = (&seen.key.name, seen.after.map(|it| &it.tree));
    let mut waiting: Vec<PodKey> = Vec::new();
    match &seen.key.kind {
        kind if *kind == kinds::CLAIMS => {
            let key: ClaimKey = (seen.key.namespace.clone(), name.clone());
            scheduler.volumes(|book| {
                waiting = book.waiting_for(&key).to_vec();
                book.claim(&key, after.map(ClaimFacts::of))
            });
        }
        kind if *kind == kinds::VOLUMES => scheduler.volumes(|book| {
            waiting =
                book.promised_to(name).map(|claim| book.waiting_for(claim).to_vec()).unwrap_or_default();
            book.volume(name, after.map(VolumeFacts::of))
        }),
        kind if *kind == kinds::STORAGE_CLASSES => {
            scheduler.volumes(|book| book.class(name, after.map(ClassFacts::of)));
        }
        kind if *kind == kinds::CSI_NODES => {
            let limits =
                after.map(|tree| tree.items_at(csi_node::DRIVERS).iter().filter_map(limit).collect());
            scheduler.volumes(|book| book.limits(name, limits));
        }
        _ => {}
    }
    waiting.iter().map(|(namespace, name)| Key::new(&kinds::PODS, namespace, name)).collect()
}

fn limit(driver: &Tree) -> Option<(Text, i64)> {
    Some((driver.text_at(csi_driver::NAME), driver.int_at(csi_driver::COUNT)?))
}

/// What is to be done about an errand.
pub fn run(pod: &Object, errand: &Errand, caches: &Caches, _now: Time) -> Ready {
    let by = steps::scheduler_of(pod);
    let claim_of = |(namespace, name): &ClaimKey| caches.get(&kinds::CLAIMS, namespace, name);
    match errand {
        Errand::Hopeless => Ready::Never,
        Errand::Bind { claim, volume } => {
            let volume = caches.get(&kinds::VOLUMES, &Text::new(), volume);
            claim_of(claim).zip(volume).map_or(Ready::Never, |(claim, volume)| give(by, claim, volume))
        }
        Errand::Provision { claim, node } => {
            claim_of(claim).map_or(Ready::Never, |claim| ask(by, claim, node))
        }
    }
}

/// Gives a volume to a claim, or waits for the binder to complete it.
fn give(by: Text, claim: &Object, it: &Object) -> Ready {
    let (facts, of) = (ClaimFacts::of(&claim.tree), VolumeFacts::of(&it.tree));
    if of.reserved.is_some() && !of.is_for(&facts) || of.deleting {
        return Ready::Never;
    }
    if it.tree.text_at(volume_path::CLAIM_UID) == facts.uid {
        return Ready::After(Plan::nothing());
    }
    write(by, &kinds::VOLUMES, it, volume::give(claim, of.reserved.is_none()))
}

/// Says on which node a volume shall be made, or waits until it is.
fn ask(by: Text, claim: &Object, node: &Text) -> Ready {
    match meta::annotation(&claim.tree, storage::SELECTED_NODE) {
        Some(selected) if selected == node => Ready::After(Plan::nothing()),
        Some(_) => Ready::Never,
        None => write(by, &kinds::CLAIMS, claim, volume::annotation(storage::SELECTED_NODE, Some(node))),
    }
}

fn write(by: Text, kind: &Kind, object: &Object, patch: Tree) -> Ready {
    let call = Call {
        by,
        on: meta::target(kind, &object.tree, Part::Main),
        guard: Guard { uid: Some(meta::uid(&object.tree)), revision: Some(object.revision) },
        act: Act::Merge(patch),
    };
    Ready::After(Plan::of(vec![Step::One(call)]))
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn claim(change: &Tree) -> Object {
        let tree = tree!({"metadata": {"namespace": "ns", "name": "c", "uid": "u"}, "spec": {}});
        Object { tree: tree.merge(change), revision: 5 }
    }

    fn by() -> Text {
        "me".into()
    }

    fn calls(ready: &Ready) -> Option<usize> {
        match ready {
            Ready::After(plan) => Some(plan.steps.len()),
            _ => None,
        }
    }

    #[test]
    fn a_node_is_named_once_and_another_one_ends_it() {
        let selected =
            |node: &str| tree!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}});
        assert_eq!(calls(&ask(by(), &claim(&tree!({})), &"n".into())), Some(1));
        assert_eq!(calls(&ask(by(), &claim(&selected("n")), &"n".into())), Some(0), "only waits");
        assert_eq!(ask(by(), &claim(&selected("m")), &"n".into()), Ready::Never);
    }

    #[test]
    fn a_volume_is_given_once_and_never_taken_from_another() {
        let volume = |claim: Tree| Object {
            tree: tree!({"metadata": {"name": "v", "uid": "vu"}, "spec": {"claimRef": claim}}),
            revision: 6,
        };
        let free = Object { tree: tree!({"metadata": {"name": "v", "uid": "vu"}, "spec": {}}), revision: 6 };
        let claim = claim(&tree!({}));
        assert_eq!(calls(&give(by(), &claim, &free)), Some(1));
        let mine = volume(tree!({"namespace": "ns", "name": "c", "uid": "u"}));
        assert_eq!(calls(&give(by(), &claim, &mine)), Some(0), "the binder is at it");
        let meant = volume(tree!({"namespace": "ns", "name": "c"}));
        assert_eq!(calls(&give(by(), &claim, &meant)), Some(1), "its author meant it so");
        let others = volume(tree!({"namespace": "ns", "name": "d", "uid": "w"}));
        assert_eq!(give(by(), &claim, &others), Ready::Never);
        let namesake = volume(tree!({"namespace": "ns", "name": "c", "uid": "old"}));
        assert_eq!(give(by(), &claim, &namesake), Ready::Never);
    }
}
