//! Nodes as rows of amounts, and the classes of pods that look at them.
//!
//! # Invariants
//!
//! - `free` is `allocatable` less what the pods on the row's list ask for. It may be negative: a node may shrink.
//! - What is taken is given back by the same class on the same row, exactly once.

use std::collections::{BTreeMap, BTreeSet};

use muster_api::node::NodeFacts;
use muster_tree::{Text, literal};

use crate::first::PodKey;
use crate::first::demand::Demand;
use crate::first::reason::{Reason, Refused};

/// What a pod without requests counts for when nodes are compared, so that such pods spread too.
const SCORED_CPU_MIN: i64 = 100;
/// The same for memory.
const SCORED_MEMORY_MIN: i64 = 200 << 20;
/// One whole of a score.
const WHOLE: i64 = 1_000_000;

const CPU: usize = 0;
const MEMORY: usize = 1;
const PODS: usize = 2;

#[derive(Debug)]
struct Row {
    facts: NodeFacts,
    allocatable: Vec<i64>,
    free: Vec<i64>,
    /// What the scored amounts of its pods sum up to: cpu, memory.
    scored: [i64; 2],
    pods: BTreeSet<PodKey>,
    /// Changes with the facts.
    stamp: u64,
}

#[derive(Debug)]
struct Class {
    demand: Demand,
    /// By resource number.
    asks: Vec<(usize, i64)>,
    scored: [i64; 2],
    /// By node: the stamp it was looked at with, and what was found.
    verdicts: BTreeMap<Text, (u64, Option<Reason>)>,
}

/// All nodes and classes.
#[derive(Debug)]
pub struct Nodes {
    rows: BTreeMap<Text, Row>,
    /// Pods on nodes that we have not been told of yet.
    homeless: BTreeMap<Text, BTreeMap<PodKey, usize>>,
    /// The class each pod was taken with.
    taken: BTreeMap<PodKey, usize>,
    classes: Vec<Class>,
    class_of: BTreeMap<Demand, usize>,
    resources: Vec<Text>,
    stamp: u64,
    freed: bool,
}

impl Default for Nodes {
    fn default() -> Self {
        Nodes {
            rows: BTreeMap::new(),
            homeless: BTreeMap::new(),
            taken: BTreeMap::new(),
            classes: Vec::new(),
            class_of: BTreeMap::new(),
            resources: vec![literal!("cpu"), literal!("memory"), literal!("pods")],
            stamp: 0,
            freed: false,
        }
    }
}

