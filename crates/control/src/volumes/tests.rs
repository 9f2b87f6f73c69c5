//! One look, one write: each state of a claim and its volume, and what is written next.

use muster_api::client::WatchBatch;
use muster_api::kinds;
use muster_tree::tree;

use super::*;
use crate::{ControlLoop, RuntimeInput, RuntimeOptions, RuntimeOutput};

fn claim(change: &Tree) -> Tree {
    tree!({"metadata": {"namespace": "ns", "name": "c", "uid": "u", "finalizers": ["kubernetes.io/pvc-protection"]},
        "spec": {"storageClassName": "s", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"}})
    .merge(change)
}

fn volume(change: &Tree) -> Tree {
    tree!({"metadata": {"name": "v", "uid": "vu", "finalizers": ["kubernetes.io/pv-protection"]},
        "spec": {"storageClassName": "s", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/v"}},
        "status": {"phase": "Available"}})
    .merge(change)
}

fn pod(node: &str) -> Tree {
    tree!({"metadata": {"namespace": "ns", "name": "p", "uid": "pu"}, "spec": {"nodeName": node,
        "volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "c"}}]}, "status": {"phase": "Running"}})
}

fn given() -> Tree {
    tree!({"spec": {"claimRef": {"namespace": "ns", "name": "c", "uid": "u"}}})
}

fn in_phase(phase: &str) -> Tree {
    tree!({"status": {"phase": phase}})
}

fn named() -> Tree {
    tree!({"spec": {"volumeName": "v"}, "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}})
}

/// The first things that are sent, in words.
fn sent(claims: Vec<Tree>, volumes: Vec<Tree>, classes: Vec<Tree>, pods: Vec<Tree>) -> Vec<String> {
    let mut it = ControlLoop::new(vec![Box::<VolumeController>::default()], &[], RuntimeOptions::default());
    let mut outputs = Vec::new();
    for (kind, trees) in [
        (&kinds::PERSISTENT_VOLUME_CLAIMS, claims),
        (&kinds::PERSISTENT_VOLUMES, volumes),
        (&kinds::STORAGE_CLASSES, classes),
        (&kinds::PODS, pods),
    ] {
        let objects = trees.into_iter().map(|tree| ApiObject { tree, revision: 3 }).collect();
        outputs
            .extend(it.handle(RuntimeInput::Watched(kind.clone(), WatchBatch::Restarted(objects)), Time(0)));
    }
    let mut calls: Vec<ApiRequest> = Vec::new();
    for output in outputs {
        if let RuntimeOutput::Send(_, sent) = output {
            calls.extend_from_slice(sent.as_slice());
        }
    }
    let mut all: Vec<String> = calls.iter().map(spoken).collect();
    all.sort();
    all
}

fn spoken(call: &ApiRequest) -> String {
    let on = format!("{} {}", call.target.kind.plural, call.target.name);
    match (&call.verb, call.target.subresource) {
        (RequestVerb::Create(tree), _) if call.target.kind == kinds::EVENTS => {
            format!("! {}", tree.str_at(&["reason"]))
        }
        (RequestVerb::Create(_), _) => format!("create {on}"),
        (RequestVerb::Get, _) => format!("look {on}"),
        (RequestVerb::MergePatch(tree), Subresource::Status) => match tree.str_at(&["status", "phase"]) {
            "" => format!("status {on}"),
            phase => format!("{phase} {on}"),
        },
        (RequestVerb::MergePatch(tree), _) => format!("{on} {}", tree.to_json()),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_binding_goes_on_from_wherever_it_was_left() {
    let unused = tree!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "conditions": [{"type": "Unused", "status": "True", "reason": "NoPodsUsingPVC",
            "message": "No pods are currently referencing this PVC", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}});
    let bound = claim(&named()).merge(&unused);
    let none = tree!({});
    let cases: Vec<(&str, Tree, Tree, Vec<&str>)> = vec![
        (
            "the volume is given first",
            claim(&none),
            volume(&none),
            vec![
                r#"persistentvolumes v {"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","name":"c","namespace":"ns","resourceVersion":"3","uid":"u"}}}"#,
            ],
        ),
        ("then it says so", claim(&none), volume(&given()), vec!["Bound persistentvolumes v"]),
        (
            "then the claim names it",
            claim(&none),
            volume(&given()).merge(&in_phase("Bound")),
            vec![
                r#"persistentvolumeclaims c {"metadata":{"annotations":{"pv.kubernetes.io/bind-completed":"yes","pv.kubernetes.io/bound-by-controller":"yes"}},"spec":{"volumeName":"v"}}"#,
            ],
        ),
        (
            "then it says so as well",
            claim(&named()),
            volume(&given()).merge(&in_phase("Bound")),
            vec!["Bound persistentvolumeclaims c"],
        ),
        ("all is done", bound.clone(), volume(&given()).merge(&in_phase("Bound")), vec![]),
    ];
    for (says, claim, volume, want) in cases {
        assert_eq!(sent(vec![claim], vec![volume], vec![], vec![]), want, "{says}");
    }
}

#[test]
fn claims_without_a_volume_say_why() {
    let class = |waits: bool, provisioner: &str| {
        let mode = if waits { "WaitForFirstConsumer" } else { "Immediate" };
        vec![tree!({"metadata": {"name": "s"}, "provisioner": provisioner, "volumeBindingMode": mode})]
    };
    let none = tree!({});
    let asked = r#"persistentvolumeclaims c {"metadata":{"annotations":{"volume.beta.kubernetes.io/storage-provisioner":"x","volume.kubernetes.io/storage-provisioner":"x"}}}"#;
    let selected = tree!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
    for (says, change, classes, pods, want) in [
        ("no class of that name", none.clone(), vec![], vec![], vec!["! ProvisioningFailed"]),
        (
            "no class at all",
            tree!({"spec": {"storageClassName": ""}}),
            vec![],
            vec![],
            vec!["! FailedBinding"],
        ),
        ("it waits for a pod", none.clone(), class(true, "x"), vec![], vec!["! WaitForFirstConsumer"]),
        (
            "it waits for a pod's node",
            none.clone(),
            class(true, "x"),
            vec![pod("")],
            vec!["! WaitForPodScheduled"],
        ),
        ("the node is known", selected, class(true, "x"), vec![], vec![asked]),
        ("it does not wait", none, class(false, "x"), vec![], vec![asked]),
    ] {
        assert_eq!(sent(vec![claim(&change)], vec![], classes, pods), want, "{says}");
    }
}

#[test]
fn what_is_in_use_is_kept() {
    let going = tree!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let used = claim(&named()).merge(&in_phase("Bound")).merge(&going);
    let bound = volume(&given()).merge(&in_phase("Bound")).merge(&going);
    assert_eq!(
        sent(vec![used.clone()], vec![bound.clone()], vec![], vec![pod("n")]),
        ["status persistentvolumeclaims c"],
        "a pod on a node keeps its claim, a claim its volume"
    );
    let free = sent(vec![used.clone()], vec![bound], vec![], vec![]);
    assert!(
        free.contains(&r#"persistentvolumeclaims c {"metadata":{"finalizers":null}}"#.to_owned()),
        "{free:?}"
    );
    let looked = sent(vec![used], vec![], vec![], vec![pod("")]);
    assert!(looked.contains(&"look pods p".to_owned()), "it may have got a node by now: {looked:?}");
}

#[test]
fn a_volume_without_its_claim_is_released_when_the_claim_is_really_gone() {
    let left = volume(&given()).merge(&in_phase("Bound"));
    assert_eq!(sent(vec![], vec![left], vec![], vec![]), ["look persistentvolumeclaims c"]);
    let released = volume(&given()).merge(&in_phase("Released"));
    assert_eq!(sent(vec![], vec![released.clone()], vec![], vec![]), Vec::<String>::new(), "it is retained");
    let deleted = released.merge(&tree!({"spec": {"persistentVolumeReclaimPolicy": "Delete"}}));
    assert_eq!(
        sent(vec![], vec![deleted.clone()], vec![], vec![]),
        ["Failed persistentvolumes v"],
        "nobody can"
    );
    let made = tree!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "x"}}});
    assert_eq!(
        sent(vec![], vec![deleted.merge(&made)], vec![], vec![]),
        Vec::<String>::new(),
        "its maker will"
    );
}

#[test]
fn pods_get_claims_of_their_own() {
    let pod = tree!({"metadata": {"namespace": "ns", "name": "p", "uid": "pu"},
        "spec": {"volumes": [{"name": "x", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}}]}});
    assert_eq!(sent(vec![], vec![], vec![], vec![pod.clone()]), ["create persistentvolumeclaims p-x"]);
    let others = claim(&tree!({"metadata": {"name": "p-x"}, "spec": {"storageClassName": ""}}));
    let told = sent(vec![others], vec![], vec![], vec![pod]);
    assert_eq!(told, ["! FailedBinding", "! FailedBinding"], "of the pod, and of the claim itself");
}
