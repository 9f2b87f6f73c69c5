//! The rows of what JobSets and the scheduler make and change: children, claims, volumes, what is told.

use muster_api::kinds::{CLAIMS, EVENTS, JOBSETS, RESOURCE_CLAIMS, SERVICES, VOLUMES};
use muster_api::port::{Act, Call, Cascade, Kind, Part};
use muster_tree::{Tree, tree};

use super::table::Row;
use super::words::*;

/// All rows.
pub fn rows() -> Vec<Row> {
    [sets(), children(), volumes(), devices(), told()].concat()
}

/// The same call, only for what was seen last.
fn seen_last(seen: &Seen, kind: &Kind, name: &str, call: Call) -> Call {
    uid(seen.uid(kind, name), revision(seen.revision(kind, name), call))
}

fn set() -> Tree {
    let template = tree!({"spec": {"template": {"spec": pod_spec()}}});
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s", "namespace": SPACE},
        "spec": {"replicatedJobs": [{"name": "w", "template": template}]}})
}

fn sets() -> Vec<Row> {
    vec![
        ("a set", |_| call(on(&JOBSETS, "s"), Act::Create(set()))),
        ("a set that breaks a rule of its definition", |_| {
            let wrong = set().with(&["metadata", "name"], "t").with(&["spec", "successPolicy"], tree!({}));
            call(on(&JOBSETS, "t"), Act::Create(wrong))
        }),
        ("its first status", |seen| {
            let status = tree!({"status": {"restarts": 0, "replicatedJobsStatus":
                [{"name": "w", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}]}});
            seen_last(seen, &JOBSETS, "s", call(part(&JOBSETS, "s", Part::Status), Act::Merge(status)))
        }),
        ("a status over what is no longer so", |seen| {
            let status =
                call(part(&JOBSETS, "s", Part::Status), Act::Merge(tree!({"status": {"restarts": 1}})));
            revision(seen.revision(&JOBSETS, "s"), status)
        }),
        ("a condition", |_| {
            let ends = tree!({"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let status = tree!({"status": {"conditions": [ends], "terminalState": "Completed"}});
            call(part(&JOBSETS, "s", Part::Status), Act::Merge(status))
        }),
        ("a condition that cannot be", |_| {
            let wrong = tree!({"type": "Completed", "status": "Perhaps", "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            call(part(&JOBSETS, "s", Part::Status), Act::Merge(tree!({"status": {"conditions": [wrong]}})))
        }),
        ("the spec of a set is no part of its status", |_| {
            let both = tree!({"spec": {"suspend": true}, "status": {"restarts": 2}});
            call(part(&JOBSETS, "s", Part::Status), Act::Merge(both))
        }),
        ("the set, looked at before it is deleted", |_| call(on(&JOBSETS, "s"), Act::Get)),
        ("a set goes after what it made", |seen| delete(seen, &JOBSETS, "s", Cascade::Foreground)),
        ("a status of what is going", |_| {
            call(part(&JOBSETS, "s", Part::Status), Act::Merge(tree!({"status": {"restarts": 3}})))
        }),
    ]
}

fn owned(seen: &Seen, kind: &str, name: &str, spec: &Tree) -> Tree {
    let owner = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "s",
        "uid": seen.uid(&JOBSETS, "s"), "controller": true, "blockOwnerDeletion": true});
    tree!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": SPACE, "ownerReferences": [owner]},
        "spec": spec.clone()})
}

