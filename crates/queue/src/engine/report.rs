//! What queues show: who waits in which order, what is used, and that counting anew gives the same.

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_tree::Text;

use super::amount::{minus, plus};
use super::line::Line;
use super::share::Share;
use super::spec::Idle;
use super::tree::NodeId;
use super::workload::{Amounts, Key, Stand};
use super::{Engine, Entry};

/// One that waits, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Who.
    pub key: Key,
    /// Its priority.
    pub priority: i64,
    /// Its local queue.
    pub local_queue: Text,
    /// How many of its queue are before it.
    pub position_in_cluster_queue: usize,
    /// How many of its local queue are before it.
    pub position_in_local_queue: usize,
    /// Since when it exists.
    pub created: Time,
}

/// Usage of one resource in one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUsage {
    /// The resource.
    pub resource: Text,
    /// All that is taken.
    pub total: i64,
    /// The part of it that is beyond the queue's own.
    pub borrowed: i64,
}

/// Usage by flavor, in the order of the spec, every pair listed.
pub type FlavorUsage = Vec<(Text, Vec<ResourceUsage>)>;

/// The numbers of a queue's status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueUsage {
    /// `flavorsReservation`.
    pub reserved: FlavorUsage,
    /// `flavorsUsage`.
    pub admitted: FlavorUsage,
    /// `pendingWorkloads`.
    pub pending: usize,
    /// Of those, how many a coming cycle may look at.
    pub active: usize,
    /// `reservingWorkloads`.
    pub reserving: usize,
    /// `admittedWorkloads`.
    pub admitted_workloads: usize,
    /// `fairSharing.weightedShare`.
    pub weighted_share: i64,
}

/// What a queue has of one resource in one flavor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// What it may take now.
    pub available: i64,
    /// What it could take if nobody else had anything.
    pub maximum: i64,
    /// What it uses.
    pub used: i64,
}

/// All that is counted, to be compared with a count made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Books {
    used: BTreeMap<(Text, Text, Text), i64>,
    admitted: BTreeMap<(Text, Text, Text), i64>,
    holders: BTreeMap<Text, Vec<Key>>,
    waiting: BTreeMap<Text, Vec<Key>>,
    unready: Vec<Key>,
}

impl Engine {
    /// Why a queue takes nothing; `None` if it does, or is not there.
    #[must_use]
    pub fn idle(&mut self, queue: &str) -> Option<Idle> {
        self.refresh();
        self.ledger.idle.get(self.ledger.tree.queue(queue)?).copied().flatten()
    }

    /// Who waits in a queue, in order.
    #[must_use]
    pub fn pending(&self, queue: &str) -> Vec<Waiting> {
        let mut in_local: BTreeMap<(Text, Text), usize> = BTreeMap::new();
        let places = self.lines.get(queue).map(Line::places).unwrap_or_default();
        let waiting = places.iter().enumerate().filter_map(|(at, place)| {
            let info = &self.workloads.get(&place.key)?.info;
            let count = in_local.entry((place.key.namespace.clone(), info.local_queue.clone())).or_default();
            *count += 1;
            Some(Waiting {
                key: place.key.clone(),
                priority: info.priority,
                local_queue: info.local_queue.clone(),
                position_in_cluster_queue: at,
                position_in_local_queue: *count - 1,
                created: info.created,
            })
        });
        waiting.collect()
    }

    /// Who waits in a local queue, in order.
    #[must_use]
    pub fn pending_in_local(&self, namespace: &str, name: &str) -> Vec<Waiting> {
        let Some(local) = self.locals.get(&Key::new(namespace, name)) else { return Vec::new() };
        let mut all = self.pending(&local.queue);
        all.retain(|it| it.key.namespace == *namespace && it.local_queue == *name);
        all
    }

    /// The numbers of a queue's status.
    #[must_use]
    pub fn usage(&mut self, queue: &str) -> Option<QueueUsage> {
        self.refresh();
        let node = self.ledger.tree.queue(queue)?;
        let line = self.lines.get(queue);
        let holders = self.ledger.holders[node].values();
        let admitted = holders.filter(|holder| {
            let entry = self.workloads.get(&holder.key);
            entry.and_then(|entry| entry.info.reservation()).is_some_and(|it| it.admitted)
        });
        Some(QueueUsage {
            reserved: self.flavor_usage(node, &self.ledger.usage),
            admitted: self.flavor_usage(node, &self.ledger.admitted),
            pending: line.map_or(0, Line::count),
            active: line.map_or(0, Line::active),
            reserving: self.ledger.holders[node].len(),
            admitted_workloads: admitted.count(),
            weighted_share: Share::of(&self.ledger.tree, &self.ledger.usage, node).reported(),
        })
    }

    /// What all who wait in a queue ask for.
    #[must_use]
    pub fn asked(&self, queue: &str) -> Amounts {
        let mut all = Amounts::new();
        let Some(line) = self.lines.get(queue) else { return all };
        let mut add = |total: Amounts| {
            for (resource, amount) in total {
                let sum = all.entry(resource).or_default();
                *sum = plus(*sum, amount);
            }
        };
        line.shapes().for_each(|(shape, count)| add(shape.asked(count)));
        let aside = line.aside_keys().filter_map(|key| self.workloads.get(key));
        aside.for_each(|entry| add(entry.shape.asked(1)));
        all
    }

    /// What a queue has of one resource in one flavor.
    #[must_use]
    pub fn room(&mut self, queue: &str, flavor: &str, resource: &str) -> Option<Room> {
        self.refresh();
        let tree = &self.ledger.tree;
        let node = tree.queue(queue)?;
        let pair = tree.pair(&flavor.into(), &resource.into())?;
        Some(Room {
            available: tree.available(&self.ledger.usage, node, pair),
            maximum: tree.potential(node, pair),
            used: tree.used(&self.ledger.usage, node, pair),
        })
    }

