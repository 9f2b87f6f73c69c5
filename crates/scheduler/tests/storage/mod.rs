//! Storage objects from short descriptions.
//!
//! The `storage` of a case has `classes`, `volumes`, `claims` and `limits`. A class is `{waits, provisioner, zones}`, a volume `{size, class, modes, for, on, labels, phase}` (`on` is the only
//! node that reaches it), a claim `{size, class, modes, volume, node, selector, phase, deleted, owner}`; all are of the class
//! `late`, of 1Gi and ReadWriteOnce unless they say otherwise. `limits` are volumes by node and driver. A pod uses the claims of
//! `mounts` and wants claims made for its volumes named by `ephemeral`.

use muster_scheduler::Scheduler;
use muster_scheduler::volumes::{ClaimFacts, StorageClassFacts, VolumeFacts};
use muster_tree::{Tree, tree};

/// Feeds the storage objects of a case to the scheduler.
pub fn feed(scheduler: &mut Scheduler, case: &Tree) {
    for (name, words) in case.entries_at(&["storage", "classes"]) {
        let facts = StorageClassFacts::of(&class(words).with(&["metadata", "name"], name));
        scheduler.update_volumes(|book| book.update_class(name, Some(facts)));
    }
    for (name, words) in case.entries_at(&["storage", "volumes"]) {
        let facts = VolumeFacts::of(&volume(words).with(&["metadata", "name"], name));
        scheduler.update_volumes(|book| book.update_volume(name, Some(facts)));
    }
    for (name, words) in case.entries_at(&["storage", "claims"]) {
        let facts = ClaimFacts::of(&claim(words).merge(&tree!({"metadata": {"name": name, "uid": name}})));
        scheduler.update_volumes(|book| book.update_claim(&("ns".into(), name.clone()), Some(facts)));
    }
    for (node, words) in case.entries_at(&["storage", "limits"]) {
        let limits =
            words.entries().iter().map(|(driver, count)| (driver.clone(), count.as_int().expect("a number")));
        let limits = limits.collect();
        scheduler.update_volumes(|book| book.update_limits(node, Some(limits)));
    }
}

/// The volumes of a pod.
pub fn mounts(words: &Tree) -> Tree {
    let plain = words.items_at(&["mounts"]).iter();
    let plain =
        plain.map(|name| tree!({"name": name.clone(), "persistentVolumeClaim": {"claimName": name.clone()}}));
    let made = words.items_at(&["ephemeral"]).iter();
    let made =
        made.map(|name| tree!({"name": name.clone(), "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}));
    tree!({"volumes": Tree::list(plain.chain(made))})
}

fn or(words: &Tree, key: &str, usual: &str) -> Tree {
    words.get(key).cloned().unwrap_or_else(|| Tree::from(usual))
}

fn modes(words: &Tree) -> Tree {
    words.get("modes").cloned().unwrap_or_else(|| tree!(["ReadWriteOnce"]))
}

fn class(words: &Tree) -> Tree {
    let waits = words.bool_at(&["waits"]).unwrap_or(true);
    let zones = words.get("zones").map(|zones| {
        tree!([{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": zones.clone()}]}])
    });
    tree!({"provisioner": or(words, "provisioner", "kubernetes.io/no-provisioner"),
        "volumeBindingMode": if waits { "WaitForFirstConsumer" } else { "Immediate" },
        "allowedTopologies": zones.unwrap_or_default()})
}

fn volume(words: &Tree) -> Tree {
    let meant = words.get("for").map(|claim| tree!({"claimRef": {"namespace": "ns", "name": claim.clone()}}));
    let on = words.get("on").map(|node| {
        tree!({"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": Tree::list([node.clone()])}]}]}}})
    });
    let driver =
        words.get("driver").map(|it| tree!({"csi": {"driver": it.clone(), "volumeHandle": it.clone()}}));
    let spec = tree!({"capacity": {"storage": or(words, "size", "1Gi")}, "accessModes": modes(words),
        "storageClassName": or(words, "class", "late")});
    let spec = [meant, on, driver].into_iter().flatten().fold(spec, |spec, more| spec.merge(&more));
    tree!({"metadata": {"labels": words.get("labels").cloned().unwrap_or_default()}, "spec": spec,
        "status": {"phase": or(words, "phase", "Available")}})
}

fn claim(words: &Tree) -> Tree {
    let volume = words.get("volume").cloned();
    let complete = volume.as_ref().map(|_| tree!({"pv.kubernetes.io/bind-completed": "yes"}));
    let node = words.get("node").map(|it| tree!({"volume.kubernetes.io/selected-node": it.clone()}));
    let none = Tree::empty_map();
    let annotations = complete.unwrap_or(none.clone()).merge(&node.unwrap_or(none));
    let owner = words
        .get("owner")
        .map(|it| tree!([{"kind": "Pod", "name": it.clone(), "uid": it.clone(), "controller": true}]));
    let deleted = words.get("deleted").cloned().unwrap_or_default();
    tree!({"metadata": {"namespace": "ns", "annotations": annotations, "ownerReferences": owner.unwrap_or_default(), "deletionTimestamp": deleted},
        "spec": {"storageClassName": or(words, "class", "late"), "accessModes": modes(words), "volumeName": volume.unwrap_or_default(),
            "selector": words.get("selector").cloned().unwrap_or_default(), "resources": {"requests": {"storage": or(words, "size", "1Gi")}}},
        "status": {"phase": or(words, "phase", "Pending")}})
}
