//! Compares the built objects with those that a case wants.
//!
//! A want has a path and a value. Paths: `jobset PATH`, `JOB/job PATH` (a replicatedJob), `JOB/pod PATH` (its pod
//! template), `JOB/CONTAINER PATH`, `Kind/name PATH` (an object beside the JobSet), `objects` (all, in order), `sets`
//! and `set/NAME PATH` (the pod sets for queueing, and their templates) and `exactly` (whole objects). Variables are
//! written `NAME=value`, with `<index>` for the completion index. A value of `null` means that the field is absent.

use muster_schema::{structure, table};
use muster_trainer::build::BuiltObjects;
use muster_tree::{Tree, tree};

/// Every object has what an apply needs, and no field that we do not own.
pub fn is_complete(built: &BuiltObjects) {
    let owner = tree!([{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "tj", "uid": "u1",
        "controller": true, "blockOwnerDeletion": true}]);
    for object in &built.objects {
        let says = |path: &[&str]| assert!(!object.str_at(path).is_empty(), "{path:?} of {object}");
        says(&["apiVersion"]);
        says(&["kind"]);
        says(&["metadata", "name"]);
        assert_eq!(object.str_at(&["metadata", "namespace"]), "ns");
        assert_eq!(object.items_at(&["metadata", "ownerReferences"])[..1], *owner.items(), "{object}");
        assert!(object.get("status").is_none() && !has_null(object), "{object}");
        let metadata = object.get("metadata").unwrap();
        assert!(metadata.get("resourceVersion").is_none() && metadata.get("uid").is_none(), "{object}");
    }
    assert_eq!(built.jobset().unwrap().str_at(&["kind"]), "JobSet", "the JobSet comes last");
    fits_the_schema(built);
}

/// No field is misspelled, and none has the wrong type.
fn fits_the_schema(built: &BuiltObjects) {
    let (jobset, beside) = built.objects.split_last().unwrap();
    for object in beside.iter().filter(|it| it.str_at(&["apiVersion"]) == "v1") {
        fits("", "v1", object.str_at(&["kind"]), &[], object);
    }
    for job in jobset.items_at(&["spec", "replicatedJobs"]) {
        fits("batch", "v1", "CronJob", &["spec", "jobTemplate"], job.get("template").unwrap());
    }
}

fn fits(group: &str, version: &str, kind: &str, path: &[&str], tree: &Tree) {
    let schema = table::builtin().root(group, version, kind).unwrap();
    let view = schema.view().at(path).unwrap();
    let mut unknown = Vec::new();
    let _ = structure::prune(view, tree, &mut unknown);
    assert!(unknown.is_empty(), "{unknown:?} of {tree}");
    assert_eq!(structure::check_types(view, tree), Ok(()), "{tree}");
}

fn has_null(tree: &Tree) -> bool {
    let below = tree.entries().iter().map(|(_, value)| value).chain(tree.items());
    tree.is_null() || below.into_iter().any(has_null)
}

/// The differences between the built objects and those that the case wants.
pub fn differences(case: &Tree, built: &BuiltObjects) -> Vec<String> {
    let wanted = case.entries_at(&["want"]);
    assert!(!wanted.is_empty(), "a case wants something");
    let one = |place: &str, want: &Tree| {
        let got = at(place, built);
        (got != *want).then(|| format!("{place}\n    got  {got}\n    want {want}"))
    };
    wanted.iter().filter_map(|(place, want)| one(place, want)).collect()
}

fn at(place: &str, built: &BuiltObjects) -> Tree {
    let jobset = built.jobset().unwrap();
    match place {
        "objects" => return Tree::list(built.objects.iter().map(called)),
        "sets" => return sets(built),
        "exactly" => return Tree::list(built.objects.clone()),
        _ => {}
    }
    let (what, path) = place.split_once(' ').unwrap_or((place, ""));
    let found = match what.split_once('/') {
        None => jobset.clone(),
        Some((kind, _)) if kind.starts_with(char::is_uppercase) => {
            let is_it = |it: &&Tree| called(it).as_str() == Some(what);
            built.objects.iter().find(is_it).cloned().unwrap_or_default()
        }
        Some(("set", name)) => {
            let sets = built.pod_sets();
            sets.iter().find(|set| set.name == name).unwrap().template.clone()
        }
        Some((job, part)) => part_of(named(jobset.items_at(&["spec", "replicatedJobs"]), job), part),
    };
    assert!(!found.is_null(), "there is no {what}");
    let path: Vec<&str> = path.split('.').filter(|it| !it.is_empty()).collect();
    let found = found.at(&path).cloned().unwrap_or_default();
    if path.last() == Some(&"env") { variables(&found) } else { found }
}

fn part_of(job: Tree, part: &str) -> Tree {
    let pods = job.at(&["template", "spec", "template"]).cloned().unwrap_or_default();
    match part {
        "job" => job,
        "pod" => pods,
        name => {
            let lists = ["containers", "initContainers"].map(|list| pods.items_at(&["spec", list]));
            named(&lists.concat(), name)
        }
    }
}

fn named(items: &[Tree], name: &str) -> Tree {
    items.iter().find(|it| it.str_at(&["name"]) == name).cloned().unwrap_or_default()
}

fn called(object: &Tree) -> Tree {
    format!("{}/{}", object.str_at(&["kind"]), object.str_at(&["metadata", "name"])).into()
}

fn variables(list: &Tree) -> Tree {
    if !list.is_list() {
        return list.clone();
    }
    let index = tree!({"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}});
    Tree::list(list.items().iter().map(|it| {
        let name = it.str_at(&["name"]);
        match it.get("valueFrom") {
            Some(from) if *from == index => format!("{name}=<index>"),
            Some(from) => format!("{name} from {from}"),
            None => format!("{name}={}", it.str_at(&["value"])),
        }
    }))
}

fn sets(built: &BuiltObjects) -> Tree {
    let one = |set: &muster_api::queue::PodSet| format!("{} {}", set.name, set.count);
    Tree::list(built.pod_sets().iter().map(one).collect::<Vec<_>>())
}
