//! The `Active` condition of ClusterQueues and LocalQueues.

use muster_api::queue::consts::{messages, reasons};
use muster_api::queue::{AdmissionCheckFacts, ClusterQueueFacts, FlavorFacts, LocalQueueFacts};
use muster_tree::Text;

use super::super::checks::CHECKS_MAX;
use super::super::cohorts::{CohortParents, ancestor_path};
use super::is_stopped;

/// Lister of the objects that a ClusterQueue references.
pub trait ReadinessLister {
    /// The flavor of this name.
    fn flavor(&self, name: &str) -> Option<&FlavorFacts>;
    /// The check of this name.
    fn check(&self, name: &str) -> Option<&AdmissionCheckFacts>;
    /// Whether there is a topology of this name.
    fn has_topology(&self, name: &str) -> bool;
    fn cohorts(&self) -> &CohortParents;
}

/// The desired `Active` condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveCondition {
    /// Whether it takes Workloads.
    pub holds: bool,
    pub reason: &'static str,
    pub message: String,
}

impl ActiveCondition {
    fn new(holds: bool, reason: &'static str, message: &str) -> ActiveCondition {
        ActiveCondition { holds, reason, message: message.to_owned() }
    }
}

/// The `Active` condition of a ClusterQueue: the reason is the first problem, the message lists all.
#[must_use]
pub fn cluster_queue_active(queue: &ClusterQueueFacts, around: &dyn ReadinessLister) -> ActiveCondition {
    if queue.deleting {
        return ActiveCondition::new(false, reasons::TERMINATING, messages::TERMINATING);
    }
    let causes: Vec<(&'static str, String)> = [
        stopped(queue),
        missing_flavors(queue, around),
        missing_checks(queue, around),
        inactive_checks(queue, around),
        missing_topology(queue, around),
        too_many_checks(queue),
        cycle(queue, around),
    ]
    .into_iter()
    .flatten()
    .collect();
    let Some((reason, _)) = causes.first() else {
        return ActiveCondition::new(true, reasons::READY, messages::CAN_ADMIT);
    };
    let parts: Vec<&str> = causes.iter().map(|(_, words)| words.as_str()).collect();
    ActiveCondition::new(false, reason, &format!("Can't admit new workloads: {}.", parts.join(", ")))
}

type InactiveCause = Option<(&'static str, String)>;

fn stopped(queue: &ClusterQueueFacts) -> InactiveCause {
    is_stopped(queue.stop).then(|| (reasons::STOPPED, "is stopped".to_owned()))
}

fn missing_flavors(queue: &ClusterQueueFacts, around: &dyn ReadinessLister) -> InactiveCause {
    let names = queue.flavors().map(|it| &it.name).filter(|it| around.flavor(it).is_none());
    listed(reasons::FLAVOR_NOT_FOUND, "references missing ResourceFlavor(s)", names)
}

fn missing_checks(queue: &ClusterQueueFacts, around: &dyn ReadinessLister) -> InactiveCause {
    let names = queue.checks.iter().map(|it| &it.name).filter(|it| around.check(it).is_none());
    listed(reasons::CHECK_NOT_FOUND, "references missing AdmissionCheck(s)", names)
}

fn inactive_checks(queue: &ClusterQueueFacts, around: &dyn ReadinessLister) -> InactiveCause {
    let is_inactive = |name: &&Text| around.check(name).is_some_and(|it| !it.active);
    let names = queue.checks.iter().map(|it| &it.name).filter(is_inactive);
    listed(reasons::CHECK_INACTIVE, "references inactive AdmissionCheck(s)", names)
}

fn listed<'a>(reason: &'static str, words: &str, names: impl Iterator<Item = &'a Text>) -> InactiveCause {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name.as_str()) {
            all.push(name);
        }
    }
    (!all.is_empty()).then(|| (reason, format!("{words}: {}", all.join(","))))
}

fn missing_topology(queue: &ClusterQueueFacts, around: &dyn ReadinessLister) -> InactiveCause {
    let lacks = |it: &&FlavorFacts| !it.topology.is_empty() && !around.has_topology(&it.topology);
    let flavor = queue.flavors().filter_map(|it| around.flavor(&it.name)).find(lacks)?;
    let (topology, name) = (&flavor.topology, &flavor.name);
    let words = format!("there is no Topology \"{topology}\" for TAS flavor \"{name}\"");
    Some((reasons::TOPOLOGY_NOT_FOUND, words))
}

/// A Workload's status cannot list more than [`CHECKS_MAX`] checks.
fn too_many_checks(queue: &ClusterQueueFacts) -> InactiveCause {
    let all = queue.checks.iter().filter(|it| it.flavors.is_empty()).count();
    let words = || format!("has {all} admission checks for all flavors, at most {CHECKS_MAX} can be heeded");
    (all > CHECKS_MAX).then(|| (reasons::UNKNOWN, words()))
}

fn cycle(queue: &ClusterQueueFacts, around: &dyn ReadinessLister) -> InactiveCause {
    let cohort = Some(&queue.cohort).filter(|it| !it.is_empty())?;
    let names = ancestor_path(around.cohorts(), cohort).err()?;
    let first = names.first()?;
    Some((reasons::UNKNOWN, format!("its cohorts form a cycle: {} -> {first}", names.join(" -> "))))
}

/// The `Active` condition of a LocalQueue; `of` is its ClusterQueue.
#[must_use]
pub fn local_queue_active(
    queue: &LocalQueueFacts,
    of: Option<(&ClusterQueueFacts, &ActiveCondition)>,
) -> ActiveCondition {
    match of {
        _ if is_stopped(queue.stop) => {
            ActiveCondition::new(false, reasons::STOPPED, messages::LOCAL_QUEUE_IS_STOPPED)
        }
        None => ActiveCondition::new(false, reasons::CLUSTER_QUEUE_MISSING, messages::CANNOT_SUBMIT),
        Some((_, ready)) if !ready.holds => {
            ActiveCondition::new(false, reasons::CLUSTER_QUEUE_INACTIVE, messages::CANNOT_SUBMIT)
        }
        Some(_) => ActiveCondition::new(true, reasons::READY, messages::CAN_SUBMIT),
    }
}
