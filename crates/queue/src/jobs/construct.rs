//! Constructs Workloads from jobs and pod groups.
//!
//! # Guarantees
//!
//! - The same object gives the same Workload: a repeated create is a no-op.
//! - The Workload of one object is controlled by it. The Workload of a group is owned by all its pods and
//!   controlled by none.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::meta::{self, OwnerReference};
use muster_api::paths::{container, env, meta as meta_path, owner, pod};
use muster_api::queue::consts::{TRUE, annotations, labels};
use muster_api::queue::{NewPodSet, NewWorkload, PodSet};
use muster_schema::selector::label_value_problems;
use muster_tree::{Text, Tree};

use super::priority::ResolvedPriority;

/// The inputs of a new Workload.
#[derive(Debug, Clone)]
pub struct WorkloadParams<'a> {
    pub name: Text,
    /// Empty without a queue name.
    pub queue: Text,
    pub pod_sets: Vec<PodSet>,
    pub priority: ResolvedPriority,
    /// Keys of labels copied from its objects.
    pub label_keys: &'a [Text],
}

/// The pods of a group have different values of a copied label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferentLabels {
    pub key: Text,
    pub one: Text,
    pub other: Text,
}

impl fmt::Display for DifferentLabels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DifferentLabels { key, one, other } = self;
        write!(f, "constructing workload: pods have different label values: {key}: {one}!={other}")
    }
}

/// The Workload of one object, with the controller reference.
#[must_use]
pub fn of_object(api_version: &str, kind: &str, object: &Tree, making: WorkloadParams<'_>) -> NewWorkload {
    let (name, uid) = (meta::name(object), meta::uid(object));
    // One object has one value per label: this cannot fail.
    let labels = copied_labels(&[object], making.label_keys).unwrap_or_default();
    let mut workload = common(&[object], labels, making);
    // A foreign UID format must not make the Workload invalid.
    if is_label_value(&uid) {
        workload.labels.insert(labels::JOB_UID.into(), uid.clone());
    }
    workload.owners = vec![OwnerReference::controller_reference(api_version, kind, &name, &uid)];
    workload
}

/// The Workload of a pod group, with an owner reference to each pod.
///
/// # Errors
/// The pods have different values of a copied label.
pub fn of_group(pods: &[&Tree], making: WorkloadParams<'_>) -> Result<NewWorkload, DifferentLabels> {
    let labels = copied_labels(pods, making.label_keys)?;
    let mut workload = common(pods, labels, making);
    workload.annotations.insert(annotations::IS_GROUP_WORKLOAD.into(), TRUE.into());
    workload.owners = pods.iter().map(|pod| pod_owner(pod)).collect();
    Ok(workload)
}

/// The owner reference of a group's Workload to a pod.
#[must_use]
pub fn pod_owner(pod: &Tree) -> Tree {
    Tree::empty_map()
        .with(owner::API_VERSION, "v1")
        .with(owner::KIND, "Pod")
        .with(owner::NAME, meta::name(pod))
        .with(owner::UID, meta::uid(pod))
}

#[must_use]
pub fn max_exec_secs(object: &Tree) -> Option<u32> {
    meta::label(object, labels::MAX_EXEC_SECONDS)?.parse().ok().filter(|secs| *secs > 0)
}

/// Gang references: not part of the Workload's template, since quota does not depend on them.
const GANGS: [&[&str]; 2] = [pod::WORKLOAD.split_at(2).0, pod::SCHEDULING_GROUP.split_at(2).0];

/// The pod set template of a pod: its stored spec, gates included, without gang references and metadata.
#[must_use]
pub fn template_of_pod(pod: &Tree) -> Tree {
    let spec = pod.get("spec").cloned().unwrap_or_default();
    distinct_variables(&without_gang(&Tree::map([("spec", spec)])))
}

/// A template without gang references.
pub(super) fn without_gang(template: &Tree) -> Tree {
    GANGS.iter().fold(template.clone(), |template, path| template.without(path))
}

/// Deduplicates environment variables: the last value at the first position. The CRD has a list map keyed by name.
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
    let mut variables: Vec<&Tree> = Vec::with_capacity(all.len());
    for variable in all {
        match variables.iter_mut().find(|it| it.str_at(env::NAME) == variable.str_at(env::NAME)) {
            Some(earlier) => *earlier = variable,
            None => variables.push(variable),
        }
    }
    if variables.len() == all.len() {
        item.clone()
    } else {
        item.with(container::ENV, Tree::list(variables.into_iter().cloned()))
    }
}

fn common(objects: &[&Tree], labels: BTreeMap<Text, Text>, making: WorkloadParams<'_>) -> NewWorkload {
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

/// Copies ProvisioningRequest parameters and admission gates; the first object that has them counts.
fn copied_annotations(objects: &[&Tree]) -> BTreeMap<Text, Text> {
    let mut all = BTreeMap::new();
    let entries = objects.iter().flat_map(|object| object.entries_at(meta_path::ANNOTATIONS));
    for (key, value) in entries {
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

/// Whether a text is a valid label value.
pub(super) fn is_label_value(text: &str) -> bool {
    label_value_problems(text).is_empty()
}
