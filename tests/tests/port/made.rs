//! The rows of what the JobSet controller and the scheduler write: children, claims, volumes, events.

use muster_api::client::{ApiRequest, DeletionPropagation, Kind, RequestVerb, Subresource};
use muster_api::kinds::{
    EVENTS, JOBSETS, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, RESOURCE_CLAIMS, SERVICES,
};
use muster_tree::{Tree, tree};

use super::table::Row;
use super::words::*;

pub fn rows() -> Vec<Row> {
    [sets(), children(), volumes(), devices(), told()].concat()
}

/// The same call, only for what was seen last.
fn seen_last(seen: &Seen, kind: &Kind, name: &str, call: ApiRequest) -> ApiRequest {
    uid(seen.uid(kind, name), revision(seen.revision(kind, name), call))
}

fn set() -> Tree {
    let template = tree!({"spec": {"template": {"spec": pod_spec()}}});
    tree!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "s", "namespace": SPACE},
        "spec": {"replicatedJobs": [{"name": "w", "template": template}]}})
}

fn sets() -> Vec<Row> {
    vec![
        ("a set", |_| call(on(&JOBSETS, "s"), RequestVerb::Create(set()))),
        ("a set that breaks a rule of its definition", |_| {
            let wrong = set().with(&["metadata", "name"], "t").with(&["spec", "successPolicy"], tree!({}));
            call(on(&JOBSETS, "t"), RequestVerb::Create(wrong))
        }),
        ("its first status", |seen| {
            let status = tree!({"status": {"restarts": 0, "replicatedJobsStatus":
                [{"name": "w", "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}]}});
            seen_last(
                seen,
                &JOBSETS,
                "s",
                call(part(&JOBSETS, "s", Subresource::Status), RequestVerb::MergePatch(status)),
            )
        }),
        ("a status over what is no longer so", |seen| {
            let status = call(
                part(&JOBSETS, "s", Subresource::Status),
                RequestVerb::MergePatch(tree!({"status": {"restarts": 1}})),
            );
            revision(seen.revision(&JOBSETS, "s"), status)
        }),
        ("a condition", |_| {
            let ends = tree!({"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let status = tree!({"status": {"conditions": [ends], "terminalState": "Completed"}});
            call(part(&JOBSETS, "s", Subresource::Status), RequestVerb::MergePatch(status))
        }),
        ("a condition that cannot be", |_| {
            let wrong = tree!({"type": "Completed", "status": "Perhaps", "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"});
            call(
                part(&JOBSETS, "s", Subresource::Status),
                RequestVerb::MergePatch(tree!({"status": {"conditions": [wrong]}})),
            )
        }),
        ("the spec of a set is no part of its status", |_| {
            let both = tree!({"spec": {"suspend": true}, "status": {"restarts": 2}});
            call(part(&JOBSETS, "s", Subresource::Status), RequestVerb::MergePatch(both))
        }),
        ("the set, looked at before it is deleted", |_| call(on(&JOBSETS, "s"), RequestVerb::Get)),
        ("a set goes after what it made", |seen| {
            delete(seen, &JOBSETS, "s", DeletionPropagation::Foreground)
        }),
        ("a status of what is going", |_| {
            call(
                part(&JOBSETS, "s", Subresource::Status),
                RequestVerb::MergePatch(tree!({"status": {"restarts": 3}})),
            )
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
            call(on(&SERVICES, "s"), RequestVerb::Create(owned(seen, "Service", "s", &spec)))
        }),
        ("a service that is there", |seen| {
            let spec = tree!({"clusterIP": "None", "selector": {"a": "b"}});
            call(on(&SERVICES, "s"), RequestVerb::Create(owned(seen, "Service", "s", &spec)))
        }),
        ("a claim to a volume", |seen| {
            let spec = tree!({"accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                "resources": {"requests": {"storage": "1Gi"}}});
            call(
                on(&PERSISTENT_VOLUME_CLAIMS, "v"),
                RequestVerb::Create(owned(seen, "PersistentVolumeClaim", "v", &spec)),
            )
        }),
        ("a claim to a volume that cannot be", |seen| {
            let spec = tree!({"accessModes": ["Sometimes"], "resources": {"requests": {"storage": "1Gi"}}});
            call(
                on(&PERSISTENT_VOLUME_CLAIMS, "w"),
                RequestVerb::Create(owned(seen, "PersistentVolumeClaim", "w", &spec)),
            )
        }),
    ]
}

fn volumes() -> Vec<Row> {
    vec![
        ("where its volume shall be made", |seen| {
            let node = tree!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}}});
            seen_last(
                seen,
                &PERSISTENT_VOLUME_CLAIMS,
                "v",
                call(on(&PERSISTENT_VOLUME_CLAIMS, "v"), RequestVerb::MergePatch(node)),
            )
        }),
        ("a volume", |_| {
            let made = tree!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
                "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "c",
                    "hostPath": {"path": "/v"}}});
            call(on(&PERSISTENT_VOLUMES, "v"), RequestVerb::Create(made))
        }),
        ("a volume is given to a claim", |seen| {
            let claim = tree!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": SPACE, "name": "v",
                "uid": seen.uid(&PERSISTENT_VOLUME_CLAIMS, "v")});
            let given = tree!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": claim}});
            seen_last(
                seen,
                &PERSISTENT_VOLUMES,
                "v",
                call(on(&PERSISTENT_VOLUMES, "v"), RequestVerb::MergePatch(given)),
            )
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
            call(on(&RESOURCE_CLAIMS, "d"), RequestVerb::Create(claim))
        }),
        ("a claim is protected", |seen| {
            let protected = tree!({"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}});
            seen_last(
                seen,
                &RESOURCE_CLAIMS,
                "d",
                call(on(&RESOURCE_CLAIMS, "d"), RequestVerb::MergePatch(protected)),
            )
        }),
        ("a device for a pod", |seen| {
            let result = tree!({"request": "r", "driver": DEVICE.0, "pool": DEVICE.1, "device": "g"});
            let status = tree!({"status": {"allocation": {"devices": {"results": [result]}},
                "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}});
            let give =
                call(part(&RESOURCE_CLAIMS, "d", Subresource::Status), RequestVerb::MergePatch(status));
            seen_last(seen, &RESOURCE_CLAIMS, "d", give)
        }),
        ("reserved for whom nothing is known of", |_| {
            let wrong = tree!({"status": {"reservedFor": [{"resource": "pods", "name": "p"}]}});
            call(part(&RESOURCE_CLAIMS, "d", Subresource::Status), RequestVerb::MergePatch(wrong))
        }),
        ("the device is given back", |_| {
            let free = tree!({"status": {"allocation": null, "reservedFor": null}});
            call(part(&RESOURCE_CLAIMS, "d", Subresource::Status), RequestVerb::MergePatch(free))
        }),
        ("no longer protected", |_| {
            call(
                on(&RESOURCE_CLAIMS, "d"),
                RequestVerb::MergePatch(tree!({"metadata": {"finalizers": null}})),
            )
        }),
        ("the claim goes", |seen| delete(seen, &RESOURCE_CLAIMS, "d", DeletionPropagation::Background)),
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
            call(on(&EVENTS, "e"), RequestVerb::Create(event(&new)))
        }),
        ("told without saying what was done", |_| {
            let new = tree!({"metadata": {"name": "f"}, "eventTime": "2026-01-01T00:00:00.000001Z"});
            call(on(&EVENTS, "f"), RequestVerb::Create(event(&new)))
        }),
        ("told again", |_| {
            let last = "2026-01-01T00:00:05.000001Z";
            let more = tree!({"count": 2, "message": "m", "lastTimestamp": "2026-01-01T00:00:05Z",
                "series": {"count": 2, "lastObservedTime": last}});
            call(on(&EVENTS, "e"), RequestVerb::MergePatch(more))
        }),
        ("told again of what was forgotten", |_| {
            call(on(&EVENTS, "g"), RequestVerb::MergePatch(tree!({"count": 2})))
        }),
    ]
}
