//! Single reconciliations: a snapshot and the expected actions.

use muster_api::client::Subresource;
use muster_api::event::EventType;
use muster_api::meta::OwnerReference;
use muster_queue::jobs::owner_chain::{ManagedAncestor, OwnerChainError};
use muster_queue::jobs::reconciler::{JobAncestry, JobReconcilerAction, JobReconcilerSettings};
use muster_tree::{Tree, tree};

use super::world::World;
use super::{cases, says, text, texts};

/// Formats an action as a line.
fn line(step: &JobReconcilerAction) -> String {
    match step {
        JobReconcilerAction::CreateWorkload(tree) => format!(
            "create {} in {} of priority {} {}",
            tree.str_at(&["metadata", "name"]),
            tree.str_at(&["spec", "queueName"]),
            tree.int_at(&["spec", "priority"]).unwrap_or_default(),
            tree.str_at(&["spec", "priorityClassRef", "name"])
        )
        .trim_end()
        .to_owned(),
        JobReconcilerAction::PatchWorkload(this, patch) => format!("patch {} {patch}", this.name),
        JobReconcilerAction::RemoveFinalizer(this) => format!("let go of {}", this.name),
        JobReconcilerAction::DeleteWorkload(this) => format!("delete {}", this.name),
        JobReconcilerAction::SetCondition(this, it) => {
            format!("{} of {} is {}: {}: {}", it.kind, this.name, it.holds, it.reason, it.message)
        }
        JobReconcilerAction::SetReclaimablePods(this, pods) => {
            let pods: Vec<String> = pods.iter().map(|(name, count)| format!("{name} {count}")).collect();
            format!("free of {}: {}", this.name, pods.join(", "))
        }
        JobReconcilerAction::ReleaseQuota(this) => format!("release {}", this.name),
        JobReconcilerAction::PatchJob(change) => {
            let part = if change.part == Subresource::Status { "status of job" } else { "job" };
            format!("{part} {}", change.patch)
        }
        JobReconcilerAction::Note(_, severity, reason, message) => {
            let mark = if *severity == EventType::Warning { "!" } else { "-" };
            format!("{mark} {reason}: {message}")
        }
    }
}

fn owner() -> OwnerReference {
    OwnerReference {
        api_version: text("jobset.x-k8s.io/v1alpha2"),
        kind: text("JobSet"),
        name: text("s"),
        uid: text("s"),
        controller: true,
        block_owner_deletion: true,
    }
}

fn above(word: &str) -> JobAncestry {
    let managed = |is_admitted| JobAncestry::Managed {
        ancestor: ManagedAncestor { owner: owner(), queue: text("q") },
        is_admitted,
    };
    match word {
        "waits" => managed(false),
        "runs" => managed(true),
        "too deep" => JobAncestry::Unknown(OwnerChainError::TooDeep),
        "missing" => JobAncestry::Unknown(OwnerChainError::NotFound(owner())),
        _ => JobAncestry::Unmanaged,
    }
}

/// A suspended job in queue `q` with one pod of one container.
fn job(case: &Tree) -> Tree {
    let usual = tree!({"kind": "Job", "metadata": {"name": "j", "namespace": "n", "uid": "u",
            "labels": {"kueue.x-k8s.io/queue-name": "q"}},
        "spec": {"suspend": true, "parallelism": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}});
    usual.merge(case.get("job").unwrap_or(&Tree::empty_map()))
}

/// A Workload of that job with these conditions.
fn workload(said: &Tree) -> Tree {
    let usual = tree!({"metadata": {"name": "wl", "namespace": "n", "uid": "w",
            "finalizers": ["kueue.x-k8s.io/resource-in-use"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": true}]},
        "spec": {"queueName": "q", "podSets": [
            {"name": "main", "count": 2, "template": {"spec": {"containers": [{"name": "c"}]}}}]}});
    let condition = |it: &Tree| {
        let words: Vec<&str> = it.as_str().unwrap().splitn(3, '/').collect();
        let (kind, status) = words[0].strip_prefix("not ").map_or((words[0], "True"), |kind| (kind, "False"));
        tree!({"type": kind, "status": status, "reason": words.get(1).copied().unwrap_or("R"),
            "message": words.get(2).copied().unwrap_or("m"), "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let has_share = said.items_at(&["is"]).iter().any(|it| it.as_str() == Some("QuotaReserved"));
    let given = tree!({"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "flavors": {"cpu": "reserved"}}]});
    usual
        .merge(&said.without(&["is"]))
        .with(&["status", "conditions"], Tree::list(said.items_at(&["is"]).iter().map(condition)))
        .with_option(&["status", "admission"], has_share.then_some(given))
}

#[test]
fn single_reconciliations() {
    let mut wrong = Vec::new();
    for case in cases(include_str!("plan.yaml")) {
        let mut world = World::of(&job(&case));
        for said in case.items_at(&["workloads"]) {
            world.put(&workload(said));
        }
        if case.get("gone").is_some() {
            world.job = None;
        }
        world.above = above(case.str_at(&["above"]));
        world.is_selected = case.bool_at(&["selected"]) != Some(false);
        world.settings = JobReconcilerSettings {
            without_queue: case.bool_at(&["withoutQueue"]) == Some(true),
            reports_pods_ready: case.bool_at(&["podsReady"]) == Some(true),
            ..JobReconcilerSettings::default()
        };
        let got: Vec<String> = world.plan().iter().map(line).collect();
        let want = texts(case.get("want").unwrap_or(&Tree::Null));
        if got != want {
            wrong.push(format!("{}\n  got {got:#?}\n want {want:#?}", says(&case)));
        }
        assert_eq!(world.plan(), world.plan(), "{}: same picture, same steps", says(&case));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
