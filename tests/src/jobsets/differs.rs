//! What differs on a real server, part by part, with the reasons: all that is not compared with it stands here.
//!
//! Scenarios that cannot be played there say so themselves (`where`, `because`), as do those whose end is a matter of
//! chance on any plane (`chance`).

use muster_tree::{Tree, tree};

use crate::lives::view::kept;
use crate::lives::whole::without_clocks;

/// Something that is not compared with a real server.
pub struct Part {
    /// Of objects of this kind; of all when empty.
    pub kind: &'static str,
    /// What it is.
    pub what: &'static str,
    /// Why it differs.
    pub why: &'static str,
    /// Takes it out of an object.
    pub without: fn(&Tree) -> Tree,
}

/// All parts, in the order in which they are taken out.
pub const PARTS: [Part; 9] = [
    Part {
        kind: "",
        what: "identities, revisions and instants",
        why: "no two servers share them",
        without: |object| {
            let unique = ["uid", "resourceVersion", "creationTimestamp"];
            let metadata = unique.iter().fold(kept(object, &["metadata"]), |it, key| it.without_key(key));
            without_clocks(&object.with(&["metadata"], metadata))
        },
    },
    Part {
        kind: "",
        what: "who owns which fields (managedFields)",
        why: "the real controllers of Jobs, volumes and claims have other names and write by other requests",
        without: |object| object.without(&["metadata", "managedFields"]),
    },
    Part {
        kind: "",
        what: "how often a specification was written (generation)",
        why: "the real controllers take other steps to the same end",
        without: |object| object.without(&["metadata", "generation"]),
    },
    Part {
        kind: "Job",
        what: "the condition Suspended",
        why: "whether a Job controller saw a pause between two changes is a matter of its own clock",
        without: |job| {
            let conditions = job.items_at(&["status", "conditions"]).iter();
            let kept: Vec<Tree> =
                conditions.filter(|it| it.str_at(&["type"]) != "Suspended").cloned().collect();
            job.with_option(&["status", "conditions"], (!kept.is_empty()).then(|| Tree::list(kept)))
        },
    },
    Part {
        kind: "PersistentVolumeClaim",
        what: "the node for which its volume was made",
        why: "which of many free nodes the first pod gets is chance",
        without: |claim| claim.without(&["metadata", "annotations", "volume.kubernetes.io/selected-node"]),
    },
    Part {
        kind: "ResourceClaim",
        what: "which devices it has and for whom; whether it has some, and for how many pods, is compared",
        why: "which of several equal devices it is, and which pod is first, is chance",
        without: |claim| {
            let given = claim.at(&["status", "allocation"]).is_some();
            let pods = claim.items_at(&["status", "reservedFor"]).len();
            let pods = i64::try_from(pods).unwrap_or(i64::MAX);
            claim.with(&["status"], tree!({"given": given, "pods": pods}))
        },
    },
    Part {
        kind: "Pod",
        what: "all but how many of which Job are in which phase",
        why: "names and nodes are chance; what real Job controllers and nodes write is compared in lives",
        without: |pod| {
            let job = pod.str_at(&["metadata", "labels", "batch.kubernetes.io/job-name"]);
            tree!(format!("{job} {}", pod.str_at(&["status", "phase"])))
        },
    },
    Part {
        kind: "Event",
        what: "what others tell than the controller of JobSets",
        why: "real controllers and schedulers have their own words, which are compared in lives",
        without: |event| {
            let ours = event.str_at(&["reportingController"]) == "jobset";
            if ours { event.clone() } else { Tree::Null }
        },
    },
    Part {
        kind: "Event",
        what: "how often something was told",
        why: "what failed is tried again by the clock, and a real server is slower",
        without: |event| {
            let about = ["kind", "name"].map(|key| event.str_at(&["regarding", key]).to_owned()).join(" ");
            let says = ["type", "reason", "note"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
            if event.is_null() { Tree::Null } else { tree!(format!("{about} | {says}")) }
        },
    },
];

/// An object of this kind without all that differs.
#[must_use]
pub fn without(kind: &str, object: &Tree) -> Tree {
    let those = PARTS.iter().filter(|part| part.kind.is_empty() || part.kind == kind);
    those.fold(object.clone(), |object, part| (part.without)(&object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_taken_out() {
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
