//! Explanations of pending Workloads: the engine's findings as data for programs and as lines for terminals.
//!
//! # Guarantees
//!
//! - Nothing is recomputed: every amount is one that the decision was made with.
//! - A caller without access to a namespace sees how many Workloads there hold quota, and not which.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use muster_api::queue::amount_text;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

/// Bound on quota holders that are listed; the rest is counted.
pub const HOLDERS_MAX: usize = 10;

pub type WorkloadName = (Text, Text);

/// The state of a Workload, or the result of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExplanationState {
    /// Pending: no quota reserved.
    #[default]
    Pending,
    /// On hold, or held by a gate.
    Held,
    /// Quota reserved, not admitted.
    Reserved,
    Admitted,
    Finished,
    /// Dry run: would be admitted at once.
    WouldStart,
    /// Dry run: would be admitted after preemption.
    WouldPreempt,
    WouldWait,
}

impl ExplanationState {
    /// The value in the API.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            ExplanationState::Pending => "Pending",
            ExplanationState::Held => "Held",
            ExplanationState::Reserved => "QuotaReserved",
            ExplanationState::Admitted => "Admitted",
            ExplanationState::Finished => "Finished",
            ExplanationState::WouldStart => "WouldBeAdmitted",
            ExplanationState::WouldPreempt => "WouldPreempt",
            ExplanationState::WouldWait => "WouldWait",
        }
    }

    fn words(self) -> &'static str {
        match self {
            ExplanationState::Pending => "pending",
            ExplanationState::Held => "on hold",
            ExplanationState::Reserved => "quota reserved, not admitted",
            ExplanationState::Admitted => "admitted",
            ExplanationState::Finished => "finished",
            ExplanationState::WouldStart => "it would be admitted at once",
            ExplanationState::WouldPreempt => "it would be admitted after preemption",
            ExplanationState::WouldWait => "it would be pending",
        }
    }
}

/// A Workload that would be preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PotentialVictim {
    pub workload: WorkloadName,
    pub words: Text,
}

/// The explanation of one Workload.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Explanation {
    pub workload: WorkloadName,
    pub state: ExplanationState,
    /// The LocalQueue it names.
    pub local_queue: Text,
    /// Empty if the LocalQueue does not exist.
    pub cluster_queue: Text,
    pub reason: Text,
    pub message: String,
    /// Queue positions, if it is queued.
    pub position: Option<QueuePositions>,
    /// Results by pod set.
    pub sets: Vec<PodSetVerdict>,
    /// Workloads that use the missing quota, largest first.
    pub holders: Vec<QuotaHolder>,
    /// Number of further holders.
    pub more_holders: u32,
    /// Policies that prevent preemption.
    pub impossible_preemptions: Vec<ImpossiblePreemption>,
    /// Time of the last nomination.
    pub evaluated_at: Option<Time>,
    /// Victims of a dry run.
    pub potential_victims: Vec<PotentialVictim>,
    pub estimate: Option<WaitEstimate>,
    /// Why there is no estimate; empty if none is expected.
    pub no_estimate: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePositions {
    /// Among those of its LocalQueue.
    pub in_local_queue: u32,
    /// Among those of its ClusterQueue.
    pub in_cluster_queue: u32,
}

/// The flavors evaluated for one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodSetVerdict {
    pub name: Text,
    /// How many pods it has.
    pub count: u32,
    /// In the order in which they were tried.
    pub flavors: Vec<FlavorResult>,
}

/// The result of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorResult {
    pub flavor: Text,
    pub verdict: FlavorVerdict,
    pub resources: Vec<ResourceVerdict>,
}

/// The result of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlavorVerdict {
    Fits,
    /// Fits with quota borrowed from the cohort.
    FitsByBorrowing,
    /// Fits once the preempted Workloads have released their quota.
    WaitsForPreempted {
        /// How many have to go.
        victims: u32,
    },
    /// The quota is in use.
    NoRoom,
    /// The quota is in use, and preemption has no candidates.
    NobodyToPreempt,
    /// Exceeds the maximum quota.
    TooBig,
    /// The flavor does not match the pods; the engine's message.
    Unsuitable(Text),
}

impl FlavorVerdict {
    /// The value in the API.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            FlavorVerdict::Fits => "Fits",
            FlavorVerdict::FitsByBorrowing => "FitsByBorrowing",
            FlavorVerdict::WaitsForPreempted { .. } => "WaitsForPreempted",
            FlavorVerdict::NoRoom => "NoRoom",
            FlavorVerdict::NobodyToPreempt => "NobodyToPreempt",
            FlavorVerdict::TooBig => "TooBig",
            FlavorVerdict::Unsuitable(_) => "Unsuitable",
        }
    }
}