    /// The share of a cohort, as its status shows it.
    #[must_use]
    pub fn cohort_share(&mut self, cohort: &str) -> Option<i64> {
        self.refresh();
        let tree = &self.ledger.tree;
        let node = (tree.queues..tree.nodes.len()).find(|&node| tree.nodes[node].name == *cohort)?;
        Some(Share::of(tree, &self.ledger.usage, node).reported())
    }

    /// The numbers of a local queue's status, as far as its queue has those flavors. Nothing there is borrowed.
    #[must_use]
    pub fn local_usage(&mut self, namespace: &str, name: &str) -> Option<QueueUsage> {
        self.refresh();
        let key = Key::new(namespace, name);
        let node = self.ledger.tree.queue(&self.locals.get(&key)?.queue)?;
        let (mut usage, mut admitted) = (self.ledger.tree.unused(), self.ledger.tree.unused());
        let (mut reserving, mut admitted_workloads, mut pending, mut active) = (0, 0, 0, 0);
        let line = self.lines.get(&self.ledger.tree.nodes[node].name);
        let rests = |entry: &Entry| {
            line.is_none_or(|it| it.verdict_of(&entry.shape).is_some() || it.aside(&entry.info.key).is_some())
        };
        for entry in self.by_local.get(&key).into_iter().flatten().filter_map(|key| self.workloads.get(key)) {
            let waits = entry.info.stand == Stand::Waiting;
            pending += usize::from(waits);
            active += usize::from(waits && !rests(entry));
            let Some(holder) = entry.holder.as_ref().filter(|holder| holder.node == node) else { continue };
            let runs = entry.info.reservation().is_some_and(|it| it.admitted);
            reserving += 1;
            admitted_workloads += usize::from(runs);
            for &(pair, amount) in &holder.uses {
                let cell = node * self.ledger.tree.pairs.len() + pair;
                usage[cell] = plus(usage[cell], amount);
                if runs {
                    admitted[cell] = plus(admitted[cell], amount);
                }
            }
        }
        let unborrowed = |mut list: FlavorUsage| {
            list.iter_mut().flat_map(|(_, resources)| resources).for_each(|it| it.borrowed = 0);
            list
        };
        Some(QueueUsage {
            reserved: unborrowed(self.flavor_usage(node, &usage)),
            admitted: unborrowed(self.flavor_usage(node, &admitted)),
            pending,
            active,
            reserving,
            admitted_workloads,
            weighted_share: 0,
        })
    }

    fn flavor_usage(&self, node: NodeId, usage: &[i64]) -> FlavorUsage {
        let tree = &self.ledger.tree;
        let flavors = self.ledger.specs[node].groups.iter().flat_map(|group| &group.flavors);
        let list = flavors.map(|(flavor, quotas)| {
            let resources = quotas.iter().map(|(resource, quota)| {
                let pair = tree.pair(flavor, resource);
                let total = pair.map_or(0, |pair| usage[node * tree.pairs.len() + pair]);
                let borrowed = minus(total, quota.nominal).max(0);
                ResourceUsage { resource: resource.clone(), total, borrowed }
            });
            (flavor.clone(), resources.collect())
        });
        list.collect()
    }

    /// An engine that was fed the same and counted everything anew.
    #[must_use]
    pub fn rebuilt(&self) -> Engine {
        let mut new = Engine::new(self.settings.clone());
        new.flavors.clone_from(&self.flavors);
        new.cohorts.clone_from(&self.cohorts);
        new.namespaces.clone_from(&self.namespaces);
        for queue in self.queues.values() {
            new.cluster_queue((**queue).clone());
        }
        for local in self.locals.values() {
            new.local_queue(local.clone());
        }
        for (key, entry) in &self.workloads {
            new.workload(entry.info.clone());
            if let Some(copy) = new.workloads.get_mut(key) {
                copy.assumed = entry.assumed;
            }
        }
        new.named.clone_from(&self.named);
        new.refresh();
        new
    }

    /// All that is counted, as far as it follows from what was fed.
    #[must_use]
    pub fn books(&mut self) -> Books {
        self.refresh();
        let tree = &self.ledger.tree;
        let by_name = |usage: &[i64]| {
            let mut found = BTreeMap::new();
            for (node, it) in tree.nodes.iter().enumerate() {
                let kind = if node < tree.queues { "queue" } else { "cohort" };
                for (pair, (flavor, resource)) in tree.pairs.iter().enumerate() {
                    let amount = usage[node * tree.pairs.len() + pair];
                    if amount != 0 {
                        let pair = format!("{flavor}/{resource}");
                        found.insert((Text::from(kind), it.name.clone(), Text::from(pair)), amount);
                    }
                }
            }
            found
        };
        let holders = |node: usize| self.ledger.holders[node].values().map(|it| it.key.clone()).collect();
        let waiting = |line: &Line| {
            let mut keys: Vec<Key> = line.places().into_iter().map(|place| place.key.clone()).collect();
            keys.sort();
            keys
        };
        Books {
            used: by_name(&self.ledger.usage),
            admitted: by_name(&self.ledger.admitted),
            holders: (0..tree.queues).map(|node| (tree.nodes[node].name.clone(), holders(node))).collect(),
            waiting: self.lines.iter().map(|(name, line)| (name.clone(), waiting(line))).collect(),
            unready: self.unready.iter().cloned().collect(),
        }
    }
}
