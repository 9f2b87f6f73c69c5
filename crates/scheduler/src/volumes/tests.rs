//! An assumed binding counts at once, is shared by the pods of a claim, and is released as a whole.

use muster_api::node::{NodeFacts, simulated_node};
use muster_tree::{Tree, tree};

use super::*;

fn node(name: &str) -> NodeFacts {
    NodeFacts::of(&simulated_node(&name.into(), &tree!({"cpu": "1"})))
}

fn pod(name: &str, claims: &[&str]) -> (PodKey, PodVolumeClaims) {
    let volumes =
        claims.iter().map(|claim| tree!({"name": *claim, "persistentVolumeClaim": {"claimName": *claim}}));
    let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": {"volumes": Tree::list(volumes)}});
    (("ns".into(), name.into()), PodVolumeClaims::of(&tree))
}

fn claim(name: &str, change: &Tree) -> (ClaimKey, Option<ClaimFacts>) {
    let tree = tree!({"metadata": {"namespace": "ns", "name": name, "uid": name},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    (("ns".into(), name.into()), Some(ClaimFacts::of(&tree.merge(change))))
}

fn book(provisioner: &str, volumes: &[&str]) -> VolumeBinder {
    let mut book = VolumeBinder::default();
    let class = tree!({"metadata": {"name": "late"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
    book.update_class(&"late".into(), Some(StorageClassFacts::of(&class)));
    for name in volumes {
        let volume = tree!({"metadata": {"name": *name}, "status": {"phase": "Available"},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}});
        book.update_volume(&Text::from(*name), Some(VolumeFacts::of(&volume)));
    }
    for name in ["one", "two"] {
        let (key, facts) = claim(name, &tree!({}));
        book.update_claim(&key, facts);
    }
    book
}

#[test]
fn two_claims_never_get_one_volume() {
    let mut book = book("kubernetes.io/no-provisioner", &["v"]);
    let (a, b) = (pod("a", &["one"]), pod("b", &["two"]));
    let (a, b) = (
        VolumeClaimingPod { id: 0, key: &a.0, claims: &a.1, bound: false },
        VolumeClaimingPod { id: 1, key: &b.0, claims: &b.1, bound: false },
    );
    let here = node("n");
    assert_eq!(book.filter(&a, &here), None);
    book.assume(&a, &here.name, Some(&here));
    assert_eq!(
        book.filter(&b, &here),
        Some(VolumeFilterFailure::Nothing),
        "it is taken before anybody wrote anything"
    );
    let want = VolumeBindTask::Bind { claim: ("ns".into(), "one".into()), volume: "v".into() };
    assert_eq!(book.prebind_tasks(&a), [want]);
    book.forget(&a);
    assert_eq!(book.filter(&b, &here), None, "given back");
    assert!(book.promises.is_empty() && book.taken.is_empty() && book.users.is_empty(), "{book:?}");
}

#[test]
fn two_claims_of_one_pod_get_two_volumes() {
    let (key, wants) = pod("a", &["one", "two"]);
    let asker = VolumeClaimingPod { id: 0, key: &key, claims: &wants, bound: false };
    let here = node("n");
    let mut short = book("kubernetes.io/no-provisioner", &["v"]);
    assert_eq!(short.filter(&asker, &here), Some(VolumeFilterFailure::Nothing));
    let mut enough = book("kubernetes.io/no-provisioner", &["v", "w"]);
    assert_eq!(enough.filter(&asker, &here), None);
    enough.assume(&asker, &here.name, Some(&here));
    assert_eq!(enough.prebind_tasks(&asker).len(), 2);
}

#[test]
fn pods_that_share_a_claim_go_where_its_volume_is_made() {
    let mut book = book("x", &[]);
    let (a, b) = (pod("a", &["one"]), pod("b", &["one"]));
    let (a, b) = (
        VolumeClaimingPod { id: 0, key: &a.0, claims: &a.1, bound: false },
        VolumeClaimingPod { id: 1, key: &b.0, claims: &b.1, bound: false },
    );
    let (here, there) = (node("n"), node("m"));
    book.assume(&a, &here.name, Some(&here));
    assert_eq!(book.filter(&b, &there), Some(VolumeFilterFailure::Nothing));
    assert_eq!(book.filter(&b, &here), None);
    book.assume(&b, &here.name, Some(&here));
    book.forget(&a);
    assert_eq!(book.pods_relying_on(&("ns".into(), "one".into())), [("ns".into(), "b".into())]);
    book.forget(&b);
    assert!(book.promises.is_empty());
}

#[test]
fn errands_end_when_the_claim_is_bound_and_fail_when_its_maker_gives_up() {
    let mut book = book("x", &[]);
    let (key, wants) = pod("a", &["one"]);
    let asker = VolumeClaimingPod { id: 0, key: &key, claims: &wants, bound: false };
    let here = node("n");
    book.assume(&asker, &here.name, Some(&here));
    let asked = VolumeBindTask::Provision { claim: ("ns".into(), "one".into()), node: "n".into() };
    assert_eq!(book.prebind_tasks(&asker), std::slice::from_ref(&asked));
    let annotated = |keys: Tree| tree!({"metadata": {"annotations": keys}});
    let selected = annotated(tree!({"volume.kubernetes.io/selected-node": "n"}));
    let (key, facts) = claim("one", &selected);
    assert!(book.update_claim(&key, facts), "written by us");
    assert_eq!(book.prebind_tasks(&asker), [asked], "still to be waited for");
    let bound = selected.merge(&annotated(tree!({"pv.kubernetes.io/bind-completed": "yes"})));
    let (key, facts) = claim("one", &bound.merge(&tree!({"spec": {"volumeName": "v"}})));
    book.update_claim(&key, facts);
    assert_eq!(book.prebind_tasks(&asker), []);
    let (key, facts) = claim("one", &selected);
    book.update_claim(&key, facts);
    let (key, facts) = claim("one", &tree!({}));
    book.update_claim(&key, facts);
    assert_eq!(book.prebind_tasks(&asker), [VolumeBindTask::Infeasible], "the node was taken back");
}

#[test]
fn no_more_volumes_of_a_driver_than_a_node_may_have() {
    let mut book = book("x", &[]);
    book.update_limits(&"n".into(), Some([("x".into(), 1)].into()));
    let (a, b) = (pod("a", &["one"]), pod("b", &["two"]));
    let (a, b) = (
        VolumeClaimingPod { id: 0, key: &a.0, claims: &a.1, bound: false },
        VolumeClaimingPod { id: 1, key: &b.0, claims: &b.1, bound: false },
    );
    let (here, there) = (node("n"), node("m"));
    book.assume(&a, &here.name, Some(&here));
    assert_eq!(book.filter(&b, &here), Some(VolumeFilterFailure::TooMany));
    assert_eq!(book.filter(&b, &there), None, "no limit is known there");
    book.simulate(&a, -1);
    assert_eq!(book.filter(&b, &here), None, "without the other one there is room");
    book.simulate(&a, 1);
}
