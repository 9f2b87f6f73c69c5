//! Why a Workload waits: what the engine found, as data for programs and as sentences for people.
//!
//! # Invariants
//!
//! - Nothing here computes quota: every number is one the decision itself was made with.
//! - Whoever may not see a namespace learns that somebody there holds quota, never who.

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use muster_api::queue::amount_text;
use muster_api::time::Time;
use muster_tree::{Text, Tree, tree};

/// The most holders of quota that are named; the rest is counted.
pub const HOLDERS_MAX: usize = 10;

/// A Workload by namespace and name.
pub type Name = (Text, Text);

/// Where a Workload stands, or would stand if it were there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// It waits for quota.
    #[default]
    Pending,
    /// It is held back: by itself, or by its user.
    Held,
    /// It has quota and may not run yet.
    Reserved,
    /// It may run.
    Admitted,
    /// It has ended.
    Finished,
    /// It would get quota at once.
    WouldStart,
    /// It would get quota once others have gone for it.
    WouldPreempt,
    /// It would wait.
    WouldWait,
}

impl Standing {
    /// The word that programs read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Standing::Pending => "Pending",
            Standing::Held => "Held",
            Standing::Reserved => "QuotaReserved",
            Standing::Admitted => "Admitted",
            Standing::Finished => "Finished",
            Standing::WouldStart => "WouldBeAdmitted",
            Standing::WouldPreempt => "WouldPreempt",
            Standing::WouldWait => "WouldWait",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Standing::Pending => "it waits",
            Standing::Held => "it is held back",
            Standing::Reserved => "it has quota and may not run yet",
            Standing::Admitted => "it may run",
            Standing::Finished => "it has ended",
            Standing::WouldStart => "it would be admitted at once",
            Standing::WouldPreempt => "it would be admitted once others have gone for it",
            Standing::WouldWait => "it would wait",
        }
    }
}

/// Somebody who would have to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Departure {
    /// The Workload.
    pub workload: Name,
    /// Why.
    pub words: Text,
}

/// What the engine knows of one Workload, above all of one that is pending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pending {
    /// Namespace and name.
    pub workload: Name,
    /// Where it stands.
    pub standing: Standing,
    /// The LocalQueue it names.
    pub local_queue: Text,
    /// The ClusterQueue behind that; empty when there is none.
    pub cluster_queue: Text,
    /// Reason of `QuotaReserved`.
    pub reason: Text,
    /// Its message.
    pub message: String,
    /// Where it stands, if it is queued.
    pub position: Option<Position>,
    /// What was tried for each pod set.
    pub sets: Vec<SetVerdict>,
    /// Who has the quota it lacks, the one with the most first.
    pub holders: Vec<Holder>,
    /// How many more there are that the engine did not name.
    pub more_holders: u32,
    /// Why nobody is preempted for it.
    pub barred: Vec<Barred>,
    /// When it was last looked at.
    pub evaluated_at: Option<Time>,
    /// Who would have to go for it.
    pub departs: Vec<Departure>,
    /// How long it may still take.
    pub estimate: Option<Estimate>,
    /// Why that is not known; empty when nobody would ask.
    pub no_estimate: &'static str,
}

/// Places in queues, the first is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Among those of its LocalQueue.
    pub in_local_queue: u32,
    /// Among those of its ClusterQueue.
    pub in_cluster_queue: u32,
}

/// What was tried for one pod set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetVerdict {
    /// The pod set.
    pub name: Text,
    /// How many pods it has.
    pub count: u32,
    /// The flavors, in the order they were tried.
    pub flavors: Vec<FlavorVerdict>,
}

/// What came of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlavorVerdict {
    /// The flavor.
    pub flavor: Text,
    /// What came of it.
    pub verdict: Verdict,
    /// The resources that were asked of it.
    pub resources: Vec<ResourceVerdict>,
}

