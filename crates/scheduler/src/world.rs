//! Everything that is where it is: nodes, pods on them, classes and counts, kept in step.
//!
//! # Invariants
//!
//! - A pod is on at most one row, charged there with its class and counted with its sort.
//! - [`World::put`] and [`World::take`] are each other's inverse: a cycle is undone by doing the opposite, in reverse.

use std::collections::{BTreeMap, HashMap};

use muster_api::time::Time;
use muster_tree::Text;

use crate::class::{Class, ClassId, Rule};
use crate::counts::{CounterId, Counts, SortId, Spec};
use crate::demand::Demand;
use crate::devices::Devices;
use crate::gang::{Fence, State, TeamId, Teams};
use crate::label::Labels;
use crate::packing::Packing;
use crate::pod::{GroupKey, PodKey};
use crate::site::Site;
use crate::table::{Row, Table};
use crate::term::Spread;
use crate::twins::Twins;
use crate::volumes::Volumes;
use crate::{devices, volumes};

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
    /// How often what was decided could not be carried out.
    pub failures: u32,
    /// The group it is placed with.
    pub team: Option<TeamId>,
    /// Whether it has scheduling gates.
    pub gated: bool,
    /// Why it must not be queued.
    pub hold: Option<Text>,
    /// The scheduler it asks for.
    pub scheduler: Text,
    /// Why its group is not looked at, as it was last told.
    pub said: Text,
    /// What it wants of volumes.
    pub volumes: volumes::Wants,
    /// What it wants of devices.
    pub devices: devices::Wants,
    /// The queue entry it belongs to.
    pub entry: Option<u32>,
}

impl PodRow {
    /// Whether it wants volumes or devices.
    pub fn claims(&self) -> bool {
        !self.volumes.is_empty() || !self.devices.is_empty()
    }

    /// Where it is, for the counts of its group.
    pub fn state(&self) -> State {
        match (self.on, self.bound) {
            (Some(_), true) => State::Assigned,
            (Some(_), false) => State::Assumed,
            (None, _) if self.deleting => State::Leaving,
            (None, _) => State::Waiting { gated: self.gated, held: self.hold.is_some() },
        }
    }

    /// It, as the book of volumes knows it.
    pub fn asks_volumes(&self, id: PodId) -> volumes::Asker<'_> {
        volumes::Asker { id, key: &self.key, wants: &self.volumes, bound: self.bound }
    }

    /// It, as the book of devices knows it.
    pub fn asks_devices(&self, id: PodId) -> devices::Asker<'_> {
        devices::Asker { id, key: &self.key, wants: &self.devices, bound: self.bound }
    }
}

/// Nodes, pods, classes, counts, volumes, devices.
#[derive(Debug, Default)]
pub struct World {
    /// Nodes.
    pub table: Table,
    /// Nodes that are alike.
    pub twins: Twins,
    /// Counts.
    pub counts: Counts,
    /// Volumes.
    pub volumes: Volumes,
    /// Devices.
    pub devices: Devices,
    /// What nodes are filled up by.
    pub packing: Packing,
    /// Classes; gaps are free numbers.
    pub classes: Vec<Option<Class>>,
    class_of: HashMap<Demand, ClassId>,
    free_classes: Vec<ClassId>,
    idle: Vec<ClassId>,
    /// Pods; gaps are free numbers.
    pub pods: Vec<Option<PodRow>>,
    /// Groups.
    pub teams: Teams,
    /// The only nodes that are looked at, while there is one.
    pub fence: Option<Fence>,
    /// How many fences there ever were.
    pub fences: u64,
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
    /// Whether volumes, devices or claims to them changed since that was last looked at.
    pub claims_moved: bool,
    /// Whether anybody wants to know of the three above.
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