impl fmt::Display for FlavorVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlavorVerdict::Fits => f.write_str("fits"),
            FlavorVerdict::FitsByBorrowing => f.write_str("fits by borrowing from the cohort"),
            FlavorVerdict::WaitsForPreempted { victims: 1 } => {
                f.write_str("waits for 1 preempted workload to end")
            }
            FlavorVerdict::WaitsForPreempted { victims } => {
                write!(f, "waits for {victims} preempted workloads to end")
            }
            FlavorVerdict::NoRoom => f.write_str("quota in use"),
            FlavorVerdict::NobodyToPreempt => f.write_str("quota in use, and preemption is not possible"),
            FlavorVerdict::TooBig => f.write_str("exceeds the maximum quota"),
            FlavorVerdict::Unsuitable(words) => f.write_str(words),
        }
    }
}

/// One flavor-resource, in engine units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceVerdict {
    pub resource: Text,
    /// Requested, including earlier pod sets.
    pub requested: i64,
    /// Free for it now.
    pub available: i64,
    /// The most the ClusterQueue could ever use.
    pub maximum: i64,
}

impl ResourceVerdict {
    /// How much is missing now.
    #[must_use]
    pub fn shortfall(&self) -> i64 {
        self.requested.saturating_sub(self.available.max(0)).max(0)
    }
}

/// A Workload that uses missing quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuotaHolder {
    pub workload: WorkloadName,
    /// The queue it is admitted in.
    pub cluster_queue: Text,
    pub flavor: Text,
    pub resource: Text,
    pub amount: i64,
}

/// A preemption policy that yields no victims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpossiblePreemption {
    /// The field, such as `preemption.withinClusterQueue`.
    pub policy: &'static str,
    /// Its value (`Never`), or the engine's message.
    pub words: Text,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitEstimate {
    pub wait: Duration,
    pub basis: EstimateBasis,
}

/// The basis of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EstimateBasis {
    /// The maximum execution times of the quota holders.
    RunTimeLimits,
    /// The waits of recently admitted Workloads.
    PastWaits {
        /// How many of them.
        samples: u32,
    },
    Backoff,
}

impl EstimateBasis {
    fn word(self) -> &'static str {
        match self {
            EstimateBasis::RunTimeLimits => "RunTimeLimits",
            EstimateBasis::PastWaits { .. } => "PastWaits",
            EstimateBasis::Backoff => "Backoff",
        }
    }
}

impl fmt::Display for EstimateBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EstimateBasis::RunTimeLimits => f.write_str("maximum execution times of the quota holders"),
            EstimateBasis::PastWaits { samples } => write!(f, "waits of the last {samples} workloads"),
            EstimateBasis::Backoff => f.write_str("requeue backoff"),
        }
    }
}

/// Whether the caller may see a namespace.
pub type NamespaceFilter<'a> = &'a dyn Fn(&str) -> bool;

/// The explanation as an API object.
#[must_use]
pub fn to_tree(of: &Explanation, may_see: NamespaceFilter<'_>) -> Tree {
    let (named, hidden) = shown(of, may_see);
    let mut out = tree!({
        "workload": {"namespace": &of.workload.0, "name": &of.workload.1}, "state": of.state.word(),
        "localQueue": &of.local_queue, "clusterQueue": &of.cluster_queue,
        "reason": &of.reason, "message": of.message.as_str(),
        "podSets": Tree::list(of.sets.iter().map(set_data)),
        "holders": Tree::list(named.into_iter().map(holder_data)),
        "holdersNotShown": hidden,
        "impossiblePreemptions": Tree::list(of.impossible_preemptions.iter().map(|it|
            tree!({"policy": it.policy, "message": &it.words}))),
    });
    if let Some(at) = of.position {
        out = out.with(&["positionInLocalQueue"], i64::from(at.in_local_queue));
        out = out.with(&["positionInClusterQueue"], i64::from(at.in_cluster_queue));
    }
    if let Some(at) = of.evaluated_at {
        out = out.with(&["lastEvaluationTime"], at.to_seconds_text().as_str());
    }
    let departs: Vec<&PotentialVictim> =
        of.potential_victims.iter().filter(|it| may_see(&it.workload.0)).collect();
    if !of.potential_victims.is_empty() {
        let hidden = i64::try_from(of.potential_victims.len() - departs.len()).unwrap_or(i64::MAX);
        out = out.with(&["preempts"], Tree::list(departs.into_iter().map(departure_data)));
        out = out.with(&["preemptsNotShown"], hidden);
    }
    match (of.estimate, of.no_estimate) {
        (Some(it), _) => out.with(
            &["estimatedWait"],
            tree!({"seconds": secs(it.wait), "basis": it.basis.word(), "message": it.basis.to_string().as_str()}),
        ),
        (None, "") => out,
        (None, why) => out.with(&["estimatedWait"], tree!({"seconds": null, "basis": "", "message": why})),
    }
}

fn departure_data(it: &PotentialVictim) -> Tree {
    tree!({"namespace": &it.workload.0, "name": &it.workload.1, "message": &it.words})
}