/// What came of one flavor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// There is room.
    Fits,
    /// There is room that belongs to others of the cohort.
    FitsByBorrowing,
    /// There will be room once others have gone.
    WaitsForPreempted {
        /// How many have to go.
        victims: u32,
    },
    /// There is no room now.
    NoRoom,
    /// There is no room, and nobody may be preempted.
    NobodyToPreempt,
    /// There never is that much.
    TooBig,
    /// Its nodes do not suit the pods, in the engine's words.
    Unsuitable(Text),
}

impl Verdict {
    /// The word that programs read.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Fits => "Fits",
            Verdict::FitsByBorrowing => "FitsByBorrowing",
            Verdict::WaitsForPreempted { .. } => "WaitsForPreempted",
            Verdict::NoRoom => "NoRoom",
            Verdict::NobodyToPreempt => "NobodyToPreempt",
            Verdict::TooBig => "TooBig",
            Verdict::Unsuitable(_) => "Unsuitable",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Fits => f.write_str("fits"),
            Verdict::FitsByBorrowing => f.write_str("fits by borrowing from the cohort"),
            Verdict::WaitsForPreempted { victims: 1 } => f.write_str("waits for 1 preempted workload to end"),
            Verdict::WaitsForPreempted { victims } => {
                write!(f, "waits for {victims} preempted workloads to end")
            }
            Verdict::NoRoom => f.write_str("no room now"),
            Verdict::NobodyToPreempt => f.write_str("no room now, and nobody may be preempted"),
            Verdict::TooBig => f.write_str("asks for more than there ever is"),
            Verdict::Unsuitable(words) => f.write_str(words),
        }
    }
}

/// One resource of one flavor, in millicores or whole units.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceVerdict {
    /// The resource.
    pub resource: Text,
    /// Asked for, with what pod sets before it took.
    pub requested: i64,
    /// Free for it now.
    pub available: i64,
    /// The most it could ever get.
    pub maximum: i64,
}

impl ResourceVerdict {
    /// How much is missing now.
    #[must_use]
    pub fn shortfall(&self) -> i64 {
        self.requested.saturating_sub(self.available.max(0)).max(0)
    }
}

/// Somebody who has quota that another waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The Workload.
    pub workload: Name,
    /// The queue it is admitted in.
    pub cluster_queue: Text,
    /// Of what.
    pub flavor: Text,
    /// Of what.
    pub resource: Text,
    /// How much.
    pub amount: i64,
}

/// A preemption that may not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barred {
    /// The field that forbids it, such as `preemption.withinClusterQueue`.
    pub policy: &'static str,
    /// What it says, or whom it lacks: `Never`, or words of the engine.
    pub words: Text,
}

/// How long it may still take, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// How long.
    pub wait: Duration,
    /// From what.
    pub basis: Basis,
}

/// What an estimate rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The run-time limits of those who hold the quota.
    RunTimeLimits,
    /// How long the last ones waited.
    PastWaits {
        /// How many of them.
        samples: u32,
    },
    /// Its own backoff.
    Backoff,
}

impl Basis {
    fn word(self) -> &'static str {
        match self {
            Basis::RunTimeLimits => "RunTimeLimits",
            Basis::PastWaits { .. } => "PastWaits",
            Basis::Backoff => "Backoff",
        }
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Basis::RunTimeLimits => f.write_str("run-time limits of those who hold the quota"),
            Basis::PastWaits { samples } => write!(f, "waits of the last {samples} workloads"),
            Basis::Backoff => f.write_str("its own backoff"),
        }
    }
}

/// Which namespaces the one who asks may see.
pub type MaySee<'a> = &'a dyn Fn(&str) -> bool;

