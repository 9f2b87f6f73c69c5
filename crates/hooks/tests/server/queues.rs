//! Queues and Workloads: both versions, schema, rules of the schema and admission together.

use muster_tree::{Tree, tree};

use crate::world::{World, Written};

const QUEUES: &str = "kueue.x-k8s.io/v1beta2/-/clusterqueues";
const OLD_QUEUES: &str = "kueue.x-k8s.io/v1beta1/-/clusterqueues";
const WORKLOADS: &str = "kueue.x-k8s.io/v1beta2/default/workloads";
const OLD_WORKLOADS: &str = "kueue.x-k8s.io/v1beta1/default/workloads";

fn object(version: &str, kind: &str, spec: &Tree) -> Tree {
    tree!({"apiVersion": format!("kueue.x-k8s.io/{version}"), "kind": kind, "metadata": {"name": "a"}, "spec": spec})
}

fn groups(quota: &Tree) -> Tree {
    let quota = tree!({"name": "cpu", "nominalQuota": 4}).merge(quota);
    tree!([{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [(quota)]}]}])
}

fn workload(spec: &Tree) -> Tree {
    let sets = tree!([{"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]);
    object("v1beta2", "Workload", &tree!({"podSets": sets, "queueName": "q"}).merge(spec))
}

fn shown(written: Written) -> Tree {
    written.unwrap_or_else(|status| panic!("{}", status.message)).0
}

fn refused(written: Written) -> String {
    written.expect_err("refused").message.to_string()
}

/// An object as it is, in the version of the path.
fn read(world: &World, path: &str) -> Tree {
    shown(world.merge(path, &tree!({})))
}

#[test]
fn a_queue_is_one_object_in_two_versions() {
    let world = World::queueing();
    let old = tree!({"cohort": "c", "resourceGroups": groups(&tree!({"borrowingLimit": 2})), "admissionChecks": ["x"],
        "flavorFungibility": {"whenCanBorrow": "Borrow"}});
    let made = shown(world.create(OLD_QUEUES, &object("v1beta1", "ClusterQueue", &old)));
    assert_eq!(
        (made.str_at(&["apiVersion"]), made.str_at(&["spec", "cohort"])),
        ("kueue.x-k8s.io/v1beta1", "c")
    );
    let new = read(&world, &format!("{QUEUES}/a"));
    assert_eq!(
        (new.str_at(&["apiVersion"]), new.str_at(&["spec", "cohortName"])),
        ("kueue.x-k8s.io/v1beta2", "c")
    );
    assert_eq!(new.at(&["spec", "cohort"]), None);
    assert_eq!(new.str_at(&["spec", "flavorFungibility", "whenCanBorrow"]), "MayStopSearch");
    assert_eq!(new.str_at(&["spec", "flavorFungibility", "whenCanPreempt"]), "TryNextFlavor", "filled in");
    let checks = new.items_at(&["spec", "admissionChecksStrategy", "admissionChecks"]);
    assert_eq!(checks, [tree!({"name": "x"})]);
    let finalizers = new.items_at(&["metadata", "finalizers"]);
    assert_eq!(finalizers, [Tree::from("kueue.x-k8s.io/resource-in-use")]);
    let changed = shown(world.merge(&format!("{OLD_QUEUES}/a"), &tree!({"spec": {"cohort": "d"}})));
    assert_eq!(changed.str_at(&["spec", "cohort"]), "d");
    assert_eq!(read(&world, &format!("{QUEUES}/a")).str_at(&["spec", "cohortName"]), "d");
}

#[test]
fn what_is_wrong_reaches_the_client() {
    let world = World::queueing();
    let queue = |spec: &Tree| {
        let status = world.create(QUEUES, &object("v1beta2", "ClusterQueue", spec)).expect_err("refused");
        (status.code, status.reason, status.message)
    };
    for (says, spec, code, words) in [
        (
            "by a rule",
            tree!({"resourceGroups": groups(&tree!({"borrowingLimit": 1}))}),
            422,
            "borrowingLimit must be nil when cohort is empty",
        ),
        (
            "by admission",
            tree!({"cohortName": "c", "resourceGroups": groups(&tree!({"lendingLimit": 5}))}),
            403,
            "admission webhook \"vclusterqueue.kb.io\" denied the request: spec.resourceGroups[0].flavors[0].resources[0].lendingLimit: Invalid value: \"5\": must be less than or equal \
             to the nominalQuota",
        ),
        (
            "by the schema",
            tree!({"queueingStrategy": "LIFO"}),
            422,
            "spec.queueingStrategy: Unsupported value: \"LIFO\"",
        ),
        (
            "by a rule about preemption",
            tree!({"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}),
            422,
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
        ),
    ] {
        let (is, reason, told) = queue(&spec);
        assert!(told.contains(words), "{says}: {told}");
        assert_eq!((is, reason), (code, if code == 403 { "Forbidden" } else { "Invalid" }), "{says}: {told}");
    }
}

#[test]
fn a_local_queue_stays_with_its_queue() {
    let world = World::queueing();
    let path = "kueue.x-k8s.io/v1beta2/default/localqueues";
    shown(world.create(path, &object("v1beta2", "LocalQueue", &tree!({"clusterQueue": "q"}))));
    let told = refused(world.merge(&format!("{path}/a"), &tree!({"spec": {"clusterQueue": "r"}})));
    assert!(told.contains("spec.clusterQueue: Invalid value: \"r\": field is immutable"), "{told}");
}

#[test]
fn a_workload_is_one_object_in_two_versions() {
    let world = World::queueing();
    let class = tree!({"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"});
    shown(world.create(WORKLOADS, &workload(&tree!({"priorityClassRef": class, "priority": 3}))));
    let old = read(&world, &format!("{OLD_WORKLOADS}/a"));
    assert_eq!(old.str_at(&["spec", "priorityClassName"]), "high");
    assert_eq!(old.str_at(&["spec", "priorityClassSource"]), "kueue.x-k8s.io/workloadpriorityclass");
    let set = &old.items_at(&["spec", "podSets"])[0];
    assert_eq!((set.str_at(&["name"]), set.int_at(&["count"])), ("main", Some(1)), "filled in");
    let status = tree!({"status": {"accumulatedPastExexcutionTimeSeconds": 7}});
    shown(world.merge(&format!("{OLD_WORKLOADS}/a/status"), &status));
    let new = read(&world, &format!("{WORKLOADS}/a"));
    assert_eq!(new.int_at(&["status", "accumulatedPastExecutionTimeSeconds"]), Some(7));
}

#[test]
fn a_workload_with_a_share_stays_as_it_is() {
    let world = World::queueing();
    shown(world.create(WORKLOADS, &workload(&tree!({}))));
    let condition = tree!({"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let given = tree!({"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1,
        "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}]});
    let status = format!("{WORKLOADS}/a/status");
    let told = refused(world.merge(&status, &tree!({"status": {"conditions": [(condition.clone())]}})));
    assert!(told.contains("must be set while the QuotaReserved condition is true"), "{told}");
    let none = tree!({"clusterQueue": "cq", "podSetAssignments": []});
    let told = refused(
        world.merge(&status, &tree!({"status": {"conditions": [(condition.clone())], "admission": none}})),
    );
    assert!(told.contains("podSetAssignments must have the same number of podSets as the spec"), "{told}");
    shown(world.merge(&status, &tree!({"status": {"conditions": [(condition)], "admission": given}})));
    for (says, patch, words) in [
        ("queue", tree!({"queueName": "r"}), "queueName is immutable while workload quota reserved"),
        ("no queue", tree!({"queueName": null}), "queueName is immutable while workload quota reserved"),
        (
            "class",
            tree!({"priority": 1, "priorityClassRef": {"group": "kueue.x-k8s.io",
            "kind": "WorkloadPriorityClass", "name": "p"}}),
            "priorityClassRef is immutable while workload quota reserved",
        ),
        (
            "pods",
            tree!({"podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [
            {"name": "c", "image": "i"}]}}}]}),
            "spec.podSets[0]: Invalid value",
        ),
    ] {
        let told = refused(world.merge(&format!("{WORKLOADS}/a"), &tree!({"spec": patch})));
        assert!(told.contains(words), "{says}: {told}");
    }
    let told = refused(world.merge(&status, &tree!({"status": {"admission": {"clusterQueue": "other"}}})));
    assert!(told.contains("status.admission: Invalid value"), "{told}");
    shown(world.merge(&format!("{WORKLOADS}/a"), &tree!({"spec": {"priority": 9}})));
    shown(world.merge(&status, &tree!({"status": {"admission": null, "conditions": []}})));
}

#[test]
fn status_is_written_by_several_managers() {
    let world = World::queueing();
    shown(world.create(WORKLOADS, &workload(&tree!({}))));
    let pods =
        muster_api::queue::reclaimable_body(&"default".into(), &"a".into(), &[("main".into(), 1)].into());
    let path = format!("{WORKLOADS}/a/status");
    let applied = shown(world.apply(&path, &pods));
    assert_eq!(applied.items_at(&["status", "reclaimablePods"])[0].int_at(&["count"]), Some(1));
}
