//! The parts of objects that are not compared with a real server, with the reasons. Everything else is compared.
//!
//! Scenarios that cannot run on a real server have `where` and `because`; scenarios whose result is nondeterministic have `chance`.

use muster_tree::{Tree, tree};

use crate::lifecycle::job_snapshot::value_or_null;
use crate::lifecycle::namespace_snapshot::without_clocks;

/// A part of objects that is not compared with a real server.
pub struct IgnoredPart {
    /// Kind of the objects; all kinds when empty.
    pub kind: &'static str,
    /// The part, for the page of known differences.
    pub what: &'static str,
    /// The reason, for the page of known differences.
    pub why: &'static str,
    /// Removes the part from an object.
    pub without: fn(&Tree) -> Tree,
}

/// All ignored parts, in the order in which they are removed.
pub const IGNORED_PARTS: [IgnoredPart; 9] = [
    IgnoredPart {
        kind: "",
        what: "UIDs, resource versions and timestamps",
        why: "they differ between any two servers",
        without: |object| {
            let unique = ["uid", "resourceVersion", "creationTimestamp"];
            let metadata =
                unique.iter().fold(value_or_null(object, &["metadata"]), |it, key| it.without_key(key));
            without_clocks(&object.with(&["metadata"], metadata))
        },
    },
    IgnoredPart {
        kind: "",
        what: "field managers (`metadata.managedFields`)",
        why: "the upstream controllers of Jobs, volumes and claims have other manager names and send other requests",
        without: |object| object.without(&["metadata", "managedFields"]),
    },
    IgnoredPart {
        kind: "",
        what: "`metadata.generation`",
        why: "the upstream controllers reach the same spec by a different number of updates",
        without: |object| object.without(&["metadata", "generation"]),
    },
    IgnoredPart {
        kind: "Job",
        what: "the condition `Suspended`",
        why: "whether a Job controller observes a suspension between two updates depends on timing",
        without: |job| {
            let conditions = job.items_at(&["status", "conditions"]).iter();
            let kept: Vec<Tree> =
                conditions.filter(|it| it.str_at(&["type"]) != "Suspended").cloned().collect();
            job.with_option(&["status", "conditions"], (!kept.is_empty()).then(|| Tree::list(kept)))
        },
    },
    IgnoredPart {
        kind: "PersistentVolumeClaim",
        what: "the annotation with the selected node",
        why: "the first pod may be bound to any of several equal nodes",
        without: |claim| claim.without(&["metadata", "annotations", "volume.kubernetes.io/selected-node"]),
    },
    IgnoredPart {
        kind: "ResourceClaim",
        what: "the allocated devices and the pods in `reservedFor`; whether it is allocated, and for how many pods, is compared",
        why: "any of several equal devices may be allocated, and any pod may be first",
        without: |claim| {
            let given = claim.at(&["status", "allocation"]).is_some();
            let pods = claim.items_at(&["status", "reservedFor"]).len();
            let pods = i64::try_from(pods).unwrap_or(i64::MAX);
            claim.with(&["status"], tree!({"given": given, "pods": pods}))
        },
    },
    IgnoredPart {
        kind: "Pod",
        what: "everything except the number of pods per Job and phase",
        why: "names and nodes are random; what upstream Job controllers and kubelets write is compared in the lifecycle scenarios",
        without: |pod| {
            let job = pod.str_at(&["metadata", "labels", "batch.kubernetes.io/job-name"]);
            tree!(format!("{job} {}", pod.str_at(&["status", "phase"])))
        },
    },
    IgnoredPart {
        kind: "Event",
        what: "events of controllers other than the JobSet controller",
        why: "upstream controllers and schedulers have other messages, which are compared in the lifecycle scenarios",
        without: |event| {
            let ours = event.str_at(&["reportingController"]) == "jobset";
            if ours { event.clone() } else { Tree::Null }
        },
    },
    IgnoredPart {
        kind: "Event",
        what: "the event count",
        why: "retries depend on timing, and a real server is slower",
        without: |event| {
            let about = ["kind", "name"].map(|key| event.str_at(&["regarding", key]).to_owned()).join(" ");
            let says = ["type", "reason", "note"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
            if event.is_null() { Tree::Null } else { tree!(format!("{about} | {says}")) }
        },
    },
];

/// Removes all ignored parts from an object.
#[must_use]
pub fn without(kind: &str, object: &Tree) -> Tree {
    let those = IGNORED_PARTS.iter().filter(|part| part.kind.is_empty() || part.kind == kind);
    those.fold(object.clone(), |object, part| (part.without)(&object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_parts_are_removed() {
        let meta =
            tree!({"name": "a", "uid": "u", "generation": 2, "managedFields": [], "labels": {"l": "1"}});
        let bare = tree!({"name": "a", "labels": {"l": "1"}});
        let event = |by: &str| {
            tree!({"reportingController": by, "regarding": {"kind": "JobSet", "name": "js"}, "type": "Normal", "reason": "R",
                "note": "n", "series": {"count": 3}})
        };
        for (kind, object, want) in [
            (
                "JobSet",
                tree!({"metadata": meta.clone(), "spec": {"a": 1}}),
                tree!({"metadata": bare.clone(), "spec": {"a": 1}}),
            ),
            (
                "Job",
                tree!({"metadata": meta.clone(), "status": {"conditions": [{"type": "Suspended"}]}}),
                tree!({"metadata": bare.clone(), "status": {}}),
            ),
            (
                "ResourceClaim",
                tree!({"metadata": meta.clone(), "status": {"allocation": {}, "reservedFor": [{"name": "p"}]}}),
                tree!({"metadata": bare, "status": {"given": true, "pods": 1}}),
            ),
            (
                "Pod",
                tree!({"metadata": {"labels": {"batch.kubernetes.io/job-name": "j"}}, "status": {"phase": "Running"}}),
                tree!("j Running"),
            ),
            ("Event", event("jobset"), tree!("JobSet js | Normal | R | n")),
            ("Event", event("job-controller"), Tree::Null),
        ] {
            assert_eq!(without(kind, &object), want, "{kind}");
        }
    }
}