    /// Changes a pod, and the counts of its group with it.
    pub fn change<T>(&mut self, id: PodId, change: impl FnOnce(&mut PodRow) -> T) -> T {
        let pod = self.pods[id as usize].as_mut().expect("a numbered pod exists");
        let before = pod.state();
        let answer = change(pod);
        let after = pod.state();
        if let Some(team) = pod.team.filter(|_| before != after) {
            let team = self.teams.of_mut(team);
            team.count(before, false);
            team.count(after, true);
        }
        answer
    }

    /// The name of the node on which room is being made for a pod.
    pub fn nominated_name(&self, id: PodId) -> Option<Text> {
        self.pod(id).nominated.map(|row| self.table.name(row).clone())
    }

    /// Makes a pod a member of a group.
    pub fn enlist(&mut self, id: PodId, group: &GroupKey) {
        let team = self.teams.id(group);
        let pod = self.pods[id as usize].as_mut().expect("a numbered pod exists");
        pod.team = Some(team);
        let team = self.teams.of_mut(team);
        team.count(pod.state(), true);
        team.members.insert(id);
    }

    /// A pod leaves its group for ever.
    pub fn discharge(&mut self, id: PodId) -> Option<TeamId> {
        let pod = self.pods[id as usize].as_mut().expect("a numbered pod exists");
        let team = pod.team.take()?;
        let known = self.teams.of_mut(team);
        known.count(pod.state(), false);
        known.members.remove(&id);
        known.unsaid.remove(&id);
        if known.members.is_empty() {
            known.tried = None;
        }
        Some(team)
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
        let World { pods, classes, table, counts, volumes, devices, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.put(row, id, &class.asks);
        counts.count(row, pod.sort, &class.carried, 1);
        if pod.claims() {
            volumes.put(&pod.asks_volumes(id), table.name(row), table.facts(row));
            devices.put(&pod.asks_devices(id), table.name(row), table.facts(row));
        }
        *self.placed.entry(pod.priority).or_default() += 1;
        self.change(id, |pod| pod.on = Some(row));
        self.changes += 1;
        self.note_moved(id);
    }

    /// Takes a pod from its row.
    pub fn take(&mut self, id: PodId) {
        self.note_moved(id);
        let World { pods, classes, table, counts, volumes, devices, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let Some(row) = pod.on else { return };
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.take_away(row, id, &class.asks);
        counts.count(row, pod.sort, &class.carried, -1);
        if pod.claims() {
            let freed = devices.take(&pod.asks_devices(id));
            volumes.take(&pod.asks_volumes(id));
            self.claims_moved |= freed || !pod.volumes.is_empty();
        }
        let many = self.placed.get_mut(&pod.priority).expect("a placed pod was counted");
        *many -= 1;
        if *many == 0 {
            self.placed.remove(&pod.priority);
        }
        self.change(id, |pod| pod.on = None);
        self.changes += 1;
        if self.watched {
            self.freed.push(row);
        }
    }

    /// Charges and counts a pod on a row without anybody being told (`sign` 1), or the reverse (-1).
    pub fn pretend(&mut self, id: PodId, row: Row, sign: i32) {
        let World { pods, classes, table, counts, volumes, devices, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        let class = classes[pod.class as usize].as_ref().expect("a class in use exists");
        table.charge(row, &class.asks, i64::from(sign));
        counts.count(row, pod.sort, &class.carried, sign);
        if pod.claims() {
            volumes.pretend(&pod.asks_volumes(id), sign);
            devices.pretend(&pod.asks_devices(id), sign);
        }
    }

    /// Takes a pod off its row in thought, for all to see: rankings look again. [`World::give_back`] is its reverse.
    pub fn lift(&mut self, id: PodId) {
        if let Some(row) = self.pod(id).on {
            self.pretend(id, row, -1);
            self.table.touch(row);
        }
    }

    /// Puts a pod that was lifted back.
    pub fn give_back(&mut self, id: PodId) {
        if let Some(row) = self.pod(id).on {
            self.pretend(id, row, 1);
            self.table.touch(row);
        }
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
        let mut class = Class::new(demand.clone(), self.packing, &mut self.table);
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
}
