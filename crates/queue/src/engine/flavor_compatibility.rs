//! Whether the pods of a pod set can run on the nodes of a flavor, by taints and node affinity.

use std::collections::BTreeMap;

use muster_api::node::{Taint, TaintEffect};
use muster_tree::Text;

use super::spec::FlavorSpec;
use super::workload::{FlavorNodeRequirements, NodeSelectorOperator, NodeSelectorRequirement, PodSetSpec};

/// Returns why a flavor does not match a pod set, as Kueue prints it.
#[must_use]
pub fn refusal(flavor: &FlavorSpec, set: &PodSetSpec) -> Option<String> {
    let name = &flavor.name;
    if let Some(Taint { key, value, effect }) = untolerated_taint(flavor, set) {
        return Some(format!("untolerated taint {{{key} {value} {effect:?} <nil>}} in flavor {name}"));
    }
    let wanted = matches_node_affinity(&set.affinity, &flavor.labels);
    (!wanted).then(|| format!("flavor {name} doesn't match node affinity"))
}

/// The first `NoSchedule` or `NoExecute` taint that neither the pods nor the flavor tolerate.
fn untolerated_taint<'a>(flavor: &'a FlavorSpec, set: &PodSetSpec) -> Option<&'a Taint> {
    let tolerated = |taint: &Taint| {
        let mut all = set.tolerations.iter().chain(&flavor.tolerations);
        all.any(|toleration| toleration.tolerates(taint))
    };
    let hard = |taint: &&Taint| match taint.effect {
        TaintEffect::NoSchedule | TaintEffect::NoExecute => true,
        TaintEffect::PreferNoSchedule => false,
    };
    flavor.taints.iter().filter(hard).find(|taint| !tolerated(taint))
}

/// Only label keys that the flavor sets are checked: the nodes may have any other label.
fn matches_node_affinity(affinity: &FlavorNodeRequirements, labels: &BTreeMap<Text, Text>) -> bool {
    let selected =
        affinity.selector.iter().all(|(key, want)| labels.get(key).is_none_or(|have| have == want));
    let term = |term: &Vec<NodeSelectorRequirement>| {
        term.iter().filter(|e| labels.contains_key(&e.key)).all(|e| matches_requirement(e, labels))
    };
    selected && (affinity.terms.is_empty() || affinity.terms.iter().any(term))
}

fn matches_requirement(expression: &NodeSelectorRequirement, labels: &BTreeMap<Text, Text>) -> bool {
    let value = labels.get(&expression.key);
    let listed = value.is_some_and(|value| expression.values.contains(value));
    let numbers = || {
        let own = value?.parse::<i64>().ok()?;
        Some((own, expression.values.first()?.parse::<i64>().ok()?))
    };
    match expression.operator {
        NodeSelectorOperator::In => listed,
        NodeSelectorOperator::NotIn => !listed,
        NodeSelectorOperator::Exists => value.is_some(),
        NodeSelectorOperator::DoesNotExist => value.is_none(),
        NodeSelectorOperator::Gt => numbers().is_some_and(|(own, than)| own > than),
        NodeSelectorOperator::Lt => numbers().is_some_and(|(own, than)| own < than),
    }
}
