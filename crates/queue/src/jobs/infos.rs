//! What admission adds to the pods of a set: where they run, what they put up with, and what they are called.
//!
//! Flavors and checks each say their part; [`Info::merge`] puts the parts together, [`Info::put_into`] puts the whole
//! into a template or a pod, and [`Info::restore`] takes it out again.
//!
//! # Invariants
//!
//! - Nothing that is there already changes its value: two values for one key are a [`Clash`], and a start with a clash
//!   does not happen.
//! - Putting the same in twice changes nothing the second time.
//! - `restore` with what [`Info::of_template`] read undoes every `put_into`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use muster_api::paths::{meta, pod};
use muster_api::queue::words::{annotations, labels};
use muster_api::queue::{Admission, Assignment, FlavorFacts, PodSet, PodSetUpdate, State, WorkloadFacts};
use muster_schema::names;
use muster_tree::{Text, Tree};

use super::construct::is_label_value;

/// Texts by key.
pub type Texts = BTreeMap<Text, Text>;

/// What is added to the pods of one set.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Info {
    /// The set.
    pub name: Text,
    /// How many pods may run.
    pub count: u32,
    /// Labels.
    pub labels: Texts,
    /// Annotations.
    pub annotations: Texts,
    /// Node selector.
    pub node_selector: Texts,
    /// Tolerations, as written.
    pub tolerations: Vec<Tree>,
    /// Scheduling gates, as written.
    pub gates: Vec<Tree>,
}

/// Which part of a template is told two things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Labels.
    Labels,
    /// Annotations.
    Annotations,
    /// Node selector.
    NodeSelector,
}

impl Field {
    fn word(self) -> &'static str {
        match self {
            Field::Labels => "labels",
            Field::Annotations => "annotations",
            Field::NodeSelector => "nodeSelector",
        }
    }
}

/// One key is to have two values: the pods can never be started like that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clash {
    /// Where.
    pub field: Field,
    /// Which key.
    pub key: Text,
    /// The value that is there.
    pub has: Text,
    /// The value that is wanted.
    pub wants: Text,
}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clash { field, key, has, wants } = self;
        let field = field.word();
        write!(
            f,
            "invalid admission check PodSetUpdate: conflict for {field}: {key} is {has:?} and would be {wants:?}"
        )
    }
}

/// Why pods cannot be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotYet {
    /// Nothing was given to the Workload, or its admission lacks a set: a later reading shows it.
    NotAdmitted,
    /// A flavor of the admission is not there: it may come.
    FlavorMissing(Text),
    /// Two parts contradict each other: this never starts.
    Clash(Clash),
}

impl From<Clash> for NotYet {
    fn from(clash: Clash) -> NotYet {
        NotYet::Clash(clash)
    }
}

impl fmt::Display for NotYet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotYet::NotAdmitted => f.write_str("the admission of the workload does not name all pod sets"),
            NotYet::FlavorMissing(name) => write!(f, "flavor {name} not found"),
            NotYet::Clash(clash) => clash.fmt(f),
        }
    }
}

