//! Whether queues take Workloads, and if not, why.

use muster_api::queue::words::{messages, reasons};
use muster_api::queue::{CheckFacts, ClusterQueueFacts, FlavorFacts, LocalQueueFacts};
use muster_tree::Text;

use super::super::checks::CHECKS_MAX;
use super::super::cohorts::{Parents, path_up};
use super::is_stopped;

/// What a ClusterQueue refers to.
pub trait Around {
    /// The flavor of this name.
    fn flavor(&self, name: &str) -> Option<&FlavorFacts>;
    /// The check of this name.
    fn check(&self, name: &str) -> Option<&CheckFacts>;
    /// Whether there is a topology of this name.
    fn has_topology(&self, name: &str) -> bool;
    /// Parents of cohorts.
    fn cohorts(&self) -> &Parents;
}

/// The condition `Active` as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// Whether it takes Workloads.
    pub holds: bool,
    /// `reason`.
    pub reason: &'static str,
    /// `message`.
    pub message: String,
}

impl Readiness {
    fn new(holds: bool, reason: &'static str, message: &str) -> Readiness {
        Readiness { holds, reason, message: message.to_owned() }
    }
}

/// Whether a ClusterQueue takes Workloads: the reason is the first thing that is wrong, the message tells them all.
#[must_use]
pub fn readiness(queue: &ClusterQueueFacts, around: &dyn Around) -> Readiness {
    if queue.deleting {
        return Readiness::new(false, reasons::TERMINATING, messages::TERMINATING);
    }
    let wrong: Vec<(&'static str, String)> = [
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
    let Some((reason, _)) = wrong.first() else {
        return Readiness::new(true, reasons::READY, messages::CAN_ADMIT);
    };
    let parts: Vec<&str> = wrong.iter().map(|(_, words)| words.as_str()).collect();
    Readiness::new(false, reason, &format!("Can't admit new workloads: {}.", parts.join(", ")))
}

type Wrong = Option<(&'static str, String)>;

fn stopped(queue: &ClusterQueueFacts) -> Wrong {
    is_stopped(queue.stop).then(|| (reasons::STOPPED, "is stopped".to_owned()))
}

fn missing_flavors(queue: &ClusterQueueFacts, around: &dyn Around) -> Wrong {
    let names = queue.flavors().map(|it| &it.name).filter(|it| around.flavor(it).is_none());
    listed(reasons::FLAVOR_NOT_FOUND, "references missing ResourceFlavor(s)", names)
}

fn missing_checks(queue: &ClusterQueueFacts, around: &dyn Around) -> Wrong {
    let names = queue.checks.iter().map(|it| &it.name).filter(|it| around.check(it).is_none());
    listed(reasons::CHECK_NOT_FOUND, "references missing AdmissionCheck(s)", names)
}

fn inactive_checks(queue: &ClusterQueueFacts, around: &dyn Around) -> Wrong {
    let is_inactive = |name: &&Text| around.check(name).is_some_and(|it| !it.active);
    let names = queue.checks.iter().map(|it| &it.name).filter(is_inactive);
    listed(reasons::CHECK_INACTIVE, "references inactive AdmissionCheck(s)", names)
}

fn listed<'a>(reason: &'static str, words: &str, names: impl Iterator<Item = &'a Text>) -> Wrong {
    let mut all: Vec<&str> = Vec::new();
    for name in names {
        if !all.contains(&name.as_str()) {
            all.push(name);
        }
    }
    (!all.is_empty()).then(|| (reason, format!("{words}: {}", all.join(","))))
}

fn missing_topology(queue: &ClusterQueueFacts, around: &dyn Around) -> Wrong {
    let lacks = |it: &&FlavorFacts| !it.topology.is_empty() && !around.has_topology(&it.topology);
    let flavor = queue.flavors().filter_map(|it| around.flavor(&it.name)).find(lacks)?;
    let (topology, name) = (&flavor.topology, &flavor.name);
    let words = format!("there is no Topology \"{topology}\" for TAS flavor \"{name}\"");
    Some((reasons::TOPOLOGY_NOT_FOUND, words))
}

/// Workloads cannot list them all.
fn too_many_checks(queue: &ClusterQueueFacts) -> Wrong {
    let all = queue.checks.iter().filter(|it| it.flavors.is_empty()).count();
    let words = || format!("has {all} admission checks for all flavors, at most {CHECKS_MAX} can be heeded");
    (all > CHECKS_MAX).then(|| (reasons::UNKNOWN, words()))
}

fn cycle(queue: &ClusterQueueFacts, around: &dyn Around) -> Wrong {
    let cohort = Some(&queue.cohort).filter(|it| !it.is_empty())?;
    let names = path_up(around.cohorts(), cohort).err()?;
    let first = names.first()?;
    Some((reasons::UNKNOWN, format!("its cohorts form a cycle: {} -> {first}", names.join(" -> "))))
}

/// Whether a LocalQueue takes Workloads; `of` is its ClusterQueue.
#[must_use]
pub fn local_readiness(queue: &LocalQueueFacts, of: Option<(&ClusterQueueFacts, &Readiness)>) -> Readiness {
    match of {
        _ if is_stopped(queue.stop) => {
            Readiness::new(false, reasons::STOPPED, messages::LOCAL_QUEUE_IS_STOPPED)
        }
        None => Readiness::new(false, reasons::CLUSTER_QUEUE_MISSING, messages::CANNOT_SUBMIT),
        Some((_, ready)) if !ready.holds => {
            Readiness::new(false, reasons::CLUSTER_QUEUE_INACTIVE, messages::CANNOT_SUBMIT)
        }
        Some(_) => Readiness::new(true, reasons::READY, messages::CAN_SUBMIT),
    }
}
