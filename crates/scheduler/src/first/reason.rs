//! Why a pod found no node.

use std::collections::BTreeMap;
use std::fmt;

use muster_tree::Text;

/// Why one node was not taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It is cordoned.
    Unschedulable,
    /// It has a taint that the pod does not tolerate.
    UntoleratedTaint,
    /// It does not match the pod's selector or required affinity.
    Affinity,
    /// It holds as many pods as it may.
    TooManyPods,
    /// It has too little left of a resource.
    Insufficient(Text),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Unschedulable => f.write_str("node(s) were unschedulable"),
            Reason::UntoleratedTaint => f.write_str("node(s) had untolerated taint(s)"),
            Reason::Affinity => f.write_str("node(s) didn't match Pod's node affinity/selector"),
            Reason::TooManyPods => f.write_str("Too many pods"),
            Reason::Insufficient(resource) => write!(f, "Insufficient {resource}"),
        }
    }
}

/// Why no node was taken: how many nodes fell to which reason. A node may fall to several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// How many nodes there are.
    pub nodes: usize,
    /// How many fell to each reason.
    pub tally: BTreeMap<Reason, usize>,
}

impl Refused {
    /// The sentence for the condition and the event.
    #[must_use]
    pub fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut words: Vec<String> =
            self.tally.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        words.sort();
        format!("0/{} nodes are available: {}.", self.nodes, words.join(", "))
    }
}