impl Nodes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Takes in a node; whether anything changed.
    pub fn put(&mut self, facts: NodeFacts) -> bool {
        if self.rows.get(&facts.name).is_some_and(|row| row.facts == facts) {
            return false;
        }
        let name = facts.name.clone();
        let mut pods: BTreeMap<PodKey, usize> = self.homeless.remove(&name).unwrap_or_default();
        if let Some(old) = self.rows.remove(&name) {
            pods.extend(
                old.pods.into_iter().map(|key| (key.clone(), self.taken.get(&key).copied().unwrap_or(0))),
            );
        }
        let allocatable = self.dense(&facts.allocatable);
        self.stamp += 1;
        let row = Row {
            free: allocatable.clone(),
            allocatable,
            facts,
            scored: [0, 0],
            pods: BTreeSet::new(),
            stamp: self.stamp,
        };
        self.rows.insert(name.clone(), row);
        pods.into_iter().for_each(|(key, class)| self.take(&name, class, &key));
        true
    }

    /// Forgets a node; its pods are homeless.
    pub fn remove(&mut self, name: &Text) {
        if let Some(row) = self.rows.remove(name) {
            let pods =
                row.pods.into_iter().map(|key| (key.clone(), self.taken.get(&key).copied().unwrap_or(0)));
            self.homeless.insert(name.clone(), pods.collect());
        }
        self.classes.iter_mut().for_each(|class| {
            class.verdicts.remove(name);
        });
    }

    /// The class of a demand.
    pub fn class(&mut self, demand: &Demand) -> usize {
        if let Some(class) = self.class_of.get(demand) {
            return *class;
        }
        let asks: Vec<(usize, i64)> =
            demand.requests.iter().map(|(name, amount)| (self.resource(name), *amount)).collect();
        let asked = |which| asks.iter().find(|(resource, _)| *resource == which).map(|(_, amount)| *amount);
        let scored = [asked(CPU).unwrap_or(SCORED_CPU_MIN), asked(MEMORY).unwrap_or(SCORED_MEMORY_MIN)];
        let class = self.classes.len();
        self.classes.push(Class { demand: demand.clone(), asks, scored, verdicts: BTreeMap::new() });
        self.class_of.insert(demand.clone(), class);
        class
    }

    /// Charges a pod to a node.
    pub fn take(&mut self, node: &Text, class: usize, key: &PodKey) {
        self.taken.insert(key.clone(), class);
        match self.rows.get_mut(node) {
            Some(row) => {
                row.charge(&self.classes[class], -1);
                row.pods.insert(key.clone());
            }
            None => {
                self.homeless.entry(node.clone()).or_default().insert(key.clone(), class);
            }
        }
    }

    /// Frees what a pod took.
    pub fn give_back(&mut self, node: &Text, class: usize, key: &PodKey) {
        let class = self.taken.remove(key).unwrap_or(class);
        let was_here = self.rows.get_mut(node).filter(|row| row.pods.contains(key));
        if let Some(row) = was_here {
            row.pods.remove(key);
            row.charge(&self.classes[class], 1);
            self.freed = true;
        } else if let Some(pods) = self.homeless.get_mut(node) {
            pods.remove(key);
        }
    }

    /// Whether something was freed since the last time this was asked.
    pub fn freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// The emptiest node that takes a pod of this class; equal ones by name.
    pub fn pick(&mut self, class: usize) -> Result<Text, Refused> {
        let mut refused = Refused { nodes: self.rows.len(), ..Refused::default() };
        let mut best: Option<(i64, &Text)> = None;
        let class = &mut self.classes[class];
        for (name, row) in &self.rows {
            if let Some(reason) = class.verdict(name, row) {
                *refused.tally.entry(reason.clone()).or_default() += 1;
                continue;
            }
            if let Some(score) = row.fits(class) {
                if best.is_none_or(|(top, _)| score > top) {
                    best = Some((score, name));
                }
            } else if best.is_none() {
                row.shortages(class, &self.resources, &mut refused);
            }
        }
        best.map(|(_, name)| name.clone()).ok_or(refused)
    }

    fn resource(&mut self, name: &Text) -> usize {
        if let Some(at) = self.resources.iter().position(|known| known == name) {
            return at;
        }
        self.resources.push(name.clone());
        self.resources.len() - 1
    }

    fn dense(&mut self, amounts: &[(Text, i64)]) -> Vec<i64> {
        let mut dense = vec![0; self.resources.len()];
        for (name, amount) in amounts {
            let at = self.resource(name);
            dense.resize(dense.len().max(at + 1), 0);
            dense[at] = *amount;
        }
        dense
    }
}

impl Class {
    fn verdict(&mut self, name: &Text, row: &Row) -> Option<&Reason> {
        let known = self.verdicts.get(name).is_some_and(|(stamp, _)| *stamp == row.stamp);
        if !known {
            let objection = self.demand.objection(&row.facts);
            self.verdicts.insert(name.clone(), (row.stamp, objection));
        }
        self.verdicts.get(name).and_then(|(_, reason)| reason.as_ref())
    }
}

impl Row {
    fn free(&self, resource: usize) -> i64 {
        self.free.get(resource).copied().unwrap_or(0)
    }

    fn charge(&mut self, class: &Class, sign: i64) {
        for (resource, amount) in &class.asks {
            if self.free.len() <= *resource {
                self.free.resize(resource + 1, 0);
            }
            self.free[*resource] += sign * amount;
        }
        for (sum, amount) in self.scored.iter_mut().zip(class.scored) {
            *sum -= sign * amount;
        }
    }

    /// How empty the node would be afterwards; `None` when the pod does not fit.
    fn fits(&self, class: &Class) -> Option<i64> {
        if class.asks.iter().any(|(resource, amount)| self.free(*resource) < *amount) {
            return None;
        }
        let left = |which: usize| {
            let all = self.allocatable.get(which).copied().unwrap_or(0).max(1);
            let used = self.scored[which] + class.scored[which];
            (all - used).max(0).saturating_mul(WHOLE / 1000) / (all / 1000).max(1)
        };
        Some(left(CPU) + left(MEMORY))
    }

    fn shortages(&self, class: &Class, resources: &[Text], refused: &mut Refused) {
        for (resource, amount) in &class.asks {
            if self.free(*resource) < *amount {
                let reason = match *resource {
                    PODS => Reason::TooManyPods,
                    other => Reason::Insufficient(resources[other].clone()),
                };
                *refused.tally.entry(reason).or_default() += 1;
            }
        }
    }
}
