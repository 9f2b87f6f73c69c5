//! Gangs of admitted groups: the created objects, their size and owners.

use muster_api::client::ApiObject;
use muster_api::gang_objects::{GangApi, GangSupport, GroupMarker};
use muster_api::queue::WorkloadFacts;
use muster_queue::pods::gang::{GangDecision, GangSnapshot, GangWrite, reconcile};
use muster_tree::{Tree, tree};

const OWN: GangSupport = GangSupport { api: GangApi::Proposal, marker: GroupMarker::Field };
const RELEASED: GangSupport = GangSupport { api: GangApi::Released, marker: GroupMarker::Field };

fn admitted(count: i64) -> WorkloadFacts {
    WorkloadFacts::of(&tree!({"metadata": {"name": "g", "namespace": "ns", "uid": "w"},
        "spec": {"podSets": [{"name": "main", "count": count}]},
        "status": {"admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": count}]}}}))
}

/// A pod of the group that opts into gang scheduling.
fn member(name: &str, phase: &str) -> Tree {
    tree!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"kueue.x-k8s.io/pod-group-name": "g"},
        "annotations": {"scheduling.muster.dev/gang": "true"}},
        "spec": {"workloadRef": {"name": "g", "podGroupName": "g"}}, "status": {"phase": phase}})
}

/// A pod that does not opt in.
fn other(name: &str) -> Tree {
    member(name, "Pending").without(&["metadata", "annotations"]).without(&["spec", "workloadRef"])
}

fn driver() -> Tree {
    let sets = tree!({"kueue.x-k8s.io/pod-group-sets": "[]", "scheduling.muster.dev/gang": "true"});
    other("driver").with(&["metadata", "annotations"], sets)
}

fn decided(
    gangs: GangSupport,
    count: i64,
    pods: &[Tree],
    workload: Option<&Tree>,
    group: Option<&Tree>,
) -> GangDecision {
    let object = |tree: &Tree| ApiObject { tree: tree.clone(), revision: 7 };
    let (workload, group) = (workload.map(object), group.map(object));
    let pods: Vec<&Tree> = pods.iter().collect();
    let admitted = admitted(count);
    reconcile(&GangSnapshot {
        gangs,
        admitted: &admitted,
        pods: &pods,
        workload: workload.as_ref(),
        group: group.as_ref(),
    })
}

