//! Why a pod is unschedulable, in kube-scheduler's messages, and the queueing hints that follow from it.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::consts::reasons;
use muster_tree::Text;

/// Why a node is not feasible.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Required node affinity lists other nodes by `metadata.name`.
    NotNamed,
    Unschedulable,
    /// It has an untolerated taint.
    UntoleratedTaint,
    /// It does not match the node selector or required node affinity.
    Affinity,
    /// A host port is in use.
    Ports,
    /// The resource `pods` is exhausted.
    TooManyPods,
    /// A resource is insufficient.
    Insufficient(Text),
    /// `maxSkew` of a topology spread constraint would be exceeded.
    Spread,
    /// It lacks the topology key of a spread constraint.
    SpreadLabel,
    /// Required pod affinity is not satisfied.
    PodAffinity,
    /// Required pod anti-affinity is violated.
    AntiAffinity,
    /// The required anti-affinity of a placed pod is violated.
    ExistingAntiAffinity,
    /// The message of a volume or device plugin.
    Claims(Text),
    /// Preemption: no eviction would help.
    NotHelpful,
    /// Preemption: no pod of lower priority on the node.
    NoVictims,
}

/// The cluster events that may make an unschedulable entry schedulable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueingHints {
    /// A Node is added, or its labels, taints or cordon change.
    pub node: bool,
    /// Resources of a node become free.
    pub room: bool,
    /// Other pods are added or deleted, or their labels change.
    pub pods: bool,
    /// Volumes, devices or claims to them change.
    pub claims: bool,
}

impl QueueingHints {
    #[must_use]
    pub fn or(self, other: QueueingHints) -> QueueingHints {
        QueueingHints {
            node: self.node || other.node,
            room: self.room || other.room,
            pods: self.pods || other.pods,
            claims: self.claims || other.claims,
        }
    }
}

impl QueueingHints {
    pub const ANY: QueueingHints = QueueingHints { node: true, room: true, pods: true, claims: true };

    /// Whether any event is in both.
    #[must_use]
    pub fn intersects(self, other: QueueingHints) -> bool {
        (self.node && other.node)
            || (self.room && other.room)
            || (self.pods && other.pods)
            || (self.claims && other.claims)
    }
}

impl Reason {
    /// The events that may resolve it.
    #[must_use]
    pub fn queueing_hints(&self) -> QueueingHints {
        let room = matches!(self, Reason::Ports | Reason::TooManyPods | Reason::Insufficient(_));
        let pods = matches!(
            self,
            Reason::Spread | Reason::PodAffinity | Reason::AntiAffinity | Reason::ExistingAntiAffinity
        );
        QueueingHints { node: true, room, pods, claims: matches!(self, Reason::Claims(_)) }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match self {
            Reason::NotNamed => "node(s) didn't satisfy plugin(s) [NodeAffinity]",
            Reason::Unschedulable => "node(s) were unschedulable",
            Reason::UntoleratedTaint => "node(s) had untolerated taint(s)",
            Reason::Affinity => "node(s) didn't match Pod's node affinity/selector",
            Reason::Ports => "node(s) didn't have free ports for the requested pod ports",
            Reason::TooManyPods => "Too many pods",
            Reason::Insufficient(resource) => return write!(f, "Insufficient {resource}"),
            Reason::Spread => "node(s) didn't match pod topology spread constraints",
            Reason::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
            Reason::PodAffinity => "node(s) didn't match pod affinity rules",
            Reason::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Reason::ExistingAntiAffinity => "node(s) didn't satisfy existing pods anti-affinity rules",
            Reason::Claims(words) => words,
            Reason::NotHelpful => "Preemption is not helpful for scheduling",
            Reason::NoVictims => "No preemption victims found for incoming pod",
        };
        f.write_str(words)
    }
}

/// The number of nodes per reason. A node may have several reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReasonCounts {
    /// The number of all nodes.
    pub nodes: usize,
    /// The number of nodes by reason.
    pub counts: BTreeMap<Reason, usize>,
    /// The `PreFilter` failure, which replaces the counts.
    pub pre_filter: Option<Text>,
    /// The error of a plugin, which replaces everything else.
    pub error: Option<Text>,
}

impl ReasonCounts {
    pub fn add(&mut self, reason: Reason) {
        *self.counts.entry(reason).or_default() += 1;
    }

    /// The events that may resolve it.
    #[must_use]
    pub fn cures(&self) -> QueueingHints {
        let all = self.counts.keys().map(Reason::queueing_hints);
        all.fold(
            QueueingHints {
                node: true,
                claims: self.pre_filter.is_some() || self.error.is_some(),
                ..QueueingHints::default()
            },
            QueueingHints::or,
        )
    }
}

impl fmt::Display for ReasonCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available:", self.nodes)?;
        if let Some(words) = &self.pre_filter {
            return write!(f, " {words}.");
        }
        let mut words: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        words.sort();
        if words.is_empty() { Ok(()) } else { write!(f, " {}.", words.join(", ")) }
    }
}

/// Why a pod is unschedulable, as kube-scheduler's `FitError`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FitError {
    pub reasons: ReasonCounts,
    pub preemption: PreemptionResult,
}

/// The result of preemption (`PostFilter`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PreemptionResult {
    /// It was not tried.
    #[default]
    NotAttempted,
    /// `PreFilter` failed before `DynamicResources` stored its cycle state: kube-scheduler's `PostFilter` then misses that
    /// state, and its error ends the message with "not found".
    NotFound,
    /// `preemptionPolicy` is `Never`.
    Never,
    /// Victims of an earlier preemption still terminate.
    InProgress,
    NotHelpful(ReasonCounts),
    Found {
        node: Text,
        /// The number of victims.
        victims: usize,
    },
}

impl FitError {
    /// The reason of the `PodScheduled` condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        if self.reasons.error.is_some() { reasons::SCHEDULER_ERROR } else { reasons::UNSCHEDULABLE }
    }

    /// The message of the condition and the event.
    #[must_use]
    pub fn message(&self) -> String {
        if let Some(why) = &self.reasons.error {
            return format!("running \"DynamicResources\" filter plugin: {why}");
        }
        if self.reasons.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let tally = &self.reasons;
        match &self.preemption {
            PreemptionResult::NotAttempted => tally.to_string(),
            PreemptionResult::NotFound => format!("{tally} not found"),
            PreemptionResult::Never => {
                format!("{tally} preemption: not eligible due to preemptionPolicy=Never.")
            }
            PreemptionResult::InProgress => {
                format!("{tally} preemption: not eligible due to a terminating pod on the nominated node.")
            }
            PreemptionResult::NotHelpful(why) => format!("{tally} preemption: {why}"),
            PreemptionResult::Found { node, victims } => {
                format!(
                    "{tally} preemption: found a potential placement for pod on node {node}, preempting {victims} victims"
                )
            }
        }
    }
}
