//! Whether pods may run on the nodes of a flavor at all.

use std::collections::BTreeMap;

use muster_api::node::{Effect, Taint};
use muster_tree::Text;

use super::spec::FlavorSpec;
use super::workload::{Affinity, Expression, Operator, PodSet};

/// Why a flavor is out of the question for a set of pods, in words; `None` if it is not.
#[must_use]
pub fn refusal(flavor: &FlavorSpec, set: &PodSet) -> Option<String> {
    let name = &flavor.name;
    if let Some(Taint { key, value, effect }) = untolerated(flavor, set) {
        return Some(format!("untolerated taint {{{key} {value} {effect:?} <nil>}} in flavor {name}"));
    }
    let wanted = matches(&set.affinity, &flavor.labels);
    (!wanted).then(|| format!("flavor {name} doesn't match node affinity"))
}

/// The first taint that keeps the pods away.
fn untolerated<'a>(flavor: &'a FlavorSpec, set: &PodSet) -> Option<&'a Taint> {
    let tolerated = |taint: &Taint| {
        let mut all = set.tolerations.iter().chain(&flavor.tolerations);
        all.any(|toleration| toleration.tolerates(taint))
    };
    let hard = |taint: &&Taint| match taint.effect {
        Effect::NoSchedule | Effect::NoExecute => true,
        Effect::PreferNoSchedule => false,
    };
    flavor.taints.iter().filter(hard).find(|taint| !tolerated(taint))
}

/// Looks only at labels that the flavor names: of all others its nodes may have any value.
fn matches(affinity: &Affinity, labels: &BTreeMap<Text, Text>) -> bool {
    let selected =
        affinity.selector.iter().all(|(key, want)| labels.get(key).is_none_or(|have| have == want));
    let term = |term: &Vec<Expression>| {
        term.iter().filter(|e| labels.contains_key(&e.key)).all(|e| holds(e, labels))
    };
    selected && (affinity.terms.is_empty() || affinity.terms.iter().any(term))
}

fn holds(expression: &Expression, labels: &BTreeMap<Text, Text>) -> bool {
    let value = labels.get(&expression.key);
    let listed = value.is_some_and(|value| expression.values.contains(value));
    let numbers = || {
        let own = value?.parse::<i64>().ok()?;
        Some((own, expression.values.first()?.parse::<i64>().ok()?))
    };
    match expression.operator {
        Operator::In => listed,
        Operator::NotIn => !listed,
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => numbers().is_some_and(|(own, than)| own > than),
        Operator::Lt => numbers().is_some_and(|(own, than)| own < than),
    }
}
