//! What is compared of a scenario with a real server: JobSets, all that they made, and what was told of them, without
//! what [`differs`] lists.

use std::collections::BTreeMap;

use muster_tree::{Text, Tree};

use super::differs;
use crate::differential::Server;
use crate::lives::objects::Sort;
use crate::lives::view::plain;
use crate::lives::whole::{Names, listed, name};

/// Kinds that are shown, those whose uids stand in others first.
const SHOWN: [&str; 6] = ["JobSet", "Job", "Service", "PersistentVolumeClaim", "ResourceClaim", "Pod"];

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

/// Of what has a name of chance only how many are alike is shown.
fn objects(sort: &Sort, all: &[Tree]) -> Tree {
    let mut counts: BTreeMap<Text, i64> = BTreeMap::new();
    let mut shown: Vec<(Text, Tree)> = Vec::new();
    for object in all {
        match differs::without(sort.kind, object) {
            Tree::Text(words) => *counts.entry(words).or_default() += 1,
            // Lists of some kinds repeat what is known.
            left => shown.push((
                name(object),
                ["apiVersion", "kind"].iter().fold(left, |it, key| it.without_key(key)),
            )),
        }
    }
    let counts = counts.into_iter().map(|(words, count)| (words, Tree::from(count)));
    Tree::map(counts.chain(shown).collect::<Vec<_>>())
}

fn told(events: &[Tree], names: &Names) -> Tree {
    let words = events.iter().filter_map(|event| match differs::without("Event", event) {
        Tree::Text(words) => Some((names.words(&words), Tree::from(true))),
        _ => None,
    });
    Tree::map(words.collect::<BTreeMap<String, Tree>>())
}
