//! Checks every path and builder of the Trainer API against the CRDs: a misspelled field fails.

use muster_api::paths::{self as core_paths, replicated_job};
use muster_api::time::Time;
use muster_api::train::kinds::{self, Scope};
use muster_api::train::{TrainJobFacts, paths, progress_apply};
use muster_schema::node::View;
use muster_schema::structure;
use muster_trainer::controller::{DeadlineClock, TrainJobSnapshot, TrainJobStep, reconcile};
use muster_trainer::kinds::{crds, sources};
use muster_tree::{Tree, tree};

use super::server::served;
use crate::life::NothingThere;

fn walk<'a>(view: View<'a>, path: &[&str]) -> Option<View<'a>> {
    path.iter().try_fold(view, |view, step| if *step == "[]" { view.item() } else { view.below(step) })
}

#[test]
fn every_path_is_in_its_definition() {
    for table in paths::TABLES {
        let kind = table.kind.2;
        let root = walk(served(kind).schema.view(), table.root);
        let root = root.unwrap_or_else(|| panic!("{kind}: {:?}", table.root));
        for path in table.paths {
            assert!(walk(root, path).is_some(), "{kind}: {:?} {path:?}", table.root);
        }
    }
}

#[test]
fn a_runtime_holds_a_whole_jobset() {
    let root = ["spec", "template", "spec", "replicatedJobs", "[]"];
    for kind in ["TrainingRuntime", "ClusterTrainingRuntime"] {
        let job = walk(served(kind).schema.view(), &root).unwrap();
        for path in replicated_job::TABLE.paths {
            assert!(walk(job, path).is_some(), "{kind}: {path:?}");
        }
        let pod = walk(job, replicated_job::POD_TEMPLATE).unwrap();
        assert!(walk(pod, core_paths::pod::INIT_CONTAINERS).is_some(), "{kind}");
    }
}

#[test]
fn every_kind_is_defined_where_it_lives() {
    let all = crds();
    for (kind, word, scope) in kinds::all() {
        let name = format!("{}.{}", kind.plural, kind.group);
        let found = all.iter().find(|it| it.str_at(&["metadata", "name"]) == name).unwrap();
        let names = found.at(&["spec", "names"]).unwrap();
        assert_eq!(names.str_at(&["kind"]), word);
        assert_eq!(names.str_at(&["listKind"]), format!("{word}List"));
        assert_eq!(names.str_at(&["singular"]), word.to_lowercase());
        assert_eq!((names.get("shortNames"), names.get("categories")), (None, None));
        assert_eq!(found.str_at(&["spec", "scope"]) == "Cluster", scope == Scope::Cluster, "{word}");
        let version = &found.items_at(&["spec", "versions"])[0];
        assert_eq!(version.str_at(&["name"]), kind.version);
        assert_eq!(version.at(&["subresources", "status"]).is_some(), word == "TrainJob");
    }
}

/// Shows: 2899-01, 2899-02.
#[test]
fn both_fields_are_optional_numbers() {
    let (_, source) = sources().remove(0);
    let schema =
        source.items_at(&["spec", "versions"])[0].at(&["schema", "openAPIV3Schema"]).unwrap().clone();
    let spec = schema.at(&["properties", "spec"]).unwrap();
    let field = |name: &str| spec.at(&["properties", name]).unwrap().without_key("description");
    let ttl = tree!({"type": "integer", "format": "int32", "minimum": 0});
    assert_eq!(field("ttlSecondsAfterFinished"), ttl);
    let deadline = tree!({"type": "integer", "format": "int64", "minimum": 1});
    assert_eq!(field("activeDeadlineSeconds"), deadline);
    assert_eq!(spec.items_at(&["required"]), [Tree::from("runtimeRef")]);
}

/// Shows: 2899-59.
#[test]
fn definitions_use_nothing_that_older_servers_lack() {
    // Rules with optional old values, and selectable fields, are newer than Kubernetes 1.29.
    for definition in crds() {
        let text = definition.to_json();
        for word in ["optionalOldSelf", "selectableFields"] {
            assert!(!text.contains(word), "{word}");
        }
    }
}

#[test]
fn what_is_written_has_no_unknown_field() {
    let job = tree!({"metadata": {"name": "a", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"runtimeRef": {"name": "r"}, "suspend": true, "activeDeadlineSeconds": 1}});
    let replicated =
        tree!({"name": "node", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 0});
    let ended = tree!({"type": "Completed", "status": "True", "reason": "AllJobsCompleted", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:01Z"});
    let owner = muster_api::train::owner_reference(&TrainJobFacts::of(&job));
    let set = tree!({"metadata": {"name": "a", "uid": "s", "ownerReferences": [owner]},
        "status": {"conditions": [ended], "replicatedJobsStatus": [replicated]}});
    let picture = TrainJobSnapshot {
        job: &job,
        jobset: Some(&set),
        made: None,
        around: &NothingThere,
        clock: DeadlineClock::Auto,
    };
    let steps = reconcile(&picture, Time::parse("2026-01-01T00:00:02Z").unwrap());
    let written = steps.iter().find_map(|step| match step {
        TrainJobStep::UpdateStatus(patch) => Some(job.merge(patch)),
        _ => None,
    });
    let told = tree!({"progressPercentage": 1, "estimatedRemainingSeconds": 2, "lastUpdatedTime": "2026-01-01T00:00:01Z",
        "metrics": [{"name": "loss", "value": "1"}]});
    for tree in [written.unwrap(), progress_apply(&"ns".into(), &"a".into(), &told)] {
        let view = served("TrainJob").schema.view();
        let mut unknown = Vec::new();
        let _ = structure::prune(view, &tree, &mut unknown);
        assert!(unknown.is_empty(), "{unknown:?} in {tree}");
        assert_eq!(structure::check_types(view, &tree), Ok(()), "{tree}");
    }
}