/// The only object created first.
fn made(gang: GangDecision) -> Tree {
    match gang {
        GangDecision::CreateFirst(steps) => match <[GangWrite; 1]>::try_from(steps) {
            Ok([GangWrite::Make(_, object)]) => object,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Workload and PodGroup for these pods.
fn both(gangs: GangSupport, count: i64, pods: &[Tree]) -> [Tree; 2] {
    let workload = made(decided(gangs, count, pods, None, None)).with(&["metadata", "uid"], "gw");
    let group = made(decided(gangs, count, pods, Some(&workload), None)).with(&["metadata", "uid"], "gg");
    [workload, group]
}

fn owners(object: &Tree) -> Vec<&str> {
    object.items_at(&["metadata", "ownerReferences"]).iter().map(|it| it.str_at(&["name"])).collect()
}

#[test]
fn workload_then_podgroup_then_ungate() {
    let pods = [member("a", "Pending"), member("b", "Pending")];
    let [workload, group] = both(OWN, 2, &pods);
    let names = |it: &Tree| [it.str_at(&["kind"]).to_owned(), it.str_at(&["metadata", "name"]).to_owned()];
    assert_eq!([names(&workload), names(&group)], [["Workload", "g"], ["PodGroup", "g"]]);
    let templates = workload.items_at(&["spec", "podGroupTemplates"]);
    assert_eq!(templates, [tree!({"name": "g", "policy": {"gang": {"minCount": 2}}})]);
    for object in [&workload, &group] {
        assert_eq!(owners(object), ["a", "b"]);
        let controls =
            object.items_at(&["metadata", "ownerReferences"]).iter().any(|it| it.get("controller").is_some());
        assert!(!controls, "{object}");
    }
    assert_eq!(decided(OWN, 2, &pods, Some(&workload), Some(&group)), GangDecision::Ready(Vec::new()));
}

#[test]
fn podgroup_has_policy_and_workload_reference() {
    let pods = [member("a", "Pending").with(&["spec", "priorityClassName"], "high")];
    let [_, group] = both(RELEASED, 3, &pods);
    assert_eq!(owners(&group), ["a", "g"]);
    assert_eq!(group.int_at(&["spec", "schedulingPolicy", "gang", "minCount"]), Some(3));
    assert_eq!(group.str_at(&["spec", "priorityClassName"]), "high");
}

#[test]
fn not_requested() {
    assert_eq!(decided(OWN, 1, &[other("a")], None, None), GangDecision::NotRequested);
    let legacy = GangSupport { api: GangApi::Legacy, ..OWN };
    assert_eq!(
        decided(legacy, 1, &[member("a", "Pending")], None, None),
        GangDecision::NotRequested,
        "no groups there"
    );
}

#[test]
fn gang_counts_opted_in_active_pods() {
    let [a, b] = ["a", "b"].map(|name| member(name, "Pending"));
    for (says, count, pods, want) in [
        ("some are still to come", 5, vec![a.clone()], 5),
        ("one did not ask", 3, vec![a.clone(), b.clone(), other("c")], 2),
        ("one has done its work", 2, vec![member("b", "Succeeded"), a.clone()], 1),
        ("one failed and is replaced", 2, vec![member("c", "Failed"), a.clone(), b.clone()], 2),
    ] {
        let [workload, _] = both(OWN, count, &pods);
        let min =
            workload.items_at(&["spec", "podGroupTemplates"])[0].int_at(&["policy", "gang", "minCount"]);
        assert_eq!(min, Some(want), "{says}");
    }
    let [workload, _] = both(OWN, 3, &[driver(), a, b]);
    let policy = workload.items_at(&["spec", "podGroupTemplates"])[0].at(&["policy"]).cloned();
    assert_eq!(policy, Some(tree!({"basic": {}})), "workers of a driver come one by one");
}

#[test]
fn replacement_pods_become_owners_and_size_follows() {
    let pods = [member("a", "Running"), member("b", "Running")];
    let [workload, group] = both(OWN, 2, &pods);
    let later = [member("a", "Succeeded"), member("b", "Failed"), member("c", "Pending")];
    let GangDecision::Ready(steps) = decided(OWN, 2, &later, Some(&workload), Some(&group)) else { panic!() };
    let patches: Vec<&Tree> = steps
        .iter()
        .map(|step| match step {
            GangWrite::Patch(_, object, patch) => {
                assert_eq!(object.revision, 7);
                patch
            }
            GangWrite::Make(..) => panic!("{step:?}"),
        })
        .collect();
    assert_eq!(patches.len(), 3);
    assert_eq!([owners(patches[0]), owners(patches[1])], [["a", "b", "c"], ["a", "b", "c"]]);
    let min = patches[2].items_at(&["spec", "podGroupTemplates"])[0].int_at(&["policy", "gang", "minCount"]);
    assert_eq!(min, Some(1));
}

#[test]
fn foreign_objects_are_not_used() {
    let pods = [member("a", "Pending")];
    let [workload, group] = both(OWN, 1, &pods);
    let strange = workload.with(&["spec", "controllerRef", "kind"], "JobSet");
    let GangDecision::NameConflict(words) = decided(OWN, 1, &pods, Some(&strange), None) else { panic!() };
    assert!(words.starts_with("Workload g is another's"), "{words}");
    let foreign = group.with(&["spec", "workloadRef", "name"], "mine");
    let GangDecision::NameConflict(words) = decided(OWN, 1, &pods, Some(&workload), Some(&foreign)) else {
        panic!()
    };
    assert!(words.starts_with("PodGroup g is another's"), "{words}");
    let going = group.with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(
        decided(OWN, 1, &pods, Some(&workload), Some(&going)),
        GangDecision::CreateFirst(Vec::new()),
        "until it is gone"
    );
}
