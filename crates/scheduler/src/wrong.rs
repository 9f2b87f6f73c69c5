//! What is wrong with a node for a pod, first things first: the node itself, ports, amounts, volumes, spreading,
//! affinity, devices. The order is kube-scheduler's, so that the reasons are.

use muster_tree::Text;

use crate::class::{ClassId, No, Rule, Verdict};
use crate::counts::CounterId;
use crate::reason::{Reason, Tally};
use crate::site::Named;
use crate::table::{PODS, Row};
use crate::world::{PodId, World};
use crate::{devices, volumes};

/// Why a node does not do: the first thing that is wrong with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// The node itself.
    Site(No),
    /// A port.
    Ports,
    /// An amount.
    Amounts,
    /// Volumes.
    Volumes(volumes::Wrong),
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
    /// Devices.
    Devices(devices::Wrong),
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

impl World {
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
        if !table.has_amounts(row, &class.asks) {
            return Some(Wrong::Amounts);
        }
        if !self.pod(id).claims() {
            return self.wrong_company(class_id, company, row);
        }
        let volumes = self.wrong_volumes(id, row);
        let company = volumes.or_else(|| self.wrong_company(class_id, company, row));
        company.or_else(|| self.wrong_devices(id, row))
    }

    fn wrong_volumes(&mut self, id: PodId, row: Row) -> Option<Wrong> {
        let World { pods, volumes, table, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        volumes.wrong(&pod.asks_volumes(id), table.facts(row)?).map(Wrong::Volumes)
    }

    fn wrong_devices(&mut self, id: PodId, row: Row) -> Option<Wrong> {
        let World { pods, devices, table, .. } = self;
        let pod = pods[id as usize].as_ref().expect("a numbered pod exists");
        devices.wrong(&pod.asks_devices(id), table.facts(row)?).map(Wrong::Devices)
    }

    /// What keeps a pod from every node.
    pub fn hold(&self, id: PodId) -> Option<Text> {
        let pod = self.pod(id);
        if !pod.claims() {
            return None;
        }
        self.volumes.hold(&pod.asks_volumes(id)).or_else(|| self.devices.hold(&pod.asks_devices(id)))
    }

    /// Whether something keeps a pod from every node that is asked before devices are.
    pub fn is_held_early(&self, id: PodId) -> bool {
        let pod = self.pod(id);
        let contradicts_itself = self.class(pod.class).named == Named::Nobody;
        contradicts_itself || (pod.claims() && self.volumes.hold(&pod.asks_volumes(id)).is_some())
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
            Wrong::Volumes(wrong) => tally.add(wrong.reason()),
            Wrong::Devices(wrong) => tally.add(wrong.reason()),
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
            Wrong::Volumes(wrong) => wrong.resolvable(),
            Wrong::Devices(wrong) => wrong.resolvable(),
            // The limit on pods is left out, as the real one does.
            Wrong::Amounts => self.class(pod.class).asks.amounts.iter().all(|(resource, amount)| {
                *resource == PODS || *amount <= self.table.allocatable(row, *resource)
            }),
        }
    }
}
