//! Everything that is where it is: nodes, pods on them, classes and counts, kept in step.
//!
//! # Invariants
//!
//! - A pod is on at most one row, charged there with its class and counted with its sort.
//! - [`World::put`] and [`World::take`] are each other's inverse: a cycle is undone by doing the opposite, in reverse.

use std::collections::{BTreeMap, HashMap};

use muster_api::time::Time;
use muster_tree::Text;

use crate::class::{Class, ClassId, Rule, Verdict};
use crate::counts::{CounterId, Counts, SortId, Spec};
use crate::demand::Demand;
use crate::label::Labels;
use crate::pod::{Outside, PodKey};
use crate::reason::{Reason, Tally};
use crate::site::Site;
use crate::table::{PODS, Row, Table};
use crate::term::Spread;

/// A pod, as the number of its row.
pub type PodId = u32;

/// Classes without pods that are kept, in case more of the kind come.
const IDLE_CLASSES_MAX: usize = 256;

/// What is known of a pod.
#[derive(Debug)]
pub struct PodRow {
    /// Namespace and name.
    pub key: PodKey,
    /// Labels.
    pub labels: Labels,
    /// Its class.
    pub class: ClassId,
    /// Its sort.
    pub sort: SortId,
    /// Priority.
    pub priority: i64,
    /// Whether it may have others evicted.
    pub preempts: bool,
    /// Whether it is being evicted to make room.
    pub evicted: bool,
    /// Whether somebody deleted it.
    pub deleting: bool,
    /// When it began to run.
    pub started: Option<Time>,
    /// Where it is.
    pub on: Option<Row>,
    /// Whether the server said so, rather than us.
    pub bound: bool,
    /// Where room is being made for it.
    pub nominated: Option<Row>,
    /// Whether the pod itself says so.
    pub told_nominated: bool,
    /// Age.
    pub created: Time,
    /// The group it is placed with.
    pub group: Option<crate::pod::GroupKey>,
    /// What keeps it from every node.
    pub hold: Option<Text>,
    /// Conditions from outside.
    pub outside: Vec<Outside>,
    /// The queue entry it belongs to.
    pub entry: Option<u32>,
}

/// Why a node does not do: the first thing that is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The node itself.
    Site(crate::class::No),
    /// A port.
    Ports,
    /// An amount.
    Amounts,
    /// The n-th condition from outside.
    Outside(usize),
    /// A spreading label is missing.
    SpreadLabel,
    /// Spreading.
    Spread,
    /// Affinity.
    Near,
    /// Anti-affinity.
    Far,
    /// Anti-affinity of others.
    Carried,
}

/// What other pods mean for one pod right now; valid until something moves.
#[derive(Debug, Default)]
pub struct Company {
    /// Counter and the most there may be in a domain.
    hard: Vec<(CounterId, i64)>,
    /// Whether it may be the first of a series that wants itself near.
    first: bool,
    /// Terms of others that forbid it.
    forbidden: Vec<CounterId>,
}

/// Nodes, pods, classes, counts.
#[derive(Debug, Default)]
pub struct World {
    /// Nodes.
    pub table: Table,
    /// Counts.
    pub counts: Counts,
    /// Classes; gaps are free numbers.
    pub classes: Vec<Option<Class>>,
    class_of: HashMap<Demand, ClassId>,
    free_classes: Vec<ClassId>,
    idle: Vec<ClassId>,
    /// Pods; gaps are free numbers.
    pub pods: Vec<Option<PodRow>>,
    /// Pods for which room is being made, by node.
    pub nominated: BTreeMap<Row, Vec<PodId>>,
    /// How many pods are on nodes, by priority.
    pub placed: BTreeMap<i64, usize>,
    /// Counts every change.
    pub changes: u64,
    /// Counters that moved since they were last looked at.
    pub moved: Vec<CounterId>,
    /// Rows that got more room since they were last looked at.
    pub freed: Vec<Row>,
    /// Whether anybody wants to know of the two above.
    pub watched: bool,
}

impl World {
    /// A pod that exists.
    pub fn pod(&self, id: PodId) -> &PodRow {
        self.pods[id as usize].as_ref().expect("a numbered pod exists")
    }

    /// A pod that exists.
    pub fn pod_mut(&mut self, id: PodId) -> &mut PodRow {
        self.pods[id as usize].as_mut().expect("a numbered pod exists")
    }

    /// A class that exists.
    pub fn class(&self, id: ClassId) -> &Class {
        self.classes[id as usize].as_ref().expect("a class in use exists")
    }

