//! What a pod asks of the node itself: selector, node affinity, tolerations.

use muster_api::node::{Effect, NodeFacts, Taint};
use muster_api::node_terms::{Term, Terms};
use muster_api::paths::{node_preference, pod};
use muster_api::toleration::Toleration;
use muster_api::words::taints;
use muster_tree::{Text, Tree};

use crate::label;

/// What a pod asks of the node itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Site {
    selector: Vec<(Text, Text)>,
    /// Any of these terms must match; `None` when there is no required affinity.
    terms: Option<Terms>,
    preferences: Vec<(i64, Term)>,
    tolerations: Vec<Toleration>,
}

/// Which nodes the required affinity names one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// It does not.
    Any,
    /// These; sorted.
    Only(Vec<Text>),
    /// Every term contradicts itself.
    Nobody,
}

impl Site {
    /// Reads a Pod.
    #[must_use]
    pub fn of(tree: &Tree) -> Site {
        let preference = |item: &Tree| {
            let weight = item.int_at(node_preference::WEIGHT).unwrap_or(0);
            (weight, item.at(node_preference::TERM).map(Term::of).unwrap_or_default())
        };
        let terms = tree.at(pod::NODE_AFFINITY).map(Terms::of);
        Site {
            selector: label::read(tree.entries_at(pod::NODE_SELECTOR)),
            terms,
            preferences: tree.items_at(pod::NODE_PREFERENCES).iter().map(preference).collect(),
            tolerations: Toleration::all_of(tree),
        }
    }

    /// Whether it asks nothing of a node without taints.
    #[must_use]
    pub fn is_bland(&self) -> bool {
        self.selector.is_empty() && self.terms.is_none() && self.preferences.is_empty()
    }

    /// Whether the pod puts up with the node being cordoned.
    #[must_use]
    pub fn accepts_cordon(&self) -> bool {
        self.tolerates(&Taint {
            key: taints::UNSCHEDULABLE.into(),
            value: Text::new(),
            effect: Effect::NoSchedule,
        })
    }

    /// Whether no taint of the node keeps the pod away.
    #[must_use]
    pub fn accepts_taints(&self, node: &NodeFacts) -> bool {
        let hard = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule;
        node.taints.iter().filter(hard).all(|taint| self.tolerates(taint))
    }

    /// Whether the selector and the required affinity match.
    #[must_use]
    pub fn matches(&self, node: &NodeFacts) -> bool {
        let selected = self.selector.iter().all(|(k, v)| label::find(&node.labels, k) == Some(v));
        selected && self.terms.as_ref().is_none_or(|terms| terms.matches(node))
    }

    /// How many soft taints the pod does not tolerate.
    #[must_use]
    pub fn soft_taints(&self, node: &NodeFacts) -> i64 {
        let soft = |taint: &&Taint| taint.effect == Effect::PreferNoSchedule && !self.tolerates(taint);
        i64::try_from(node.taints.iter().filter(soft).count()).unwrap_or(i64::MAX)
    }

    /// The weights of the preferences that match.
    #[must_use]
    pub fn preference(&self, node: &NodeFacts) -> i64 {
        let matching = self.preferences.iter().filter(|(_, term)| term.matches(node));
        matching.map(|(weight, _)| weight).sum()
    }

    /// The nodes that the required affinity names, if every term names some.
    #[must_use]
    pub fn named(&self) -> Named {
        match self.terms.as_ref().and_then(Terms::named) {
            None => Named::Any,
            Some(names) if names.is_empty() => Named::Nobody,
            Some(names) => Named::Only(names),
        }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|it| it.tolerates(taint))
    }
}