/// What the pods of each set of an admitted Workload get, in the order of its sets: from their flavors, from the checks,
/// and the stamp that tells where they belong.
///
/// # Errors
/// A flavor is missing, or two parts contradict each other.
pub fn of_workload(
    workload: &WorkloadFacts,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> Result<Vec<Info>, NotYet> {
    let admission = workload.admission.as_ref().ok_or(NotYet::NotAdmitted)?;
    let one = |set: &PodSet| {
        let assignment = admission.assignment(&set.name).ok_or(NotYet::NotAdmitted)?;
        let mut info = of_flavors(assignment, assignment.count.unwrap_or(set.count), flavor)?;
        info.stamp(workload, admission);
        for update in updates(workload, &set.name) {
            info.merge(&of_update(&update))?;
        }
        Ok(info)
    };
    workload.pod_sets.iter().map(one).collect()
}

fn of_flavors(
    assignment: &Assignment,
    count: u32,
    flavor: &dyn Fn(&str) -> Option<FlavorFacts>,
) -> Result<Info, NotYet> {
    let mut info = Info { name: assignment.name.clone(), count, ..Info::default() };
    let names: BTreeSet<&Text> = assignment.flavors.values().collect();
    for name in names {
        let parts = flavor(name).ok_or_else(|| NotYet::FlavorMissing(name.clone()))?;
        // Flavors of different resources may name one key twice; which one counts only has to be always the same.
        info.node_selector.extend(parts.labels);
        add_missing(&mut info.tolerations, &parts.tolerations);
    }
    Ok(info)
}

/// What the checks that agree say of a set.
fn updates(workload: &WorkloadFacts, set: &str) -> Vec<PodSetUpdate> {
    let agree = workload.checks.iter().filter(|it| it.state == State::Ready);
    agree.flat_map(|it| &it.updates).map(PodSetUpdate::of).filter(|it| it.name == set).collect()
}

fn of_update(update: &PodSetUpdate) -> Info {
    Info {
        name: update.name.clone(),
        labels: texts(update.labels.entries()),
        annotations: texts(update.annotations.entries()),
        node_selector: texts(update.node_selector.entries()),
        tolerations: update.tolerations.clone(),
        ..Info::default()
    }
}

impl Info {
    /// What a template of pods says by itself.
    #[must_use]
    pub fn of_template(name: &Text, count: u32, template: &Tree) -> Info {
        Info {
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

    /// Adds what `other` says.
    ///
    /// # Errors
    /// It says something else of a key that is there. Nothing was added then.
    pub fn merge(&mut self, other: &Info) -> Result<(), Clash> {
        let labels = joined(Field::Labels, &self.labels, &other.labels)?;
        let annotations = joined(Field::Annotations, &self.annotations, &other.annotations)?;
        let node_selector = joined(Field::NodeSelector, &self.node_selector, &other.node_selector)?;
        (self.labels, self.annotations, self.node_selector) = (labels, annotations, node_selector);
        add_missing(&mut self.tolerations, &other.tolerations);
        add_missing(&mut self.gates, &other.gates);
        Ok(())
    }

    /// A template, or a pod, with this in it.
    ///
    /// # Errors
    /// It has another value for a key.
    pub fn put_into(&self, template: &Tree) -> Result<Tree, Clash> {
        let mut all = Info::of_template(&self.name, self.count, template);
        all.merge(self)?;
        Ok(all.restore(template))
    }

    /// A template with exactly these labels, annotations, selector, tolerations and gates.
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
            // Nothing and an empty map or list mean the same: it stays as it is written.
            None => template,
        });
        let [around, ..] = *meta::LABELS else { return restored };
        let is_left_over = restored.get(around).is_some_and(Tree::is_empty) && restored != *template;
        if is_left_over { restored.without_key(around) } else { restored }
    }
}

/// Entries whose values are text.
fn texts(entries: &[(Text, Tree)]) -> Texts {
    entries.iter().filter_map(|(key, value)| Some((key.clone(), value.as_text()?.clone()))).collect()
}

fn map(texts: &Texts) -> Option<Tree> {
    (!texts.is_empty()).then(|| Tree::map(texts.iter().map(|(key, value)| (key.clone(), Tree::from(value)))))
}

fn list(items: &[Tree]) -> Option<Tree> {
    (!items.is_empty()).then(|| Tree::list(items.iter().cloned()))
}

fn joined(field: Field, one: &Texts, other: &Texts) -> Result<Texts, Clash> {
    let mut all = one.clone();
    for (key, wants) in other {
        let has = all.entry(key.clone()).or_insert_with(|| wants.clone());
        if has != wants {
            return Err(Clash { field, key: key.clone(), has: has.clone(), wants: wants.clone() });
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
