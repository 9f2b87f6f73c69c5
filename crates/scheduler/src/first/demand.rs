//! What placement looks at in a pod.

use std::collections::BTreeMap;

use muster_api::node::{Effect, NodeFacts, Taint, amounts};
use muster_api::paths::{container, expression, node_term, pod};
use muster_api::toleration::Toleration;
use muster_api::words::{labels, taints};
use muster_tree::{Text, Tree};

use crate::first::reason::Reason;

/// Everything of a pod that decides where it may go. Equal demands are one class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Demand {
    /// What it asks for, `pods: 1` included.
    pub requests: Vec<(Text, i64)>,
    selector: Vec<(Text, Text)>,
    /// Any of these terms must match; `None` when there is no required affinity.
    terms: Option<Vec<Vec<Expression>>>,
    tolerations: Vec<Toleration>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Expression {
    key: Text,
    operator: Text,
    values: Vec<Text>,
    /// Over `metadata.name` instead of labels.
    field: bool,
}

impl Demand {
    /// Reads a Pod.
    #[must_use]
    pub fn of(tree: &Tree) -> Demand {
        let selector = tree.entries_at(pod::NODE_SELECTOR).iter();
        let terms = tree.at(pod::NODE_AFFINITY).map(|terms| terms.items().iter().map(read_term).collect());
        Demand {
            requests: requests(tree),
            selector: selector.filter_map(|(k, v)| Some((k.clone(), v.as_text()?.clone()))).collect(),
            terms,
            tolerations: Toleration::all_of(tree),
        }
    }

    /// What a node itself has against this pod, free amounts aside.
    #[must_use]
    pub fn objection(&self, node: &NodeFacts) -> Option<Reason> {
        if node.unschedulable && !self.tolerates(&cordon()) {
            return Some(Reason::Unschedulable);
        }
        let forbids = |taint: &&Taint| taint.effect != Effect::PreferNoSchedule && !self.tolerates(taint);
        if node.taints.iter().any(|taint| forbids(&taint)) {
            return Some(Reason::UntoleratedTaint);
        }
        (!self.likes(node)).then_some(Reason::Affinity)
    }

    fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations.iter().any(|it| it.tolerates(taint))
    }

    fn likes(&self, node: &NodeFacts) -> bool {
        let selected = self.selector.iter().all(|(key, value)| label(node, key) == Some(value));
        let holds =
            |term: &Vec<Expression>| !term.is_empty() && term.iter().all(|expression| expression.holds(node));
        selected && self.terms.as_ref().is_none_or(|terms| terms.iter().any(holds))
    }
}

impl Expression {
    fn holds(&self, node: &NodeFacts) -> bool {
        let found = if self.field { Some(&node.name) } else { label(node, &self.key) };
        let listed = || found.is_some_and(|value| self.values.contains(value));
        let compared = |ok: fn(i64, i64) -> bool| {
            let number = |text: &Text| text.parse::<i64>().ok();
            let (Some(have), Some(want)) = (found.and_then(number), self.values.first().and_then(number))
            else {
                return false;
            };
            ok(have, want)
        };
        match self.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            "Gt" => compared(|have, want| have > want),
            "Lt" => compared(|have, want| have < want),
            _ => false,
        }
    }
}

fn cordon() -> Taint {
    Taint { key: taints::UNSCHEDULABLE.into(), value: Text::new(), effect: Effect::NoSchedule }
}

fn label<'a>(node: &'a NodeFacts, key: &str) -> Option<&'a Text> {
    let found = node.labels.iter().find(|(k, _)| k == key).map(|(_, value)| value);
    found.or((key == labels::HOSTNAME).then_some(&node.name))
}

fn read_term(tree: &Tree) -> Vec<Expression> {
    let labels = tree.items_at(node_term::EXPRESSIONS).iter().map(|item| read_expression(item, false));
    labels.chain(tree.items_at(node_term::FIELDS).iter().map(|item| read_expression(item, true))).collect()
}

fn read_expression(tree: &Tree, field: bool) -> Expression {
    Expression {
        key: tree.text_at(expression::KEY),
        operator: tree.text_at(expression::OPERATOR),
        values: tree
            .items_at(expression::VALUES)
            .iter()
            .filter_map(|value| value.as_text().cloned())
            .collect(),
        field,
    }
}

/// What a pod asks for: its containers and sidecars together, or its greediest start-up moment, and overhead.
fn requests(tree: &Tree) -> Vec<(Text, i64)> {
    let mut running: BTreeMap<Text, i64> = BTreeMap::new();
    let mut peak: BTreeMap<Text, i64> = BTreeMap::new();
    for item in tree.items_at(pod::INIT_CONTAINERS) {
        let sidecar = item.str_at(container::RESTART_POLICY) == "Always";
        for (name, amount) in amounts(item.entries_at(container::REQUESTS)) {
            let so_far = running.entry(name.clone()).or_default();
            let moment = peak.entry(name).or_default();
            *moment = (*moment).max(*so_far + amount);
            *so_far += if sidecar { amount } else { 0 };
        }
    }
    for item in tree.items_at(pod::CONTAINERS) {
        for (name, amount) in amounts(item.entries_at(container::REQUESTS)) {
            *running.entry(name).or_default() += amount;
        }
    }
    for (name, amount) in peak {
        let sum = running.entry(name).or_default();
        *sum = (*sum).max(amount);
    }
    for (name, amount) in amounts(tree.entries_at(pod::OVERHEAD)) {
        *running.entry(name).or_default() += amount;
    }
    running.insert(Text::from("pods"), 1);
    running.retain(|_, amount| *amount > 0);
    running.into_iter().collect()
}
