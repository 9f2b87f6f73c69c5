//! The comparable parts of all objects of a scenario, without generated values.
//!
//! # Invariants
//!
//! - The UID of an object becomes the name of that object, and a node becomes its index in the order of the pods' names, so that
//!   references stay comparable.
//! - Of events only regarding object, reason and message are compared, not the count: controllers retry by their own timers.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree, tree};

use super::job_snapshot::{job, value_or_null, without_generated_values};
use super::objects::{COMPARED_KINDS, ResourceKind, ResourceScope};
use crate::differential::{ApiClient, first_uid};

/// Name prefix of simulated nodes.
const NODE: &str = "sim-";
/// Directory of local volumes in the data directory.
const VOLUMES: &str = "/volumes/";
/// Metadata that differs between servers.
const UNSTABLE: [&str; 5] = ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation"];
/// Fields with timestamps or versions.
const CLOCKS: [&str; 6] = [
    "lastPhaseTransitionTime",
    "lastTransitionTime",
    "lastProbeTime",
    "startTime",
    "allocationTimestamp",
    "resourceVersion",
];

/// Reads all objects of a scenario.
pub fn namespace_snapshot(server: &ApiClient, namespace: &str) -> Result<Tree, String> {
    let mut names = StableNames::default();
    let mut shown = Vec::new();
    let mut events = Vec::new();
    for sort in &COMPARED_KINDS {
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
    shown.push(("events", event_texts(&events, &names)));
    Ok(without_generated_values(&names.shown(&Tree::map(shown)), namespace))
}

/// Lists the objects of a kind that belong to the scenario.
pub(crate) fn listed(server: &ApiClient, sort: &ResourceKind, namespace: &str) -> Result<Vec<Tree>, String> {
    let all = server.get(&sort.path(namespace))?.body.items_at(&["items"]).to_vec();
    let ours = |object: &Tree| {
        sort.scope == ResourceScope::Namespace
            || object.str_at(&["metadata", "name"]).contains(namespace)
            || object.str_at(&["spec", "claimRef", "namespace"]) == namespace
    };
    Ok(all.into_iter().filter(ours).collect())
}

/// Events about cluster-scoped objects are in the namespace `default`.
fn events_elsewhere(server: &ApiClient, namespace: &str) -> Result<Vec<Tree>, String> {
    let all = server.get("/api/v1/namespaces/default/events")?.body.items_at(&["items"]).to_vec();
    Ok(all
        .into_iter()
        .filter(|event| event.str_at(&["involvedObject", "name"]).contains(namespace))
        .collect())
}

pub(crate) fn name(object: &Tree) -> Text {
    object.text_at(&["metadata", "name"])
}

fn view(sort: &ResourceKind, object: &Tree) -> Tree {
    let metadata = UNSTABLE.iter().fold(value_or_null(object, &["metadata"]), |it, key| it.without_key(key));
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
    tree!({"metadata": metadata.clone(), "node": value_or_null(pod, &["spec", "nodeName"]), "volumes": value_or_null(pod, &["spec", "volumes"]),
        "phase": value_or_null(pod, &["status", "phase"]), "conditions": Tree::list(conditions),
        "claims": value_or_null(pod, &["status", "resourceClaimStatuses"])})
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

/// Events that exist or not, depending on timing: `WaitForPodScheduled` if the volume binder resyncs before the scheduler binds,
/// `FailedScheduling` if the first attempt comes before a dependency. The final state is in the pod's condition, which is compared.
const TIMING_DEPENDENT_EVENTS: [&str; 2] = ["WaitForPodScheduled", "FailedScheduling"];

fn event_texts(events: &[Tree], names: &StableNames) -> Tree {
    let events = events.iter().filter(|event| !TIMING_DEPENDENT_EVENTS.contains(&event.str_at(&["reason"])));
    let words = |event: &Tree| {
        let about = ["kind", "name"].map(|key| event.str_at(&["involvedObject", key]).to_owned()).join(" ");
        let says = ["type", "reason", "message"].map(|key| event.str_at(&[key]).to_owned()).join(" | ");
        names.words(&format!("{about} | {says}"))
    };
    Tree::map(events.map(|event| (words(event), Tree::from(true))).collect::<BTreeMap<String, Tree>>())
}

/// Placeholders for generated names.
#[derive(Default)]
pub(crate) struct StableNames {
    all: Vec<(Text, String)>,
    nodes: usize,
}

impl StableNames {
    pub(crate) fn learn(&mut self, sort: &ResourceKind, object: &Tree) {
        self.all
            .push((object.text_at(&["metadata", "uid"]), format!("<uid of {} {}>", sort.kind, name(object))));
        // A ResourceClaim created from a template has a generated name.
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
        // Nodes without pods, deleted objects, and the data directory.
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

/// Replaces the names of simulated nodes.
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
        let mut names = StableNames::default();
        let pod = ResourceKind::of("Pod").unwrap();
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