fn children() -> Vec<Row> {
    vec![
        ("a service for the names of pods", |seen| {
            let spec = tree!({"clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"a": "b"}});
            call(on(&SERVICES, "s"), Act::Create(owned(seen, "Service", "s", &spec)))
        }),
        ("a service that is there", |seen| {
            let spec = tree!({"clusterIP": "None", "selector": {"a": "b"}});
            call(on(&SERVICES, "s"), Act::Create(owned(seen, "Service", "s", &spec)))
        }),
        ("a claim to a volume", |seen| {
            let spec = tree!({"accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                "resources": {"requests": {"storage": "1Gi"}}});
            call(on(&CLAIMS, "v"), Act::Create(owned(seen, "PersistentVolumeClaim", "v", &spec)))
        }),
        ("a claim to a volume that cannot be", |seen| {
            let spec = tree!({"accessModes": ["Sometimes"], "resources": {"requests": {"storage": "1Gi"}}});
            call(on(&CLAIMS, "w"), Act::Create(owned(seen, "PersistentVolumeClaim", "w", &spec)))
        }),
    ]
}

fn volumes() -> Vec<Row> {
    vec![
        ("where its volume shall be made", |seen| {
            let node = tree!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
            seen_last(seen, &CLAIMS, "v", call(on(&CLAIMS, "v"), Act::Merge(node)))
        }),
        ("a volume", |_| {
            let made = tree!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                    "hostPath": {"path": "/v"}}});
            call(on(&VOLUMES, "v"), Act::Create(made))
        }),
        ("a volume is given to a claim", |seen| {
            let claim = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": SPACE, "name": "v",
                "uid": seen.uid(&CLAIMS, "v")});
            let given = tree!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": claim}});
            seen_last(seen, &VOLUMES, "v", call(on(&VOLUMES, "v"), Act::Merge(given)))
        }),
    ]
}

const DEVICE: (&str, &str) = ("driver.example.com", "pool");

fn devices() -> Vec<Row> {
    vec![
        ("a claim to a device", |_| {
            let spec = tree!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c.example.com"}}]}});
            let claim = tree!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "metadata": {"name": "d", "namespace": SPACE}, "spec": spec});
            call(on(&RESOURCE_CLAIMS, "d"), Act::Create(claim))
        }),
        ("a claim is protected", |seen| {
            let protected = tree!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
            seen_last(seen, &RESOURCE_CLAIMS, "d", call(on(&RESOURCE_CLAIMS, "d"), Act::Merge(protected)))
        }),
        ("a device for a pod", |seen| {
            let result = tree!({"request": "r", "driver": DEVICE.0, "pool": DEVICE.1, "device": "g"});
            let status = tree!({"status": {"allocation": {"devices": {"results": [result]}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}});
            let give = call(part(&RESOURCE_CLAIMS, "d", Part::Status), Act::Merge(status));
            seen_last(seen, &RESOURCE_CLAIMS, "d", give)
        }),
        ("reserved for whom nothing is known of", |_| {
            let wrong = tree!({"status": {"reservedFor": [{"resource": "pods", "name": "p"}]}});
            call(part(&RESOURCE_CLAIMS, "d", Part::Status), Act::Merge(wrong))
        }),
        ("the device is given back", |_| {
            let free = tree!({"status": {"allocation": null, "reservedFor": null}});
            call(part(&RESOURCE_CLAIMS, "d", Part::Status), Act::Merge(free))
        }),
        ("no longer protected", |_| {
            call(on(&RESOURCE_CLAIMS, "d"), Act::Merge(tree!({"metadata": {"finalizers": null}})))
        }),
        ("the claim goes", |seen| delete(seen, &RESOURCE_CLAIMS, "d", Cascade::Background)),
    ]
}

fn event(more: &Tree) -> Tree {
    let about = tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "namespace": SPACE, "name": "s",
        "uid": "u"});
    tree!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": SPACE}, "involvedObject": about,
        "type": "Normal", "reason": "R", "message": "m", "count": 1, "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z", "source": {"component": "jobset"}, "reportingComponent": "jobset",
        "reportingInstance": "i"})
    .merge(more)
}

fn told() -> Vec<Row> {
    vec![
        ("something is told", |_| {
            let new = tree!({"action": "Reconciling", "eventTime": "2026-01-01T00:00:00.000001Z"});
            call(on(&EVENTS, "e"), Act::Create(event(&new)))
        }),
        ("told without saying what was done", |_| {
            let new = tree!({"metadata": {"name": "f"}, "eventTime": "2026-01-01T00:00:00.000001Z"});
            call(on(&EVENTS, "f"), Act::Create(event(&new)))
        }),
        ("told again", |_| {
            let last = "2026-01-01T00:00:05.000001Z";
            let more = tree!({"count": 2, "message": "m", "lastTimestamp": "2026-01-01T00:00:05Z",
                "series": {"count": 2, "lastObservedTime": last}});
            call(on(&EVENTS, "e"), Act::Merge(more))
        }),
        ("told again of what was forgotten", |_| call(on(&EVENTS, "g"), Act::Merge(tree!({"count": 2})))),
    ]
}