/// The explanation as data.
#[must_use]
pub fn data(of: &Pending, may_see: MaySee<'_>) -> Tree {
    let (named, hidden) = shown(of, may_see);
    let mut out = tree!({
        "workload": {"namespace": &of.workload.0, "name": &of.workload.1}, "state": of.standing.word(),
        "localQueue": &of.local_queue, "clusterQueue": &of.cluster_queue,
        "reason": &of.reason, "message": of.message.as_str(),
        "podSets": Tree::list(of.sets.iter().map(set_data)),
        "holders": Tree::list(named.into_iter().map(holder_data)),
        "holdersNotShown": hidden,
        "impossiblePreemptions": Tree::list(of.barred.iter().map(|it|
            tree!({"policy": it.policy, "message": &it.words}))),
    });
    if let Some(at) = of.position {
        out = out.with(&["positionInLocalQueue"], i64::from(at.in_local_queue));
        out = out.with(&["positionInClusterQueue"], i64::from(at.in_cluster_queue));
    }
    if let Some(at) = of.evaluated_at {
        out = out.with(&["lastEvaluationTime"], at.to_seconds_text().as_str());
    }
    let departs: Vec<&Departure> = of.departs.iter().filter(|it| may_see(&it.workload.0)).collect();
    if !of.departs.is_empty() {
        let hidden = i64::try_from(of.departs.len() - departs.len()).unwrap_or(i64::MAX);
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

fn departure_data(it: &Departure) -> Tree {
    tree!({"namespace": &it.workload.0, "name": &it.workload.1, "message": &it.words})
}

fn set_data(set: &SetVerdict) -> Tree {
    tree!({"name": &set.name, "count": i64::from(set.count),
        "flavors": Tree::list(set.flavors.iter().map(flavor_data))})
}

fn flavor_data(it: &FlavorVerdict) -> Tree {
    let resources = it.resources.iter().map(|one| {
        let text = |n: i64| amount_text(&one.resource, n);
        tree!({"name": &one.resource, "requested": text(one.requested).as_str(),
            "available": text(one.available).as_str(), "maximum": text(one.maximum).as_str(),
            "shortfall": text(one.shortfall()).as_str()})
    });
    tree!({"name": &it.flavor, "verdict": it.verdict.word(), "message": it.verdict.to_string().as_str(),
        "resources": Tree::list(resources)})
}

fn holder_data(it: &Holder) -> Tree {
    tree!({"namespace": &it.workload.0, "name": &it.workload.1, "clusterQueue": &it.cluster_queue,
        "flavor": &it.flavor, "resource": &it.resource, "amount": amount_text(&it.resource, it.amount).as_str()})
}

/// Holders that may be named, and how many others there are.
fn shown<'a>(of: &'a Pending, may_see: MaySee<'_>) -> (Vec<&'a Holder>, i64) {
    let named: Vec<&Holder> =
        of.holders.iter().filter(|it| may_see(&it.workload.0)).take(HOLDERS_MAX).collect();
    let hidden = of.holders.len() - named.len();
    let hidden = i64::try_from(hidden).unwrap_or(i64::MAX).saturating_add(of.more_holders.into());
    (named, hidden)
}

/// The explanation as lines of text.
#[must_use]
pub fn lines(of: &Pending, may_see: MaySee<'_>, now: Time) -> Vec<String> {
    let mut out = vec![match (of.reason.as_str(), of.message.as_str()) {
        ("", "") => of.standing.words().to_owned(),
        ("", message) => format!("{}: {message}", of.standing.words()),
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
    for it in &of.barred {
        out.push(format!("nobody is preempted by {}: {}", it.policy, it.words));
    }
    if let Some(at) = of.evaluated_at {
        out.push(format!("last looked at {}s ago", secs(now.since(at))));
    }
    let departs = of.departs.iter().filter(|it| may_see(&it.workload.0));
    out.extend(departs.map(|it| format!("would preempt {}/{}: {}", it.workload.0, it.workload.1, it.words)));
    match (of.estimate, of.no_estimate) {
        (Some(it), _) => out.push(format!("may take another {}s, by the {}", secs(it.wait), it.basis)),
        (None, "") => {}
        (None, why) => out.push(format!("how long it takes is not known: {why}")),
    }
    out
}

fn queue_line(of: &Pending) -> String {
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

fn flavor_lines(it: &FlavorVerdict) -> Vec<String> {
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

fn holder_line(it: &Holder) -> String {
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
