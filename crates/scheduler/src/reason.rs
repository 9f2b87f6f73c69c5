//! Why a pod found no node, and what may change that.

use std::collections::BTreeMap;
use std::fmt;

use muster_api::words::reasons;
use muster_tree::Text;

/// Why one node was not taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The pod's affinity names other nodes.
    NotNamed,
    /// It is cordoned.
    Unschedulable,
    /// It has a taint that the pod does not tolerate.
    UntoleratedTaint,
    /// It does not match the pod's selector or required affinity.
    Affinity,
    /// A port of the host is taken.
    Ports,
    /// It holds as many pods as it may.
    TooManyPods,
    /// It has too little left of a resource.
    Insufficient(Text),
    /// Spreading would be too uneven.
    Spread,
    /// It lacks the label that spreading goes by.
    SpreadLabel,
    /// Pods that must be near are not.
    PodAffinity,
    /// Pods that must not be near are.
    AntiAffinity,
    /// Pods there do not want this one near.
    ExistingAntiAffinity,
    /// Volumes or devices, in the words of their book.
    Claims(Text),
    /// Preemption: nothing that could be evicted would help.
    NotHelpful,
    /// Preemption: nobody there may be evicted.
    NoVictims,
}

/// What may cure a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cures {
    /// A node comes, or its labels, taints or cordon change.
    pub node: bool,
    /// A node has more room.
    pub room: bool,
    /// Other pods come, go or change labels.
    pub pods: bool,
    /// Volumes, devices or claims to them change.
    pub claims: bool,
}

impl Cures {
    /// Either of both.
    #[must_use]
    pub fn or(self, other: Cures) -> Cures {
        Cures {
            node: self.node || other.node,
            room: self.room || other.room,
            pods: self.pods || other.pods,
            claims: self.claims || other.claims,
        }
    }
}

impl Cures {
    /// Everything.
    pub const ANY: Cures = Cures { node: true, room: true, pods: true, claims: true };

    /// Whether one is in both.
    #[must_use]
    pub fn shares(self, other: Cures) -> bool {
        (self.node && other.node)
            || (self.room && other.room)
            || (self.pods && other.pods)
            || (self.claims && other.claims)
    }
}

impl Reason {
    /// What may cure it.
    #[must_use]
    pub fn cures(&self) -> Cures {
        let room = matches!(self, Reason::Ports | Reason::TooManyPods | Reason::Insufficient(_));
        let pods = matches!(
            self,
            Reason::Spread | Reason::PodAffinity | Reason::AntiAffinity | Reason::ExistingAntiAffinity
        );
        Cures { node: true, room, pods, claims: matches!(self, Reason::Claims(_)) }
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

/// How many nodes fell to which reason. A node may fall to several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many fell to each reason.
    pub counts: BTreeMap<Reason, usize>,
    /// What is wrong with the pod whatever the node, instead of the counts.
    pub whole: Option<Text>,
    /// Why no answer could be found, instead of everything else.
    pub broken: Option<Text>,
}

impl Tally {
    /// Counts one node more.
    pub fn add(&mut self, reason: Reason) {
        *self.counts.entry(reason).or_default() += 1;
    }

    /// What may cure it.
    #[must_use]
    pub fn cures(&self) -> Cures {
        let all = self.counts.keys().map(Reason::cures);
        all.fold(
            Cures { node: true, claims: self.whole.is_some() || self.broken.is_some(), ..Cures::default() },
            Cures::or,
        )
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available:", self.nodes)?;
        if let Some(words) = &self.whole {
            return write!(f, " {words}.");
        }
        let mut words: Vec<String> =
            self.counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        words.sort();
        if words.is_empty() { Ok(()) } else { write!(f, " {}.", words.join(", ")) }
    }
}

/// Why no node was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// Node by node.
    pub tally: Tally,
    /// What came of preemption.
    pub preemption: Preemption,
}

/// What came of trying to make room.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Preemption {
    /// It was not tried.
    #[default]
    Untried,
    /// It could not be: what keeps the pod from every node was found before devices were looked at, and then the real
    /// one does not find what it knows of them.
    NotFound,
    /// The pod must not preempt.
    Never,
    /// Victims of an earlier try are still on their way out.
    UnderWay,
    /// It does not help.
    Useless(Tally),
    /// Room will be made.
    Found {
        /// On this node.
        node: Text,
        /// How many pods go.
        victims: usize,
    },
}

impl Refused {
    /// The reason for the condition.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        if self.tally.broken.is_some() { reasons::SCHEDULER_ERROR } else { reasons::UNSCHEDULABLE }
    }

    /// The sentence for the condition and the event.
    #[must_use]
    pub fn message(&self) -> String {
        if let Some(why) = &self.tally.broken {
            return format!("running \"DynamicResources\" filter plugin: {why}");
        }
        if self.tally.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let tally = &self.tally;
        match &self.preemption {
            Preemption::Untried => tally.to_string(),
            Preemption::NotFound => format!("{tally} not found"),
            Preemption::Never => format!("{tally} preemption: not eligible due to preemptionPolicy=Never."),
            Preemption::UnderWay => {
                format!("{tally} preemption: not eligible due to a terminating pod on the nominated node.")
            }
            Preemption::Useless(why) => format!("{tally} preemption: {why}"),
            Preemption::Found { node, victims } => {
                format!(
                    "{tally} preemption: found a potential placement for pod on node {node}, preempting {victims} victims"
                )
            }
        }
    }
}
