//! PodSetInfo: what admission adds to the pods of a pod set (Kueue's `podset.PodSetInfo`).
//!
//! Flavors and admission checks contribute; [`PodSetInfo::merge`] combines them, [`PodSetInfo::put_into`] applies
//! them to a template or pod, and [`PodSetInfo::restore`] removes them again.
//!
//! # Guarantees
//!
//! - No existing value is changed: two values for one key are a [`PodSetInfoConflict`], and the start fails.
//! - Merging is idempotent.
//! - `restore` with the info read by [`PodSetInfo::of_template`] undoes every `merge_into`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use muster_api::paths::{meta, pod};
use muster_api::queue::consts::{annotations, labels};
use muster_api::queue::{
    Admission, CheckState, FlavorFacts, PodSet, PodSetAssignment, PodSetUpdate, WorkloadFacts,
};
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::construct::is_label_value;

pub type StringMap = BTreeMap<Text, Text>;

/// The additions to the pods of one pod set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PodSetInfo {
    pub name: Text,
    /// The admitted pod count.
    pub count: u32,
    pub labels: StringMap,
    pub annotations: StringMap,
    pub node_selector: StringMap,
    pub tolerations: Vec<Tree>,
    pub gates: Vec<Tree>,
}

/// The template field of a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodSetInfoField {
    Labels,
    Annotations,
    NodeSelector,
}

impl PodSetInfoField {
    fn word(self) -> &'static str {
        match self {
            PodSetInfoField::Labels => "labels",
            PodSetInfoField::Annotations => "annotations",
            PodSetInfoField::NodeSelector => "nodeSelector",
        }
    }
}

/// Two values for one key: the pods can never be started with both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetInfoConflict {
    pub field: PodSetInfoField,
    pub key: Text,
    pub current: Text,
    pub requested: Text,
}

impl fmt::Display for PodSetInfoConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PodSetInfoConflict { field, key, current: has, requested: wants } = self;
        let field = field.word();
        write!(
            f,
            "invalid admission check PodSetUpdate: conflict for {field}: {key} is {has:?} and would be {wants:?}"
        )
    }
}

/// Why there is no PodSetInfo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodSetInfoError {
    /// The Workload has no admission, or it lacks a pod set: wait for a later read.
    NotAdmitted,
    /// A ResourceFlavor does not exist: it may be created later.
    FlavorMissing(Text),
    Clash(PodSetInfoConflict),
}

impl From<PodSetInfoConflict> for PodSetInfoError {
    fn from(clash: PodSetInfoConflict) -> PodSetInfoError {
        PodSetInfoError::Clash(clash)
    }
}

impl fmt::Display for PodSetInfoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodSetInfoError::NotAdmitted => {
                f.write_str("the admission of the workload does not name all pod sets")
            }
            PodSetInfoError::FlavorMissing(name) => write!(f, "flavor {name} not found"),
            PodSetInfoError::Clash(clash) => clash.fmt(f),
        }
    }
}

