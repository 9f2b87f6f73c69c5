//! What a pod asks of the node itself: selector, node affinity, tolerations.

use muster_api::node::{Effect, NodeFacts, Taint};
use muster_api::paths::{expression, node_preference, node_term, pod};
use muster_api::toleration::Toleration;
use muster_api::words::taints;
use muster_tree::{Text, Tree};

use crate::label;

/// What a pod asks of the node itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Site {
    selector: Vec<(Text, Text)>,
    /// Any of these terms must match; `None` when there is no required affinity.
    terms: Option<Vec<Term>>,
    preferences: Vec<(i64, Term)>,
    tolerations: Vec<Toleration>,
}

type Term = Vec<Expression>;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Expression {
    key: Text,
    operator: Text,
    values: Vec<Text>,
    /// Over `metadata.name` instead of labels.
    field: bool,
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
            (weight, item.at(node_preference::TERM).map(read_term).unwrap_or_default())
        };
        let terms = tree.at(pod::NODE_AFFINITY).map(|terms| terms.items().iter().map(read_term).collect());
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
        selected && self.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| holds(term, node)))
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
        let matching = self.preferences.iter().filter(|(_, term)| holds(term, node));
        matching.map(|(weight, _)| weight).sum()
    }

    /// The nodes that the required affinity names, if every term names some.
    #[must_use]
    pub fn named(&self) -> Named {
        let Some(terms) = self.terms.as_ref().filter(|terms| !terms.is_empty()) else { return Named::Any };
        let mut all: Vec<Text> = Vec::new();
        for term in terms {
            let mut lists = term.iter().filter(|e| e.field && e.operator == "In").map(|e| &e.values);
            let Some(first) = lists.next() else { return Named::Any };
            let rest: Vec<&Vec<Text>> = lists.collect();
            all.extend(first.iter().filter(|name| rest.iter().all(|list| list.contains(name))).cloned());
        }
        all.sort();
        all.dedup();
        if all.is_empty() { Named::Nobody } else { Named::Only(all) }
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|it| it.tolerates(taint))
    }
}

/// A term without expressions matches nothing.
fn holds(term: &Term, node: &NodeFacts) -> bool {
    !term.is_empty() && term.iter().all(|expression| expression.holds(node))
}

impl Expression {
    fn holds(&self, node: &NodeFacts) -> bool {
        let found = if self.field { Some(&node.name) } else { label::find(&node.labels, &self.key) };
        let listed = || found.is_some_and(|value| self.values.contains(value));
        let number = |text: &Text| text.parse::<i64>().ok();
        let compared = |ok: fn(&i64, &i64) -> bool| {
            found.and_then(number).zip(self.values.first().and_then(number)).is_some_and(|(a, b)| ok(&a, &b))
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compared(i64::gt),
            "Lt" => compared(i64::lt),
            _ => false,
        }
    }
}

fn read_term(tree: &Tree) -> Term {
    let labels = tree.items_at(node_term::EXPRESSIONS).iter().map(|item| read_expression(item, false));
    labels.chain(tree.items_at(node_term::FIELDS).iter().map(|item| read_expression(item, true))).collect()
}

fn read_expression(tree: &Tree, field: bool) -> Expression {
    Expression {
        key: tree.text_at(expression::KEY),
        operator: tree.text_at(expression::OPERATOR),
        values: label::texts(tree.items_at(expression::VALUES)),
        field,
    }
}
