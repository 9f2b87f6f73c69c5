//! What is compared of a life of any objects: all of them, without what chance and the clock put in.
//!
//! # Invariants
//!
//! - A uid of an object of the life becomes the name of that object, and a node among equals its number in the order
//!   of the pods' names: who is meant stays visible.
//! - Of events only who, reason and words count, not how often: controllers look again by their own clocks.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::objects::{SORTS, Scope, Sort};
use super::view::{job, kept, plain};
use crate::differential::{Server, first_uid};

/// How the names of simulated nodes begin.
const NODE: &str = "sim-";
/// The folder of volumes in that of a plane.
const VOLUMES: &str = "/volumes/";
/// Metadata that says when and how often, not what.
const UNSTABLE: [&str; 5] = ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"];
/// Fields that tell of times.
const CLOCKS: [&str; 6] = [
    "lastPhaseTransitionTime",
    "lastTransitionTime",
    "lastProbeTime",
    "startTime",
    "allocationTimestamp",
    "resourceVersion",
];

/// Everything there is of a life.
pub fn picture(server: &Server, namespace: &str) -> Result<Tree, String> {
    let mut names = Names::default();
    let mut shown = Vec::new();
    let mut events = Vec::new();
    for sort in &SORTS {
        let all = listed(server, sort, namespace)?;
        if sort.kind == "Event" {
            events = all;
            continue;
        }
        all.iter().for_each(|object| names.learn(sort, object));
        shown.push((
            sort.plural,
            Tree::map(all.iter().map(|object| (name(object), view(sort, object))).collect::<Vec<_>>()),
        ));
    }
    events.extend(events_elsewhere(server, namespace)?);
    shown.push(("events", told(&events, &names)));
    Ok(plain(&names.shown(&Tree::map(shown)), namespace))
}

/// The objects of a kind that belong to the life.
pub(crate) fn listed(server: &Server, sort: &Sort, namespace: &str) -> Result<Vec<Tree>, String> {
    let all = server.get(&sort.path(namespace))?.body.items_at(&["items"]).to_vec();
    let ours = |object: &Tree| {
        sort.scope == Scope::Namespace
            || object.str_at(&["metadata", "name"]).contains(namespace)
            || object.str_at(&["spec", "claimRef", "namespace"]) == namespace
    };
    Ok(all.into_iter().filter(ours).collect())
}

/// Events about objects without a namespace are in another one.
fn events_elsewhere(server: &Server, namespace: &str) -> Result<Vec<Tree>, String> {
    let all = server.get("/api/v1/namespaces/default/events")?.body.items_at(&["items"]).to_vec();
    Ok(all
        .into_iter()
        .filter(|event| event.str_at(&["involvedObject", "name"]).contains(namespace))
        .collect())
}

pub(crate) fn name(object: &Tree) -> Text {
    object.text_at(&["metadata", "name"])
}

fn view(sort: &Sort, object: &Tree) -> Tree {
    let metadata = UNSTABLE.iter().fold(kept(object, &["metadata"]), |it, key| it.without_key(key));
    match sort.kind {
        "Job" => job(object),
        "Pod" => pod(object, &metadata),
        _ => without_clocks(
            &["apiVersion", "kind"]
                .iter()
                .fold(object.with(&["metadata"], metadata), |it, key| it.without_key(key)),
        ),
    }
}

fn pod(pod: &Tree, metadata: &Tree) -> Tree {
    let conditions = pod.items_at(&["status", "conditions"]).iter();
    let mut conditions: Vec<Tree> = conditions.map(without_clocks).collect();
    conditions.sort_by_key(Tree::to_json);
    tree!({"metadata": metadata.clone(), "node": kept(pod, &["spec", "nodeName"]), "volumes": kept(pod, &["spec", "volumes"]),
        "phase": kept(pod, &["status", "phase"]), "conditions": Tree::list(conditions),
        "claims": kept(pod, &["status", "resourceClaimStatuses"])})
}

pub(crate) fn without_clocks(tree: &Tree) -> Tree {
    match tree {
        Tree::Map(_) => {
            let kept = tree.entries().iter().filter(|(key, _)| !CLOCKS.contains(&key.as_str()));
            Tree::map(kept.map(|(key, value)| (key.clone(), without_clocks(value))).collect::<Vec<_>>())
        }
        Tree::List(_) => tree.map_items(|_, item| without_clocks(item)),
        other => other.clone(),
    }
}

