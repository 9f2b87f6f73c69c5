//! The objects of a JobSet scenario that are compared with a real server: JobSets, their children and events, without the ignored parts.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use super::ignored_parts;
use crate::differential::ApiClient;
use crate::lifecycle::job_snapshot::without_generated_values;
use crate::lifecycle::namespace_snapshot::{StableNames, listed, name};
use crate::lifecycle::objects::ResourceKind;

/// Compared kinds, ordered so that objects come before those that contain their UIDs.
const SHOWN: [&str; 6] = ["JobSet", "Job", "Service", "PersistentVolumeClaim", "ResourceClaim", "Pod"];

/// Reads all compared objects of a scenario.
pub fn snapshot(server: &ApiClient, namespace: &str) -> Result<Tree, String> {
    let mut names = StableNames::default();
    let mut shown = Vec::new();
    for kind in SHOWN {
        let sort = ResourceKind::of(kind)?;
        let all = listed(server, sort, namespace)?;
        all.iter().for_each(|object| names.learn(sort, object));
        shown.push((sort.plural, objects(sort, &all)));
    }
    let events = server.get(&format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events"))?.body;
    shown.push(("events", event_texts(events.items_at(&["items"]), &names)));
    Ok(without_generated_values(&names.shown(&Tree::map(shown)), namespace))
}

/// Objects with generated names are reduced to counts of equal ones.
fn objects(sort: &ResourceKind, all: &[Tree]) -> Tree {
    let mut counts: BTreeMap<Text, i64> = BTreeMap::new();
    let mut shown: Vec<(Text, Tree)> = Vec::new();
    for object in all {
        match ignored_parts::without(sort.kind, object) {
            Tree::Text(words) => *counts.entry(words).or_default() += 1,
            // Items of some lists have apiVersion and kind, others do not.
            left => shown.push((
                name(object),
                ["apiVersion", "kind"].iter().fold(left, |it, key| it.without_key(key)),
            )),
        }
    }
    let counts = counts.into_iter().map(|(words, count)| (words, Tree::from(count)));
    Tree::map(counts.chain(shown).collect::<Vec<_>>())
}

fn event_texts(events: &[Tree], names: &StableNames) -> Tree {
    let words = events.iter().filter_map(|event| match ignored_parts::without("Event", event) {
        Tree::Text(words) => Some((names.words(&words), Tree::from(true))),
        _ => None,
    });
    Tree::map(words.collect::<BTreeMap<String, Tree>>())
}