    /// A class that exists, and the table it looks at.
    pub fn class_mut(&mut self, id: ClassId) -> (&mut Class, &Table) {
        (self.classes[id as usize].as_mut().expect("a class in use exists"), &self.table)
    }

    /// Puts a pod on a row.
    pub fn put(&mut self, id: PodId, row: Row) {
        let World { pods, classes, table, counts, .. } = self;
        let pod = pods[id as usize].as_mut().expect("a numbered pod exists");
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.put(row, id, &class.asks);
        counts.count(row, pod.sort, &class.carried, 1);
        pod.on = Some(row);
        *self.placed.entry(pod.priority).or_default() += 1;
        self.changes += 1;
        self.note_moved(id);
    }

    /// Takes a pod from its row.
    pub fn take(&mut self, id: PodId) {
        self.note_moved(id);
        let World { pods, classes, table, counts, .. } = self;
        let pod = pods[id as usize].as_mut().expect("a numbered pod exists");
        let Some(row) = pod.on.take() else { return };
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.take_away(row, id, &class.asks);
        counts.count(row, pod.sort, &class.carried, -1);
        let many = self.placed.get_mut(&pod.priority).expect("a placed pod was counted");
        *many -= 1;
        if *many == 0 {
            self.placed.remove(&pod.priority);
        }
        self.changes += 1;
        if self.watched {
            self.freed.push(row);
        }
    }