/// Events that are told or not, depending on who is quicker: a claim that waits for a pod is told of when the clock strikes
/// before the scheduler is done, a refusal when what the pod lacks comes after the first try. What a pod lacks in the end
/// stands in its condition, which is compared.
const BY_CHANCE: [&str; 2] = ["WaitForPodScheduled", "FailedScheduling"];

fn told(events: &[Tree], names: &Names) -> Tree {
    let events = events.iter().filter(|event| !BY_CHANCE.contains(&event.str_at(&["reason"])));
    let words = |event: &Tree| {
        let about = ["kind", "name"].map(|key| event.str_at(&["involvedObject", key]).to_owned()).join(" ");
        let says = ["type", "reason", "message"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
        names.words(&format!("{about} | {says}"))
    };
    Tree::map(events.map(|event| (words(event), Tree::from(true))).collect::<BTreeMap<String, Tree>>())
}

/// What chance named, and what it is called instead.
#[derive(Default)]
pub(crate) struct Names {
    all: Vec<(Text, String)>,
    nodes: usize,
}

impl Names {
    pub(crate) fn learn(&mut self, sort: &Sort, object: &Tree) {
        self.all
            .push((object.text_at(&["metadata", "uid"]), format!("<uid of {} {}>", sort.kind, name(object))));
        // The end of the name of a claim that was made for a pod is chance.
        let within = object.str_at(&["metadata", "annotations", "resource.kubernetes.io/pod-claim-name"]);
        if sort.kind == "ResourceClaim" && !within.is_empty() {
            let owner =
                object.items_at(&["metadata", "ownerReferences"]).first().cloned().unwrap_or_default();
            self.all.push((name(object), format!("<claim {within} of {}>", owner.str_at(&["name"]))));
        }
        for made in object.items_at(&["status", "resourceClaimStatuses"]) {
            let called = format!("<claim {} of {}>", made.str_at(&["name"]), name(object));
            self.all.push((made.text_at(&["resourceClaimName"]), called));
        }
        let node = object.text_at(&["spec", "nodeName"]);
        if sort.kind == "Pod" && node.starts_with(NODE) && !self.all.iter().any(|(known, _)| *known == node) {
            self.nodes += 1;
            self.all.push((node, format!("<node {}>", self.nodes)));
        }
    }

    pub(crate) fn words(&self, text: &str) -> String {
        let text = self.all.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from.as_str(), to));
        // Nodes on which no pod is, objects that are gone, and the folder of a plane.
        let mut text = without_nodes(&text);
        while let Some(uid) = first_uid(&text) {
            text = text.replace(uid.as_str(), "<uid>");
        }
        match text.find(VOLUMES) {
            Some(at) if text.starts_with('/') => format!("<data>{}", &text[at..]),
            _ => text,
        }
    }

    pub(crate) fn shown(&self, tree: &Tree) -> Tree {
        match tree {
            Tree::Map(_) => {
                let all = tree.entries().iter().map(|(key, value)| (self.words(key), self.shown(value)));
                Tree::map(all.collect::<Vec<_>>())
            }
            Tree::List(_) => tree.map_items(|_, item| self.shown(item)),
            Tree::Text(text) => Tree::from(self.words(text)),
            other => other.clone(),
        }
    }
}

/// The text with the word in place of every node.
pub(crate) fn without_nodes(text: &str) -> String {
    let mut parts = text.split(NODE);
    let mut made = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        made += if rest.len() < part.len() { "<node>" } else { NODE };
        made += rest;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_become_names_and_nodes_numbers() {
        let mut names = Names::default();
        let pod = Sort::of("Pod").unwrap();
        names.learn(pod, &tree!({"metadata": {"name": "a", "uid": "u-1"}, "spec": {"nodeName": "sim-3"}}));
        names.learn(pod, &tree!({"metadata": {"name": "b", "uid": "u-2"}, "spec": {"nodeName": "sim-0"}}));
        let tree = tree!({"pvc-u-2": "on sim-0 and sim-3"});
        assert_eq!(names.shown(&tree), tree!({"pvc-<uid of Pod b>": "on <node 2> and <node 1>"}));
    }

    #[test]
    fn clocks_are_left_out_at_any_depth() {
        let tree =
            tree!({"status": {"phase": "Bound", "lastPhaseTransitionTime": "t"}, "list": [{"startTime": 1}]});
        assert_eq!(without_clocks(&tree), tree!({"status": {"phase": "Bound"}, "list": [{}]}));
    }
}