/// The PodSetInfo of each pod set of an admitted Workload, in order: node labels and tolerations of its flavors,
/// updates of admission checks, and Kueue's labels and annotations.
///
/// # Errors
/// A flavor is missing, or there is a conflict.
pub fn of_workload(
    workload: &WorkloadFacts,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> Result<Vec<PodSetInfo>, PodSetInfoError> {
    let admission = workload.admission.as_ref().ok_or(PodSetInfoError::NotAdmitted)?;
    let one = |set: &PodSet| {
        let assignment = admission.assignment(&set.name).ok_or(PodSetInfoError::NotAdmitted)?;
        let mut info = of_flavors(assignment, assignment.count.unwrap_or(set.count), flavor)?;
        // Before the check updates, so that a check cannot redefine our labels without a conflict.
        info.stamp(workload, admission);
        for update in updates(workload, &set.name) {
            info.merge(&of_update(&update))?;
        }
        Ok(info)
    };
    workload.pod_sets.iter().map(one).collect()
}

fn of_flavors(
    assignment: &PodSetAssignment,
    count: u32,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> Result<PodSetInfo, PodSetInfoError> {
    let mut info = PodSetInfo { name: assignment.name.clone(), count, ..PodSetInfo::default() };
    let names: BTreeSet<&Text> = assignment.flavors.values().collect();
    for name in names {
        let parts = flavor(name).ok_or_else(|| PodSetInfoError::FlavorMissing(name.clone()))?;
        // Two flavors may set one key: the order by name makes the result deterministic.
        info.node_selector.extend(parts.labels);
        add_missing(&mut info.tolerations, &parts.tolerations);
    }
    Ok(info)
}

/// The PodSetUpdates of checks in state Ready.
fn updates(workload: &WorkloadFacts, set: &str) -> Vec<PodSetUpdate> {
    let agree = workload.checks.iter().filter(|it| it.state == CheckState::Ready);
    agree.flat_map(|it| &it.updates).map(PodSetUpdate::of).filter(|it| it.name == set).collect()
}

fn of_update(update: &PodSetUpdate) -> PodSetInfo {
    PodSetInfo {
        name: update.name.clone(),
        labels: texts(update.labels.entries()),
        annotations: texts(update.annotations.entries()),
        node_selector: texts(update.node_selector.entries()),
        tolerations: update.tolerations.clone(),
        ..PodSetInfo::default()
    }
}

impl PodSetInfo {
    /// Reads the fields of a template.
    #[must_use]
    pub fn of_template(name: &Text, count: u32, template: &Tree) -> PodSetInfo {
        PodSetInfo {
            name: name.clone(),
            count,
            labels: texts(template.entries_at(meta::LABELS)),
            annotations: texts(template.entries_at(meta::ANNOTATIONS)),
            node_selector: texts(template.entries_at(pod::NODE_SELECTOR)),
            tolerations: template.items_at(pod::TOLERATIONS).to_vec(),
            gates: template.items_at(pod::GATES).to_vec(),
        }
    }

    fn stamp(&mut self, workload: &WorkloadFacts, admission: &Admission) {
        self.labels.insert(labels::PODSET.into(), self.name.clone());
        if is_label_value(&workload.queue) {
            self.labels.insert(labels::LOCAL_QUEUE.into(), workload.queue.clone());
        }
        if names::label(&admission.cluster_queue).is_empty() {
            self.labels.insert(labels::CLUSTER_QUEUE.into(), admission.cluster_queue.clone());
        }
        self.annotations.insert(annotations::WORKLOAD.into(), workload.name.clone());
    }

    /// Merges `other`.
    ///
    /// # Errors
    /// A key has another value; nothing was merged then.
    pub fn merge(&mut self, other: &PodSetInfo) -> Result<(), PodSetInfoConflict> {
        let labels = joined(PodSetInfoField::Labels, &self.labels, &other.labels)?;
        let annotations = joined(PodSetInfoField::Annotations, &self.annotations, &other.annotations)?;
        let node_selector = joined(PodSetInfoField::NodeSelector, &self.node_selector, &other.node_selector)?;
        (self.labels, self.annotations, self.node_selector) = (labels, annotations, node_selector);
        add_missing(&mut self.tolerations, &other.tolerations);
        add_missing(&mut self.gates, &other.gates);
        Ok(())
    }

    /// Applies the info to a template or pod.
    ///
    /// # Errors
    /// A key has another value.
    pub fn merge_into(&self, template: &Tree) -> Result<Tree, PodSetInfoConflict> {
        let mut all = PodSetInfo::of_template(&self.name, self.count, template);
        all.merge(self)?;
        Ok(all.restore(template))
    }

    /// Sets these labels, annotations, node selector, tolerations and gates exactly.
    #[must_use]
    pub fn restore(&self, template: &Tree) -> Tree {
        let parts = [
            (meta::LABELS, map(&self.labels)),
            (meta::ANNOTATIONS, map(&self.annotations)),
            (pod::NODE_SELECTOR, map(&self.node_selector)),
            (pod::TOLERATIONS, list(&self.tolerations)),
            (pod::GATES, list(&self.gates)),
        ];
        let restored = parts.into_iter().fold(template.clone(), |template, (path, value)| match value {
            Some(value) => template.with(path, value),
            None if template.at(path).is_some_and(|old| !old.is_empty()) => template.without(path),
            // An empty map or list means the same as none: keep it as written.
            None => template,
        });
        let [around, ..] = *meta::LABELS else { return restored };
        let is_left_over = restored.get(around).is_some_and(Tree::is_empty) && restored != *template;
        if is_left_over { restored.without_key(around) } else { restored }
    }
}

fn texts(entries: &[(Text, Tree)]) -> StringMap {
    entries.iter().filter_map(|(key, value)| Some((key.clone(), value.as_text()?.clone()))).collect()
}

fn map(texts: &StringMap) -> Option<Tree> {
    (!texts.is_empty()).then(|| Tree::map(texts.iter().map(|(key, value)| (key.clone(), Tree::from(value)))))
}

fn list(items: &[Tree]) -> Option<Tree> {
    (!items.is_empty()).then(|| Tree::list(items.iter().cloned()))
}

fn joined(
    field: PodSetInfoField,
    one: &StringMap,
    other: &StringMap,
) -> Result<StringMap, PodSetInfoConflict> {
    let mut all = one.clone();
    for (key, wants) in other {
        let has = all.entry(key.clone()).or_insert_with(|| wants.clone());
        if has != wants {
            return Err(PodSetInfoConflict {
                field,
                key: key.clone(),
                current: has.clone(),
                requested: wants.clone(),
            });
        }
    }
    Ok(all)
}

fn add_missing(to: &mut Vec<Tree>, items: &[Tree]) {
    for item in items {
        if !to.contains(item) {
            to.push(item.clone());
        }
    }
}
