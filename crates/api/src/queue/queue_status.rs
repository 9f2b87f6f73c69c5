//! The status of ClusterQueues, LocalQueues and Cohorts.

use muster_tree::{Text, Tree, tree};

use super::amounts::amount_text;
use super::condition::{self, Condition};
use super::count;
use super::paths::{flavor_usage, queue_status as path, resource_usage};
use crate::node::amount;

/// The status of a ClusterQueue or a LocalQueue.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueueStatus {
    /// Conditions; a LocalQueue has only `Active`.
    pub conditions: Vec<Condition>,
    /// `flavorsReservation`: usage of Workloads with a quota reservation, in the order of the spec.
    pub reservation: Vec<FlavorUsage>,
    /// `flavorsUsage`: usage of admitted Workloads, in the order of the spec.
    pub usage: Vec<FlavorUsage>,
    /// Number of Workloads without quota: `pendingWorkloads`.
    pub pending: u32,
    /// Number of Workloads with quota reserved: `reservingWorkloads`.
    pub reserving: u32,
    /// Number of admitted Workloads: `admittedWorkloads`.
    pub admitted: u32,
    /// `fairSharing.weightedShare`; `None` while fair sharing is disabled.
    pub share: Option<i64>,
}

/// Usage of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorUsage {
    /// Name of the ResourceFlavor.
    pub name: Text,
    /// Resources, sorted by name.
    pub resources: Vec<ResourceUsage>,
}

/// Usage of one resource in one flavor, in the unit of [`amount`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Name of the resource.
    pub name: Text,
    /// Usage, including borrowed quota.
    pub total: i64,
    /// Part of `total` that is borrowed from the cohort; `None` in LocalQueues.
    pub borrowed: Option<i64>,
}

impl QueueStatus {
    /// Reads the status of a ClusterQueue or a LocalQueue.
    #[must_use]
    pub fn of(status: &Tree) -> QueueStatus {
        let flavors = |path: &[&str]| status.items_at(path).iter().map(FlavorUsage::of).collect();
        QueueStatus {
            conditions: status.items_at(path::CONDITIONS).iter().map(Condition::of).collect(),
            reservation: flavors(path::RESERVATION),
            usage: flavors(path::USAGE),
            pending: count(status, path::PENDING).unwrap_or(0),
            reserving: count(status, path::RESERVING).unwrap_or(0),
            admitted: count(status, path::ADMITTED).unwrap_or(0),
            share: status.int_at(path::SHARE),
        }
    }

    /// Sets a condition; its transition time changes only with its status. Returns whether anything changed.
    pub fn set(&mut self, condition: Condition) -> bool {
        condition::set(&mut self.conditions, condition)
    }

    /// The status as an API value; fields that this type does not cover are kept from `old`.
    #[must_use]
    pub fn tree(&self, old: &Tree) -> Tree {
        let list = |items: Vec<Tree>| (!items.is_empty()).then(|| Tree::list(items));
        let flavors = |all: &[FlavorUsage]| list(all.iter().map(FlavorUsage::tree).collect());
        let start = if old.is_map() { old.clone() } else { Tree::empty_map() };
        start
            .with_option(path::CONDITIONS, list(self.conditions.iter().map(Condition::tree).collect()))
            .with_option(path::RESERVATION, flavors(&self.reservation))
            .with_option(path::USAGE, flavors(&self.usage))
            .with(path::PENDING, self.pending)
            .with(path::RESERVING, self.reserving)
            .with(path::ADMITTED, self.admitted)
            .with_option(path::SHARE, self.share.map(Tree::from))
    }

    /// A merge patch of the status, or `None` if nothing differs from `old`; needs a resource version precondition.
    #[must_use]
    pub fn patch(&self, old: &Tree) -> Option<Tree> {
        let old = if old.is_map() { old.clone() } else { Tree::empty_map() };
        let patch = old.merge_patch_to(&self.tree(&old))?;
        Some(tree!({"status": patch}))
    }
}

impl FlavorUsage {
    fn of(tree: &Tree) -> FlavorUsage {
        FlavorUsage {
            name: tree.text_at(flavor_usage::NAME),
            resources: tree.items_at(flavor_usage::RESOURCES).iter().map(ResourceUsage::of).collect(),
        }
    }

    fn tree(&self) -> Tree {
        tree!({"name": &self.name, "resources": Tree::list(self.resources.iter().map(ResourceUsage::tree))})
    }
}

impl ResourceUsage {
    fn of(tree: &Tree) -> ResourceUsage {
        let name = tree.text_at(resource_usage::NAME);
        let read = |path: &[&str]| tree.at(path).and_then(|it| amount(&name, it));
        ResourceUsage {
            total: read(resource_usage::TOTAL).unwrap_or(0),
            borrowed: read(resource_usage::BORROWED),
            name,
        }
    }

    fn tree(&self) -> Tree {
        let borrowed = self.borrowed.map(|n| Tree::from(amount_text(&self.name, n)));
        tree!({"name": &self.name, "total": amount_text(&self.name, self.total)})
            .with_option(resource_usage::BORROWED, borrowed)
    }
}

/// A merge patch of a Cohort's status, or `None` if nothing differs; needs a resource version precondition.
#[must_use]
pub fn cohort_status(old: &Tree, share: Option<i64>) -> Option<Tree> {
    let old = if old.is_map() { old.clone() } else { Tree::empty_map() };
    let fair = share.map(|share| tree!({"weightedShare": share}));
    let patch = old.merge_patch_to(&old.with_option(&["fairSharing"], fair))?;
    Some(tree!({"status": patch}))
}
