//! There and back for every kind, and what is left out on the way.

use muster_api::queue::consts::{API_VERSION, OLD_API_VERSION};
use muster_tree::{Tree, tree};

use super::convert;

fn old(kind: &str, rest: &Tree) -> Tree {
    tree!({"apiVersion": OLD_API_VERSION, "kind": kind, "metadata": {"name": "n"}}).merge(rest)
}

fn new(kind: &str, rest: &Tree) -> Tree {
    tree!({"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": "n"}}).merge(rest)
}

/// Fields of both versions survive a round trip from either side.
#[test]
fn round_trip() {
    let cases = [
        (
            "ClusterQueue",
            tree!({"spec": {"cohort": "c", "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]},
                "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}, "status": {"pendingWorkloads": 1}}),
            tree!({"spec": {"cohortName": "c", "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]},
                "flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}}, "status": {"pendingWorkloads": 1}}),
        ),
        (
            "LocalQueue",
            tree!({"spec": {"clusterQueue": "q"}, "status": {"flavorUsage": [{"name": "f", "resources": []}]}}),
            tree!({"spec": {"clusterQueue": "q"}, "status": {"flavorsUsage": [{"name": "f", "resources": []}]}}),
        ),
        ("Cohort", tree!({"spec": {"parentName": "p"}}), tree!({"spec": {"parentName": "p"}})),
        (
            "ResourceFlavor",
            tree!({"spec": {"nodeLabels": {"a": "b"}}}),
            tree!({"spec": {"nodeLabels": {"a": "b"}}}),
        ),
        (
            "AdmissionCheck",
            tree!({"spec": {"controllerName": "c"}}),
            tree!({"spec": {"controllerName": "c"}}),
        ),
        ("WorkloadPriorityClass", tree!({"value": 3}), tree!({"value": 3})),
        (
            "Topology",
            tree!({"spec": {"levels": [{"nodeLabel": "l"}]}}),
            tree!({"spec": {"levels": [{"nodeLabel": "l"}]}}),
        ),
        (
            "Workload",
            tree!({"spec": {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
                "priority": 5}, "status": {"accumulatedPastExexcutionTimeSeconds": 7}}),
            tree!({"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass",
                "name": "high"}, "priority": 5}, "status": {"accumulatedPastExecutionTimeSeconds": 7}}),
        ),
        (
            "Workload",
            tree!({"spec": {"priorityClassName": "p", "priorityClassSource": "scheduling.k8s.io/priorityclass"}}),
            tree!({"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass",
                "name": "p"}}}),
        ),
        (
            "Workload",
            tree!({"spec": {"priorityClassSource": "", "queueName": "q"}}),
            tree!({"spec": {"queueName": "q"}}),
        ),
    ];
    for (kind, before, after) in cases {
        let (before, after) = (old(kind, &before), new(kind, &after));
        assert_eq!(convert(&before, API_VERSION), after, "{kind} to the newer one");
        assert_eq!(convert(&after, OLD_API_VERSION), before, "{kind} back");
        assert_eq!(convert(&after, API_VERSION), after, "{kind} as it is");
    }
}

#[test]
fn v1beta1_only_fields() {
    let cases = [
        (
            "flat checks take the place of a strategy",
            "ClusterQueue",
            tree!({"spec": {"admissionChecks": ["a", "b"]}}),
            tree!({"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}}),
        ),
        (
            "a strategy without checks is none",
            "ClusterQueue",
            tree!({"spec": {"admissionChecksStrategy": {}, "admissionChecks": []}}),
            tree!({"spec": {}}),
        ),
        (
            "words that were given up",
            "ClusterQueue",
            tree!({"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}}),
            tree!({"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}}),
        ),
        (
            "a status that nobody writes",
            "ClusterQueue",
            tree!({"status": {"pendingWorkloadsStatus": {"lastChangeTime": "2026-01-01T00:00:00Z"}, "pendingWorkloads": 1}}),
            tree!({"status": {"pendingWorkloads": 1}}),
        ),
        (
            "the delay of a check",
            "AdmissionCheck",
            tree!({"spec": {"controllerName": "c", "retryDelayMinutes": 15}}),
            tree!({"spec": {"controllerName": "c"}}),
        ),
        (
            "a class from nowhere",
            "Workload",
            tree!({"spec": {"priorityClassName": "p", "priorityClassSource": ""}}),
            tree!({"spec": {}}),
        ),
    ];
    for (says, kind, before, after) in cases {
        assert_eq!(convert(&old(kind, &before), API_VERSION), new(kind, &after), "{says}");
    }
}

fn placed(topology: &Tree) -> Tree {
    tree!({"spec": {"priorityClassSource": ""}, "status": {"admission": {"clusterQueue": "q",
        "podSetAssignments": [{"name": "main", "topologyAssignment": topology}]}}})
}

#[test]
fn topology_slices_are_columnar() {
    let cases = [
        (
            "one domain",
            tree!({"levels": ["block", "host"], "domains": [{"values": ["b", "h"], "count": 2}]}),
            tree!({"levels": ["block", "host"], "slices": [{"domainCount": 1, "podCounts": {"universal": 2},
                "valuesPerLevel": [{"universal": "b"}, {"universal": "h"}]}]}),
        ),
        (
            "several, some of it alike",
            tree!({"levels": ["block", "host"], "domains": [{"values": ["b", "h1"], "count": 2},
                {"values": ["b", "h2"], "count": 1}]}),
            tree!({"levels": ["block", "host"], "slices": [{"domainCount": 2, "podCounts": {"individual": [2, 1]},
                "valuesPerLevel": [{"universal": "b"}, {"individual": {"roots": ["h1", "h2"]}}]}]}),
        ),
        ("none", tree!({"levels": ["host"], "domains": []}), tree!({"levels": ["host"], "slices": []})),
    ];
    for (says, domains, slices) in cases {
        let (before, after) = (old("Workload", &placed(&domains)), new("Workload", &placed(&slices)));
        let after = after.without(&["spec", "priorityClassSource"]);
        assert_eq!(convert(&before, API_VERSION), after, "{says}");
        assert_eq!(convert(&after, OLD_API_VERSION), before, "{says}, back");
    }
}

#[test]
fn foreign_slices_are_converted() {
    let slices = tree!({"levels": ["host"], "slices": [
        {"domainCount": 2, "podCounts": {"universal": 1},
            "valuesPerLevel": [{"individual": {"prefix": "node-", "roots": ["1", "2"], "suffix": ".x"}}]},
        {"domainCount": 1, "podCounts": {"individual": [4]}, "valuesPerLevel": [{"universal": "z"}]}]});
    let made = convert(&new("Workload", &placed(&slices)), OLD_API_VERSION);
    let set = &made.items_at(super::ASSIGNMENTS)[0];
    let want = tree!([{"values": ["node-1.x"], "count": 1}, {"values": ["node-2.x"], "count": 1},
        {"values": ["z"], "count": 4}]);
    assert_eq!(set.at(&["topologyAssignment", "domains"]), Some(&want));
}