    /// Charges and counts a pod on a row without anybody being told (`sign` 1), or the reverse (-1).
    pub fn pretend(&mut self, id: PodId, row: Row, sign: i32) {
        let World { pods, classes, table, counts, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.charge(row, &class.asks, i64::from(sign));
        counts.count(row, pod.sort, &class.carried, sign);
    }

    fn note_moved(&mut self, id: PodId) {
        if self.watched {
            let pod = self.pods[id as usize].as_ref().expect("a numbered pod exists");
            let class = self.classes[pod.class as usize].as_ref().expect("a class in use exists");
            self.moved.extend(self.counts.counted_by(pod.sort).iter().chain(&class.carried));
        }
    }

    /// The class of a demand, with one user more.
    pub fn hire_class(&mut self, demand: &Demand) -> ClassId {
        if let Some(id) = self.class_of.get(demand) {
            let class = self.classes[*id as usize].as_mut().expect("a known class exists");
            class.users += 1;
            return *id;
        }
        let mut class = Class::new(demand.clone(), &mut self.table);
        self.compile(&mut class);
        class.users = 1;
        let id = self.free_classes.pop().unwrap_or_else(|| {
            self.classes.push(None);
            ClassId::try_from(self.classes.len() - 1).expect("fewer classes than 2^32")
        });
        self.classes[id as usize] = Some(class);
        self.class_of.insert(demand.clone(), id);
        id
    }

    /// Gives a class back; the longest idle ones are forgotten.
    pub fn release_class(&mut self, id: ClassId) {
        let class = self.classes[id as usize].as_mut().expect("a class in use exists");
        class.users -= 1;
        if class.users > 0 {
            return;
        }
        self.idle.push(id);
        if self.idle.len() <= IDLE_CLASSES_MAX {
            return;
        }
        let half: Vec<ClassId> = self.idle.drain(..IDLE_CLASSES_MAX / 2).collect();
        for id in half {
            let unused = self.classes[id as usize].as_ref().is_some_and(|class| class.users == 0);
            if unused && let Some(class) = self.classes[id as usize].take() {
                class.counters().for_each(|counter| self.counts.release_counter(counter));
                self.class_of.remove(&class.demand);
                self.free_classes.push(id);
            }
        }
    }

    fn compile(&mut self, class: &mut Class) {
        let company = class.demand.company.clone();
        let near_keys: Vec<Text> = company.near.iter().map(|term| term.key.clone()).collect();
        for key in near_keys {
            let counter = self.counter(&Spec::Asked(company.near.clone(), key));
            class.near.push(counter);
        }
        for term in &company.far {
            let counter = self.counter(&Spec::Asked(vec![term.clone()], term.key.clone()));
            class.far.push(counter);
            let carried = self.counter(&Spec::Carried(term.clone(), 0));
            class.carried.push(carried);
        }
        for (weight, term) in &company.likes {
            let counter = self.counter(&Spec::Asked(vec![term.clone()], term.key.clone()));
            class.likes.push((*weight, counter));
            let carried = self.counter(&Spec::Carried(term.clone(), *weight));
            class.carried.push(carried);
        }
        // Those who need others near are liked near by them, a little.
        for term in &company.near {
            let carried = self.counter(&Spec::Carried(term.clone(), 1));
            class.carried.push(carried);
        }
        class.hard = self.rules(&company.hard, &class.demand.site);
        class.soft = self.rules(&company.soft, &class.demand.site);
    }

    fn rules(&mut self, rules: &[Spread], site: &Site) -> Vec<Rule> {
        let keys: Vec<Text> = rules.iter().map(|rule| rule.key.clone()).collect();
        let rule = |rule: &Spread| {
            let site = if rule.honor_affinity || rule.honor_taints { site.clone() } else { Site::default() };
            Rule {
                counter: self.counter(&Spec::Spread(rule.clone(), site, keys.clone())),
                skew: rule.skew,
                min_domains: rule.min_domains,
            }
        };
        rules.iter().map(rule).collect()
    }

    fn counter(&mut self, spec: &Spec) -> CounterId {
        if self.counts.name_labels(spec) {
            self.sort_anew();
        }
        let World { table, counts, pods, .. } = self;
        let rows = u32::try_from(table.rows()).expect("fewer nodes than 2^32");
        let nodes = (0..rows).map(|row| (row, table.facts(row)));
        let placed = pods.iter().flatten().filter_map(|pod| Some((pod.on?, pod.sort)));
        counts.counter(spec, nodes, placed)
    }

    /// Finds the sort of every pod anew: a selector names a label that nobody named so far. No counter that
    /// exists looks at that label, so no count changes.
    fn sort_anew(&mut self) {
        for pod in self.pods.iter_mut().flatten() {
            let sort = self.counts.sort(&pod.key.0, &pod.labels, pod.deleting);
            self.counts.release_sort(std::mem::replace(&mut pod.sort, sort));
        }
    }

    /// Takes all counts off, lets `change` happen, and counts anew.
    pub fn recount(&mut self, change: impl FnOnce(&mut Counts)) {
        self.count_all(-1);
        change(&mut self.counts);
        self.counts.join_all();
        self.count_all(1);
        self.changes += 1;
    }

    fn count_all(&mut self, sign: i32) {
        for pod in self.pods.iter().flatten() {
            if let Some(row) = pod.on {
                let class = self.classes[pod.class as usize].as_ref().expect("a class in use exists");
                self.counts.count(row, pod.sort, &class.carried, sign);
            }
        }
    }

    /// Counts the pods of one row (`sign` 1), or takes them off (-1).
    pub fn count_row(&mut self, row: Row, sign: i32) {
        for id in self.table.pods(row) {
            let pod = self.pods[*id as usize].as_ref().expect("a numbered pod exists");
            let class = self.classes[pod.class as usize].as_ref().expect("a class in use exists");
            self.counts.count(row, pod.sort, &class.carried, sign);
        }
    }

    /// Whether other pods matter for this one.
    pub fn looks_at_pods(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        self.class(pod.class).looks_at_pods() || self.counts.asked_by(pod.sort).next().is_some()
    }

    /// What other pods mean for this one right now.
    pub fn company(&self, id: PodId) -> Company {
        let pod = self.pod(id);
        let class = self.class(pod.class);
        let limit = |rule: &Rule| {
            let (smallest, domains) = self.counts.smallest(rule.counter);
            let smallest = if domains < rule.min_domains { 0 } else { i64::from(smallest) };
            let itself = i64::from(self.counts.spread_sees(rule.counter, pod.sort));
            (rule.counter, rule.skew + smallest - itself)
        };
        let none_near = class.near.iter().all(|counter| self.counts.total(*counter) == 0);
        let likes_itself = class.near.iter().all(|counter| self.counts.counts_sort(*counter, pod.sort));
        let forbidden = self.counts.asked_by(pod.sort).filter(|(_, likes)| *likes == 0);
        Company {
            hard: class.hard.iter().map(limit).collect(),
            first: none_near && likes_itself,
            forbidden: forbidden.map(|(counter, _)| counter).collect(),
        }
    }

    /// What is wrong with a node for a pod, first things first.
    pub fn wrong(&mut self, id: PodId, company: &Company, row: Row) -> Option<Wrong> {
        let class_id = self.pod(id).class;
        let (class, table) = self.class_mut(class_id);
        if let Verdict::No(no) = class.verdict(table, row) {
            return Some(Wrong::Site(no));
        }
        if table.ports_collide(row, &class.asks) {
            return Some(Wrong::Ports);
        }
        if !table.fits(row, &class.asks) {
            return Some(Wrong::Amounts);
        }
        self.wrong_outside(id, row).or_else(|| self.wrong_company(class_id, company, row))
    }

    /// The first condition from outside that a node does not meet.
    pub fn wrong_outside(&self, id: PodId, row: Row) -> Option<Wrong> {
        let name = self.table.name(row);
        let refuses = |outside: &Outside| outside.allowed.binary_search(name).is_err();
        self.pod(id).outside.iter().position(refuses).map(Wrong::Outside)
    }

    fn wrong_company(&self, class: ClassId, company: &Company, row: Row) -> Option<Wrong> {
        let class = self.class(class);
        for (counter, limit) in &company.hard {
            match self.counts.at(*counter, row) {
                None => return Some(Wrong::SpreadLabel),
                Some(count) if i64::from(count) > *limit => return Some(Wrong::Spread),
                Some(_) => {}
            }
        }
        let at = |counter: &CounterId| self.counts.at(*counter, row);
        if class.near.iter().any(|counter| at(counter).is_none()) {
            return Some(Wrong::Near);
        }
        if !company.first && class.near.iter().any(|counter| at(counter) <= Some(0)) {
            return Some(Wrong::Near);
        }
        if class.far.iter().any(|counter| at(counter) > Some(0)) {
            return Some(Wrong::Far);
        }
        company.forbidden.iter().any(|counter| at(counter) > Some(0)).then_some(Wrong::Carried)
    }

    /// What is wrong with a node, also with those in mind for whom room is being made there.
    pub fn wrong_with_nominated(&mut self, id: PodId, row: Row) -> Option<Wrong> {
        let others = self.nominated_above(id, row);
        if !others.is_empty() {
            others.iter().for_each(|other| self.pretend(*other, row, 1));
            let company = self.company(id);
            let wrong = self.wrong(id, &company, row);
            others.iter().for_each(|other| self.pretend(*other, row, -1));
            if wrong.is_some() {
                return wrong;
            }
        }
        let company = self.company(id);
        self.wrong(id, &company, row)
    }

    /// The others, at least as important, for whom room is being made on a node.
    pub fn nominated_above(&self, id: PodId, row: Row) -> Vec<PodId> {
        let Some(all) = self.nominated.get(&row) else { return Vec::new() };
        let priority = self.pod(id).priority;
        let above = |other: &&PodId| {
            let pod = self.pod(**other);
            **other != id && pod.priority >= priority && pod.on.is_none()
        };
        all.iter().filter(above).copied().collect()
    }

    /// Adds what is wrong with a node to a tally.
    pub fn tally(&self, id: PodId, row: Row, wrong: Wrong, tally: &mut Tally) {
        let pod = self.pod(id);
        match wrong {
            Wrong::Site(no) => tally.add(no.reason()),
            Wrong::Ports => tally.add(Reason::Ports),
            Wrong::Amounts => self.short(pod.class, row).for_each(|reason| tally.add(reason)),
            Wrong::Outside(n) => tally.add(Reason::Outside(pod.outside[n].reason.clone())),
            Wrong::SpreadLabel => tally.add(Reason::SpreadLabel),
            Wrong::Spread => tally.add(Reason::Spread),
            Wrong::Near => tally.add(Reason::PodAffinity),
            Wrong::Far => tally.add(Reason::AntiAffinity),
            Wrong::Carried => tally.add(Reason::ExistingAntiAffinity),
        }
    }

    /// The resources that a node is short of.
    fn short(&self, class: ClassId, row: Row) -> impl Iterator<Item = Reason> + '_ {
        let asks = &self.class(class).asks.amounts;
        let short = asks.iter().filter(move |(resource, amount)| self.table.left(row, *resource) < *amount);
        short.map(|(resource, _)| match *resource {
            PODS => Reason::TooManyPods,
            other => Reason::Insufficient(self.table.resource_name(other).clone()),
        })
    }

    /// Whether evicting pods from the node could help.
    pub fn resolvable(&self, id: PodId, row: Row, wrong: Wrong) -> bool {
        let pod = self.pod(id);
        match wrong {
            Wrong::Site(_) | Wrong::SpreadLabel | Wrong::Near => false,
            Wrong::Ports | Wrong::Spread | Wrong::Far | Wrong::Carried => true,
            Wrong::Outside(n) => pod.outside[n].resolvable,
            // The limit on pods is left out, as the real one does.
            Wrong::Amounts => self.class(pod.class).asks.amounts.iter().all(|(resource, amount)| {
                *resource == PODS || *amount <= self.table.allocatable(row, *resource)
            }),
        }
    }
}
