//! Node requirements of a pod: `nodeSelector`, node affinity and tolerations.

use muster_api::consts::taints;
use muster_api::node::{NodeFacts, Taint, TaintEffect};
use muster_api::node_selector::{NodeSelector, NodeSelectorTerm};
use muster_api::paths::{node_preference, pod};
use muster_api::toleration::Toleration;
use muster_tree::{Text, Tree};

use crate::label;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct NodeRequirements {
    selector: Vec<(Text, Text)>,
    /// Required node affinity: any term must match; `None` if there is none.
    terms: Option<NodeSelector>,
    preferences: Vec<(i64, NodeSelectorTerm)>,
    tolerations: Vec<Toleration>,
}

/// The nodes that required node affinity selects by `metadata.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamedNodes {
    Any,
    Only(Vec<Text>),
    /// Every term is unsatisfiable.
    Unsatisfiable,
}

impl NodeRequirements {
    #[must_use]
    pub fn of(tree: &Tree) -> NodeRequirements {
        let preference = |item: &Tree| {
            let weight = item.int_at(node_preference::WEIGHT).unwrap_or(0);
            (weight, item.at(node_preference::TERM).map(NodeSelectorTerm::of).unwrap_or_default())
        };
        let terms = tree.at(pod::NODE_AFFINITY).map(NodeSelector::of);
        NodeRequirements {
            selector: label::read(tree.entries_at(pod::NODE_SELECTOR)),
            terms,
            preferences: tree.items_at(pod::NODE_PREFERENCES).iter().map(preference).collect(),
            tolerations: Toleration::all_of(tree),
        }
    }

    /// Whether every node without taints passes and scores equally.
    #[must_use]
    pub fn is_unconstrained(&self) -> bool {
        self.selector.is_empty() && self.terms.is_none() && self.preferences.is_empty()
    }

    /// Whether the pod tolerates a cordoned node.
    #[must_use]
    pub fn tolerates_unschedulable(&self) -> bool {
        self.tolerates(&Taint {
            key: taints::UNSCHEDULABLE.into(),
            value: Text::new(),
            effect: TaintEffect::NoSchedule,
        })
    }

    /// Whether the pod tolerates all `NoSchedule` and `NoExecute` taints.
    #[must_use]
    pub fn tolerates_taints(&self, node: &NodeFacts) -> bool {
        let hard = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
        node.taints.iter().filter(hard).all(|taint| self.tolerates(taint))
    }

    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        let selected = self.selector.iter().all(|(k, v)| label::find(&node.labels, k) == Some(v));
        selected && self.terms.as_ref().is_none_or(|terms| terms.matches(node))
    }

    /// The number of `PreferNoSchedule` taints that the pod does not tolerate.
    #[must_use]
    pub fn untolerated_soft_taints(&self, node: &NodeFacts) -> i64 {
        let soft = |taint: &&Taint| taint.effect == TaintEffect::PreferNoSchedule && !self.tolerates(taint);
        i64::try_from(node.taints.iter().filter(soft).count()).unwrap_or(i64::MAX)
    }

    /// The sum of the weights of matching preferences.
    #[must_use]
    pub fn preference(&self, node: &NodeFacts) -> i64 {
        let matching = self.preferences.iter().filter(|(_, term)| term.matches(node));
        matching.map(|(weight, _)| weight).sum()
    }

    /// The nodes selected by name, if every term selects by name.
    #[must_use]
    pub fn named(&self) -> NamedNodes {
        match self.terms.as_ref().and_then(NodeSelector::node_names) {
            None => NamedNodes::Any,
            Some(names) if names.is_empty() => NamedNodes::Unsatisfiable,
            Some(names) => NamedNodes::Only(names),
        }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|it| it.tolerates(taint))
    }
}