fn set_data(set: &PodSetVerdict) -> Tree {
    tree!({"name": &set.name, "count": i64::from(set.count),
        "flavors": Tree::list(set.flavors.iter().map(flavor_data))})
}

fn flavor_data(it: &FlavorResult) -> Tree {
    let resources = it.resources.iter().map(|one| {
        let text = |n: i64| amount_text(&one.resource, n);
        tree!({"name": &one.resource, "requested": text(one.requested).as_str(),
            "available": text(one.available).as_str(), "maximum": text(one.maximum).as_str(),
            "shortfall": text(one.shortfall()).as_str()})
    });
    tree!({"name": &it.flavor, "verdict": it.verdict.word(), "message": it.verdict.to_string().as_str(),
        "resources": Tree::list(resources)})
}

fn holder_data(it: &QuotaHolder) -> Tree {
    tree!({"namespace": &it.workload.0, "name": &it.workload.1, "clusterQueue": &it.cluster_queue,
        "flavor": &it.flavor, "resource": &it.resource, "amount": amount_text(&it.resource, it.amount).as_str()})
}

/// The holders the caller may see, and the number of others.
fn shown<'a>(of: &'a Explanation, may_see: NamespaceFilter<'_>) -> (Vec<&'a QuotaHolder>, i64) {
    let named: Vec<&QuotaHolder> =
        of.holders.iter().filter(|it| may_see(&it.workload.0)).take(HOLDERS_MAX).collect();
    // Hidden and unlisted holders are one number: it does not reveal which namespace they are in.
    let hidden = of.holders.len() - named.len();
    let hidden = i64::try_from(hidden).unwrap_or(i64::MAX).saturating_add(of.more_holders.into());
    (named, hidden)
}

/// The explanation as lines of text, as `muster why` prints it.
#[must_use]
pub fn to_lines(of: &Explanation, may_see: NamespaceFilter<'_>, now: Time) -> Vec<String> {
    let mut out = vec![match (of.reason.as_str(), of.message.as_str()) {
        ("", "") => of.state.words().to_owned(),
        ("", message) => format!("{}: {message}", of.state.words()),
        (reason, message) => format!("{reason}: {message}"),
    }];
    out.push(queue_line(of));
    for set in &of.sets {
        let pods = if set.count == 1 { "pod" } else { "pods" };
        out.push(format!("pod set {} ({} {pods}):", set.name, set.count));
        out.extend(set.flavors.iter().flat_map(flavor_lines));
    }
    let (named, hidden) = shown(of, may_see);
    if !of.holders.is_empty() {
        out.push("the quota is held by:".to_owned());
        out.extend(named.into_iter().map(holder_line));
    }
    if hidden > 0 {
        out.push(format!("  and {hidden} more that are not shown"));
    }
    for it in &of.impossible_preemptions {
        out.push(format!("nobody is preempted by {}: {}", it.policy, it.words));
    }
    if let Some(at) = of.evaluated_at {
        out.push(format!("last evaluated {}s ago", secs(now.since(at))));
    }
    let departs = of.potential_victims.iter().filter(|it| may_see(&it.workload.0));
    out.extend(departs.map(|it| format!("would preempt {}/{}: {}", it.workload.0, it.workload.1, it.words)));
    match (of.estimate, of.no_estimate) {
        (Some(it), _) => out.push(format!("estimated wait {}s, by the {}", secs(it.wait), it.basis)),
        (None, "") => {}
        (None, why) => out.push(format!("estimated wait unknown: {why}")),
    }
    out
}

fn queue_line(of: &Explanation) -> String {
    let queue = if of.cluster_queue.is_empty() { "no ClusterQueue" } else { &of.cluster_queue };
    match of.position {
        Some(at) => format!(
            "number {} in LocalQueue {}, number {} in ClusterQueue {queue}",
            u64::from(at.in_local_queue) + 1,
            of.local_queue,
            u64::from(at.in_cluster_queue) + 1
        ),
        None => format!("LocalQueue {}, ClusterQueue {queue}", of.local_queue),
    }
}

fn flavor_lines(it: &FlavorResult) -> Vec<String> {
    let mut out = vec![format!("  flavor {}: {}", it.flavor, it.verdict)];
    out.extend(it.resources.iter().map(|one| {
        let text = |n: i64| amount_text(&one.resource, n);
        format!(
            "    {}: {} asked for, {} available, {} at most, {} missing",
            one.resource,
            text(one.requested),
            text(one.available),
            text(one.maximum),
            text(one.shortfall())
        )
    }));
    out
}

fn holder_line(it: &QuotaHolder) -> String {
    let (namespace, name) = &it.workload;
    let how_much = amount_text(&it.resource, it.amount);
    format!(
        "  {namespace}/{name} in ClusterQueue {}: {how_much} {} of {}",
        it.cluster_queue, it.resource, it.flavor
    )
}

fn secs(wait: Duration) -> i64 {
    i64::try_from(wait.as_secs()).unwrap_or(i64::MAX)
}
