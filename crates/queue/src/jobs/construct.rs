//! What every Workload consists of, whether a job or a group of pods stands behind it.
//!
//! # Invariants
//!
//! - The same object gives the same Workload: what is made twice is made once.
//! - A Workload of one object is controlled by it; that of a group belongs to all its pods and is controlled by none.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::meta::{self, Owner};
use muster_api::paths::{container, env, meta as meta_path, owner, pod};
use muster_api::queue::words::{TRUE, annotations, labels};
use muster_api::queue::{NewPodSet, NewWorkload, PodSet};
use muster_schema::selector::label_value_problems;
use muster_tree::{Text, Tree};

use super::priority::Resolved;

/// What is known of a Workload before it is made.
#[derive(Debug, Clone)]
pub struct Making<'a> {
    /// Its name.
    pub name: Text,
    /// Its queue; empty for none.
    pub queue: Text,
    /// Its pods.
    pub pod_sets: Vec<PodSet>,
    /// How important it is.
    pub priority: Resolved,
    /// Labels that it takes over from its objects.
    pub label_keys: &'a [Text],
}

/// The pods of a group do not agree on a label that the Workload takes over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferentLabels {
    /// Which label.
    pub key: Text,
    /// Its value on one pod.
    pub one: Text,
    /// And on another.
    pub other: Text,
}

impl fmt::Display for DifferentLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DifferentLabels { key, one, other } = self;
        write!(f, "constructing workload: pods have different label values: {key}: {one}!={other}")
    }
}

/// The Workload of one object, which controls it.
#[must_use]
pub fn of_object(api_version: &str, kind: &str, object: &Tree, making: Making<'_>) -> NewWorkload {
    let (name, uid) = (meta::name(object), meta::uid(object));
    // One object cannot disagree with itself.
    let labels = copied_labels(&[object], making.label_keys).unwrap_or_default();
    let mut workload = common(&[object], labels, making);
    if is_label_value(&uid) {
        workload.labels.insert(labels::JOB_UID.into(), uid.clone());
    }
    workload.owners = vec![Owner::controller_tree(api_version, kind, &name, &uid)];
    workload
}

/// The Workload of a group of pods, which all own it.
///
/// # Errors
/// They have different values for a label that it takes over.
pub fn of_group(pods: &[&Tree], making: Making<'_>) -> Result<NewWorkload, DifferentLabels> {
    let labels = copied_labels(pods, making.label_keys)?;
    let mut workload = common(pods, labels, making);
    workload.annotations.insert(annotations::IS_GROUP_WORKLOAD.into(), TRUE.into());
    workload.owners = pods.iter().map(|pod| pod_owner(pod)).collect();
    Ok(workload)
}

/// A pod as an owner of its group's Workload.
#[must_use]
pub fn pod_owner(pod: &Tree) -> Tree {
    Tree::empty_map()
        .with(owner::API_VERSION, "v1")
        .with(owner::KIND, "Pod")
        .with(owner::NAME, meta::name(pod))
        .with(owner::UID, meta::uid(pod))
}

/// For how long an object may run, in seconds, by its label.
#[must_use]
pub fn max_exec_secs(object: &Tree) -> Option<u32> {
    meta::label(object, labels::MAX_EXEC_SECONDS)?.parse().ok().filter(|secs| *secs > 0)
}

/// How pods name their gang: newer than what templates in Workloads have, and nothing that quota depends on.
const GANGS: [&[&str]; 2] = [pod::WORKLOAD.split_at(2).0, pod::SCHEDULING_GROUP.split_at(2).0];

/// The template of the set of a pod: its spec as it is stored, gates and all, and nothing of its gang and its metadata.
#[must_use]
pub fn template_of_pod(pod: &Tree) -> Tree {
    let spec = pod.get("spec").cloned().unwrap_or_default();
    distinct_variables(&without_gang(&Tree::map([("spec", spec)])))
}

/// A template that does not name its gang.
pub(super) fn without_gang(template: &Tree) -> Tree {
    GANGS.iter().fold(template.clone(), |template, path| template.without(path))
}

/// A template whose containers have every variable once: with its last value, where it stood first.
#[must_use]
pub fn distinct_variables(template: &Tree) -> Tree {
    [pod::INIT_CONTAINERS, pod::CONTAINERS].iter().fold(template.clone(), |template, path| {
        let Some(list) = template.at(path) else { return template };
        let list = list.map_items(|_, item| match item.items_at(container::ENV) {
            [] | [_] => item.clone(),
            all => with_distinct(item, all),
        });
        template.with(path, list)
    })
}

fn with_distinct(item: &Tree, all: &[Tree]) -> Tree {
    let mut kept: Vec<&Tree> = Vec::with_capacity(all.len());
    for variable in all {
        match kept.iter_mut().find(|it| it.str_at(env::NAME) == variable.str_at(env::NAME)) {
            Some(earlier) => *earlier = variable,
            None => kept.push(variable),
        }
    }
    if kept.len() == all.len() {
        item.clone()
    } else {
        item.with(container::ENV, Tree::list(kept.into_iter().cloned()))
    }
}

fn common(objects: &[&Tree], labels: BTreeMap<Text, Text>, making: Making<'_>) -> NewWorkload {
    NewWorkload {
        namespace: objects.first().map(|it| meta::namespace(it)).unwrap_or_default(),
        name: making.name,
        labels,
        annotations: copied_annotations(objects),
        queue: making.queue,
        pod_sets: making.pod_sets.into_iter().map(new_set).collect(),
        priority: Some(making.priority.priority),
        priority_class: making.priority.class,
        max_exec_secs: objects.iter().find_map(|object| max_exec_secs(object)),
        ..NewWorkload::default()
    }
}

fn new_set(set: PodSet) -> NewPodSet {
    let PodSet { name, template, count, min_count, topology } = set;
    NewPodSet { name, template, count, min_count, topology }
}

/// Parameters of provisioning, and who else must let it in. The first object that says something counts.
fn copied_annotations(objects: &[&Tree]) -> BTreeMap<Text, Text> {
    let mut all = BTreeMap::new();
    let said = objects.iter().flat_map(|object| object.entries_at(meta_path::ANNOTATIONS));
    for (key, value) in said {
        let is_ours =
            key.starts_with(annotations::PROVISIONING_PREFIX) || key == annotations::ADMISSION_GATED_BY;
        if let Some(value) = value.as_text().filter(|_| is_ours) {
            all.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    all
}

fn copied_labels(objects: &[&Tree], keys: &[Text]) -> Result<BTreeMap<Text, Text>, DifferentLabels> {
    let mut all: BTreeMap<Text, Text> = BTreeMap::new();
    for key in keys {
        for value in objects.iter().filter_map(|object| meta::label(object, key)) {
            let one = all.entry(key.clone()).or_insert_with(|| value.into());
            if one.as_str() != value {
                return Err(DifferentLabels { key: key.clone(), one: one.clone(), other: value.into() });
            }
        }
    }
    Ok(all)
}

/// Whether a text may be the value of a label.
pub(super) fn is_label_value(text: &str) -> bool {
    label_value_problems(text).is_empty()
}
