//! What is compared of a scenario: JobSets, all that they made, and what was told of them, without what chance and the
//! clock put in.
//!
//! # Deliberately absent
//!
//! Where pods run and what nodes, schedulers and the Job controller tell: that is compared elsewhere. How often
//! a failure was told: both planes try again by their own clocks.

use std::collections::BTreeMap;

use muster_tree::{Tree, tree};

use crate::differential::Server;
use crate::lives::objects::Sort;
use crate::lives::view::{kept, plain};
use crate::lives::whole::{Names, UNSTABLE, listed, name, without_clocks};

/// Kinds that are shown, those whose uids stand in others first.
const SHOWN: [&str; 6] = ["JobSet", "Job", "Service", "PersistentVolumeClaim", "ResourceClaim", "Pod"];
/// Who tells of JobSets.
const REPORTER: &str = "jobset";

const CONDITIONS: &[&str] = &["status", "conditions"];
/// Where the first pod of a volume went.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Everything there is of a scenario.
pub fn picture(server: &Server, namespace: &str) -> Result<Tree, String> {
    let mut names = Names::default();
    let mut shown = Vec::new();
    for kind in SHOWN {
        let sort = Sort::of(kind)?;
        let all = listed(server, sort, namespace)?;
        all.iter().for_each(|object| names.learn(sort, object));
        shown.push((sort.plural, objects(sort, &all)));
    }
    let events = server.get(&format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"))?.body;
    shown.push(("events", told(events.items_at(&["items"]), &names)));
    Ok(plain(&names.shown(&Tree::map(shown)), namespace))
}

/// Pods have names of chance, so that of those only how many are in which phase is shown.
fn objects(sort: &Sort, all: &[Tree]) -> Tree {
    if sort.kind != "Pod" {
        return Tree::map(all.iter().map(|object| (name(object), view(sort, object))).collect::<Vec<_>>());
    }
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for pod in all {
        let job = pod.str_at(&["metadata", "labels", "batch.kubernetes.io/job-name"]);
        *counts.entry(format!("{job} {}", pod.str_at(&["status", "phase"]))).or_default() += 1;
    }
    Tree::map(counts)
}

fn view(sort: &Sort, object: &Tree) -> Tree {
    let metadata = UNSTABLE.iter().fold(kept(object, &["metadata"]), |it, key| it.without_key(key));
    let object = object.with(&["metadata"], metadata);
    let object = match sort.kind {
        "Job" => job(&object),
        "PersistentVolumeClaim" => object.without(&["metadata", "annotations", SELECTED_NODE]),
        // Which of several equal devices it is, and for whom first, is chance.
        "ResourceClaim" => {
            let given = object.at(&["status", "allocation"]).is_some();
            let pods = object.items_at(&["status", "reservedFor"]).len();
            object.with(&["status"], tree!({"given": given, "pods": i64::try_from(pods).unwrap_or(i64::MAX)}))
        }
        _ => object,
    };
    without_clocks(&["apiVersion", "kind"].iter().fold(object, |it, key| it.without_key(key)))
}

/// Whether the Job controller saw a pause between two changes is a matter of its own clock.
fn job(job: &Tree) -> Tree {
    let conditions = job.items_at(CONDITIONS).iter().filter(|it| it.str_at(&["type"]) != "Suspended");
    let conditions: Vec<Tree> = conditions.cloned().collect();
    job.with_option(CONDITIONS, (!conditions.is_empty()).then(|| Tree::list(conditions)))
}

fn told(events: &[Tree], names: &Names) -> Tree {
    let ours = events.iter().filter(|event| event.str_at(&["reportingController"]) == REPORTER);
    let words = |event: &Tree| {
        let about = ["kind", "name"].map(|key| event.str_at(&["regarding", key]).to_owned()).join(" ");
        let says = ["type", "reason", "note"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
        names.words(&format!("{about} | {says}"))
    };
    Tree::map(ours.map(|event| (words(event), tree!(true))).collect::<BTreeMap<String, Tree>>())
}
