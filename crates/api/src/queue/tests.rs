//! Readers and builders against each other: what is read is written as it was.

use muster_tree::{Tree, tree};

use super::consts::{conditions, finalizers};
use super::*;
use crate::time::Time;

fn status() -> Tree {
    let condition = |kind: &str| {
        tree!({"type": kind, "status": "True", "reason": "R", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2})
    };
    tree!({"conditions": [(condition("QuotaReserved")), (condition("Admitted")),
            (condition("WaitingForReplacementPods"))],
        "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 3,
            "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1500m", "memory": "3Gi"},
            "topologyAssignment": {"levels": ["a"]}, "delayedTopologyRequest": "Ready"}]},
        "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:05Z"},
        "reclaimablePods": [{"name": "main", "count": 1}],
        "admissionChecks": [{"name": "ac", "state": "Retry", "message": "x", "requeueAfterSeconds": 7,
            "lastTransitionTime": "2026-01-01T00:00:00Z", "retryCount": 2, "podSetUpdates": [{"name": "main"}]}],
        "accumulatedPastExecutionTimeSeconds": 9,
        "schedulingStats": {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 2}]},
        "nominatedClusterNames": ["c"], "clusterName": "c", "unhealthyNodes": [{"name": "n"}]})
}

#[test]
fn owned_status_fields_round_trip() {
    let workload = tree!({"metadata": {"name": "w", "namespace": "n"}, "status": (status())});
    let owned = AdmissionStatus::of(&workload);
    let body = owned.body();
    let others: [&[&str]; 1] = [&["reclaimablePods"]];
    let want = others.iter().fold(status(), |tree, path| tree.without(path));
    let mine = Tree::list(want.items_at(&["conditions"])[..2].to_vec());
    assert_eq!(body.get("status"), Some(&want.with(&["conditions"], mine)));
    assert_eq!(body.str_at(&["metadata", "name"]), "w");
    assert_eq!(AdmissionStatus::of(&body), owned);
}

#[test]
fn resource_requests_are_written_only_without_admission() {
    let workload = tree!({"status": {"resourceRequests": [{"name": "main", "resources": {"cpu": "1"}}]}});
    let mut owned = AdmissionStatus::of(&workload);
    assert_eq!(owned.body().get("status"), workload.get("status"));
    owned.admission = Some(Admission { cluster_queue: "cq".into(), assignments: Vec::new() });
    assert_eq!(owned.body().at(&["status", "resourceRequests"]), None);
}

#[test]
fn a_new_workload_reads_back() {
    let new = NewWorkload {
        namespace: "n".into(),
        name: "w".into(),
        queue: "q".into(),
        priority: Some(5),
        priority_class: Some(PriorityRef::workload(&"high".into())),
        max_exec_secs: Some(60),
        pod_sets: vec![NewPodSet {
            name: "main".into(),
            template: tree!({"spec": {"containers": [{"name": "c"}]}}),
            count: 3,
            min_count: Some(2),
            topology: Tree::Null,
        }],
        ..NewWorkload::default()
    };
    let facts = WorkloadFacts::of(&new.tree());
    assert!(facts.active && facts.has_finalizer(finalizers::IN_USE));
    assert_eq!((facts.queue.as_str(), facts.priority, facts.max_exec_secs), ("q", 5, Some(60)));
    assert_eq!(facts.priority_class, new.priority_class);
    assert_eq!((facts.pod_sets[0].count, facts.pod_sets[0].min_count), (3, Some(2)));
    assert_eq!(new.tree().at(&["metadata", "labels"]), None);
}

#[test]
fn facts_of_a_status() {
    let workload = tree!({"metadata": {"name": "w"}, "spec": {"active": false, "podSets": [{"template": {}}]},
        "status": (status())});
    let facts = WorkloadFacts::of(&workload);
    assert!(facts.has_quota() && facts.is_admitted() && !facts.is_finished() && !facts.active);
    assert!(facts.holds(conditions::WAITING_FOR_REPLACEMENT_PODS));
    assert_eq!((facts.pod_sets[0].name.as_str(), facts.pod_sets[0].count), ("main", 1));
    let given = facts.admission.as_ref().unwrap().assignment("main").unwrap();
    assert_eq!((given.usage["cpu"], given.usage["memory"], given.count), (1500, 3 << 30, Some(3)));
    assert_eq!(facts.requeue.unwrap().at, Time::parse("2026-01-01T00:00:05Z"));
    assert_eq!((facts.reclaimable["main"], facts.accumulated_secs), (1, 9));
    assert_eq!(facts.checks[0].state, CheckState::Retry);
}

#[test]
fn queue_defaults_are_filled_in_on_reading() {
    let queue = ClusterQueueFacts::of(&tree!({"spec": {"resourceGroups": [{"coveredResources": ["cpu"],
        "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": 2, "lendingLimit": "500m"}]}]}]}}));
    assert_eq!(queue.strategy, QueueingStrategy::BestEffortFifo);
    assert_eq!(queue.weight_nano, WEIGHT_ONE);
    assert!(queue.fungibility.next_before_preempting && !queue.fungibility.next_before_borrowing);
    assert_eq!((queue.preemption, queue.stop), (ClusterQueuePreemption::default(), StopPolicy::None));
    let quota = &queue.groups[0].flavors[0].resources[0];
    assert_eq!((quota.nominal, quota.borrowing_limit, quota.lending_limit), (2000, None, Some(500)));
    assert!(!queue.namespaces.matches(&tree!({})), "no selector, no namespace");
}

#[test]
fn weights_are_billionths() {
    let of =
        |weight: Tree| LocalQueueFacts::of(&tree!({"spec": {"fairSharing": {"weight": weight}}})).weight_nano;
    assert_eq!(
        (of("2".into()), of("500m".into()), of(0.into()), of(Tree::Null)),
        (2_000_000_000, 500_000_000, 0, WEIGHT_ONE)
    );
}

#[test]
fn a_queue_that_is_as_it_should_be_is_not_written() {
    let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
    let mut status = QueueStatus::of(&Tree::Null);
    status.set(Condition::new("Active", true, "Ready", "m", now));
    let resources = vec![ResourceUsage { name: "cpu".into(), total: 1500, borrowed: Some(0) }];
    status.usage = vec![FlavorUsage { name: "f".into(), resources }];
    status.pending = 4;
    let patch = status.patch(&Tree::Null).unwrap();
    let stored = Tree::empty_map().merge(patch.get("status").unwrap());
    assert_eq!(QueueStatus::of(&stored), status);
    assert_eq!(status.patch(&stored), None);
    assert_eq!(cohort_status(&tree!({"fairSharing": {"weightedShare": 3}}), Some(3)), None);
    assert!(cohort_status(&Tree::Null, Some(3)).is_some());
}

#[test]
fn a_finalizer_is_added_once() {
    let object = tree!({"metadata": {"finalizers": ["a"]}});
    let with = object.merge(&finalizer_added(&object, "b").unwrap());
    assert_eq!(with.items_at(&["metadata", "finalizers"]).len(), 2);
    assert_eq!(finalizer_added(&with, "b"), None);
}
