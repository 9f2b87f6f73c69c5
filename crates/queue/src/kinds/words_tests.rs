//! Checks every path constant and builder against the CRDs: a misspelled field fails.

use std::collections::BTreeMap;

use muster_api::queue::kinds::{self, Scope};
use muster_api::queue::{
    AdmissionStatus, Condition, FlavorUsage, NewPodSet, NewWorkload, PriorityRef, QueueStatus, ResourceUsage,
    cohort_status, condition_body, paths, reclaimable_body,
};
use muster_api::time::Time;
use muster_schema::node::{SchemaRef, View};
use muster_schema::{crd, structure};
use muster_tree::{Tree, tree};

use super::definitions;

fn schema_of(kind: &str) -> SchemaRef {
    let all = definitions();
    let definition = all.iter().find(|it| it.str_at(&["spec", "names", "kind"]) == kind).unwrap();
    let versions = definition.items_at(&["spec", "versions"]);
    let stored = versions.iter().find(|it| it.bool_at(&["storage"]) == Some(true)).unwrap();
    crd::compile(stored.at(&["schema", "openAPIV3Schema"]).unwrap()).unwrap()
}

fn walk<'a>(view: View<'a>, path: &[&str]) -> Option<View<'a>> {
    path.iter().try_fold(view, |view, step| if *step == "[]" { view.item() } else { view.below(step) })
}

#[test]
fn every_path_is_in_its_crd() {
    let mut schemas: BTreeMap<&str, SchemaRef> = BTreeMap::new();
    for table in paths::TABLES {
        let kind = table.kind.2;
        let schema = schemas.entry(kind).or_insert_with(|| schema_of(kind));
        let root = walk(schema.view(), table.root).unwrap_or_else(|| panic!("{kind}: {:?}", table.root));
        for path in table.paths {
            assert!(walk(root, path).is_some(), "{kind}: {:?} {path:?}", table.root);
        }
    }
}

#[test]
fn every_kind_has_a_crd_with_its_scope() {
    let all = definitions();
    for (kind, word, scope) in kinds::all() {
        let name = format!("{}.{}", kind.plural, kind.group);
        let found = all.iter().find(|it| it.str_at(&["metadata", "name"]) == name).unwrap();
        assert_eq!(found.str_at(&["spec", "names", "kind"]), word);
        assert_eq!(found.str_at(&["spec", "scope"]) == "Cluster", scope == Scope::Cluster, "{word}");
        let versions = found.items_at(&["spec", "versions"]).iter();
        let stored = versions.filter(|it| it.bool_at(&["storage"]) == Some(true));
        assert_eq!(stored.map(|it| it.str_at(&["name"])).collect::<Vec<_>>(), [kind.version.as_str()]);
    }
}

fn workload() -> Tree {
    let set = NewPodSet {
        name: "main".into(),
        template: tree!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        count: 2,
        min_count: Some(1),
        topology: tree!({"required": "rack"}),
    };
    NewWorkload {
        namespace: "n".into(),
        name: "w".into(),
        queue: "q".into(),
        pod_sets: vec![set],
        priority: Some(1),
        priority_class: Some(PriorityRef::pod(&"p".into())),
        max_exec_secs: Some(1),
        ..NewWorkload::default()
    }
    .tree()
}

fn admitted() -> Tree {
    let check = tree!({"name": "c", "state": "Ready", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z",
        "retryCount": 1, "requeueAfterSeconds": 1, "podSetUpdates": [{"name": "main", "labels": {"a": "b"}}]});
    let status = tree!({"conditions": [{"type": "QuotaReserved", "status": "True", "reason": "R", "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}],
        "admission": {"clusterQueue": "q", "podSetAssignments": [{"name": "main", "count": 1,
            "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}, "delayedTopologyRequest": "Ready"}]},
        "requeueState": {"count": 1, "requeueAt": "2026-01-01T00:00:00Z"}, "admissionChecks": [check],
        "accumulatedPastExecutionTimeSeconds": 1, "clusterName": "c", "unhealthyNodes": [{"name": "n"}],
        "schedulingStats": {"evictions": [{"reason": "R", "underlyingCause": "", "count": 1}]}});
    AdmissionStatus::of(&workload().with(&["status"], status)).body()
}

#[test]
fn builders_write_no_unknown_field() {
    let now = Time::parse("2026-01-01T00:00:00Z").unwrap();
    let condition =
        Condition::new("WaitingForReplacementPods", true, "PodsFailed", "m", now).of_generation(3);
    let usage = |borrowed| {
        let resources = vec![ResourceUsage { name: "cpu".into(), total: 1, borrowed }];
        vec![FlavorUsage { name: "f".into(), resources }]
    };
    let status = |borrowed| QueueStatus {
        conditions: vec![condition.clone()],
        reservation: usage(borrowed),
        usage: usage(borrowed),
        share: Some(1),
        ..QueueStatus::default()
    };
    let waiting = tree!({"metadata": {"name": "w"}, "status": {"resourceRequests": [{"name": "main",
        "resources": {"cpu": "1"}}]}});
    let all = [
        ("Workload", workload()),
        ("Workload", admitted()),
        ("Workload", AdmissionStatus::of(&waiting).body()),
        ("Workload", reclaimable_body(&"n".into(), &"w".into(), &[("main".into(), 1)].into())),
        ("Workload", condition_body(&"n".into(), &"w".into(), &condition)),
        ("ClusterQueue", status(Some(0)).patch(&Tree::Null).unwrap()),
        ("LocalQueue", status(None).patch(&Tree::Null).unwrap()),
        ("Cohort", cohort_status(&Tree::Null, Some(1)).unwrap()),
    ];
    for (kind, tree) in all {
        let schema = schema_of(kind);
        let mut unknown = Vec::new();
        let _ = structure::prune(schema.view(), &tree, &mut unknown);
        assert!(unknown.is_empty(), "{kind}: {unknown:?} in {tree}");
        assert_eq!(structure::check_types(schema.view(), &tree), Ok(()), "{kind}: {tree}");
    }
}
