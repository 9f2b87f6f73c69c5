//! ResourceQuota: usage of objects, and whether a request fits.
//!
//! # Guarantees
//!
//! - Pure functions of trees and an instant. The engine reads quotas and writes `status.used` (`engine::quota_usage`)
//!   in the transaction of the counted object.
//! - Usage, scopes and messages are those of kube-apiserver's evaluators.
//!
//! # Deliberately absent
//!
//! Required quotas (`limitedResources` of the admission configuration), and extended resources backed by device
//! classes: they never appear in pod requests here.

mod pod;
mod scope;
mod usage;

use std::collections::BTreeMap;

use muster_api::time::Time;
use muster_tree::{Text, Tree};

pub(crate) use pod::{has_pod_level, is_pod_level, of_containers};
pub(crate) use usage::{is_handled, is_overdue};

use crate::kinds::quantity::Amount;
use crate::registry::Resource;

/// Amounts by resource name, as in `status.used`.
pub(crate) type Amounts = BTreeMap<Text, Amount>;

/// Resources that are exempt from quota.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// An object to be counted.
#[derive(Clone, Copy)]
pub(crate) struct CountedObject<'a> {
    pub resource: &'a Resource,
    pub tree: &'a Tree,
    pub now: Time,
}

/// Whether quotas can count this resource.
pub(crate) fn is_counted(resource: &Resource) -> bool {
    resource.namespaced && !IGNORED.contains(&(resource.group.as_str(), resource.plural.as_str()))
}

/// The resource names in a list that count this resource.
pub(crate) fn tracked<'a>(resource: &Resource, amounts: &'a Tree) -> Vec<&'a Text> {
    amounts.entries().iter().map(|(name, _)| name).filter(|name| usage::tracks(resource, name)).collect()
}

/// The usage of an object in a quota; `None` when names or scopes do not match.
pub(crate) fn charge(quota: &Tree, item: &CountedObject<'_>) -> Option<Amounts> {
    let names = tracked(item.resource, hard(quota));
    if names.is_empty() || !scope::matches(quota, item) {
        return None;
    }
    let mut usage = usage::of(item);
    usage.retain(|name, _| names.contains(&name));
    Some(usage)
}

/// Compute resources that a quota requires and a container does not specify, as a message.
pub(crate) fn unspecified(quota: &Tree, item: &CountedObject<'_>) -> Option<String> {
    let is_pod = item.resource.group.is_empty() && item.resource.plural == "pods";
    if !is_pod || !scope::matches(quota, item) {
        return None;
    }
    pod::unspecified(&tracked(item.resource, hard(quota)), item.tree)
}

/// The enforced limits: those of `status.hard`, for which usage was calculated.
pub(crate) fn hard(quota: &Tree) -> &Tree {
    quota.at(&["status", "hard"]).unwrap_or(&Tree::Null)
}

/// Whether usage was calculated for the limits of the spec.
pub(crate) fn is_current(quota: &Tree) -> bool {
    let wanted = quota.at(&["spec", "hard"]).filter(|hard| !hard.is_empty());
    let counted = quota.at(&["status", "hard"]).filter(|hard| !hard.is_empty());
    wanted == counted
}

/// Recalculates usage. `list` returns the objects of a resource in the quota's namespace.
pub(crate) fn recounted<'a>(
    quota: &Tree,
    resources: impl Iterator<Item = &'a Resource>,
    list: impl Fn(&Resource) -> Vec<muster_store::StoredObject>,
    now: Time,
) -> Tree {
    let wanted = quota.at(&["spec", "hard"]).cloned().unwrap_or_else(Tree::empty_map);
    let quota = quota.with(&["status", "hard"], wanted);
    let mut used = Amounts::new();
    for resource in resources.filter(|resource| is_counted(resource)) {
        let names = tracked(resource, hard(&quota));
        if names.is_empty() {
            continue;
        }
        used.extend(names.into_iter().map(|name| (name.clone(), Amount::ZERO)).collect::<Amounts>());
        for object in list(resource) {
            if let Some(charge) = charge(&quota, &CountedObject { resource, tree: &object.tree, now }) {
                add(&mut used, &charge);
            }
        }
    }
    quota.with(&["status", "used"], to_tree(&used))
}

/// Updates `status.used` by the difference of `after` and `before`.
pub(crate) fn charged(quota: &Tree, before: &Amounts, after: &Amounts) -> Tree {
    let mut used = of_tree(quota.at(&["status", "used"]));
    add(&mut used, after);
    for (name, amount) in before {
        let now = used.entry(name.clone()).or_insert(Amount::ZERO);
        // Clamped: `status.used` is writable and may be too low.
        *now = now.minus(*amount).at_least_zero();
    }
    quota.with(&["status", "used"], to_tree(&used))
}

/// The message when `wanted` exceeds a quota and increases usage over `before`.
pub(crate) fn exceeded(quota: &Tree, before: &Amounts, wanted: &Amounts) -> Option<String> {
    let used = of_tree(quota.at(&["status", "used"]));
    let limits = of_tree(Some(hard(quota)));
    let mut over = [Vec::new(), Vec::new(), Vec::new()];
    for (name, amount) in wanted {
        // Only an increase can exceed a quota: shrinking an object over the limit is allowed.
        let more = before.get(name).map_or(*amount, |had| amount.minus(*had));
        let (now, limit) = (used.get(name).copied().unwrap_or(Amount::ZERO), limits.get(name));
        if more.is_positive()
            && let Some(limit) = limit.filter(|limit| now.plus(more).value > limit.value)
        {
            let shown = [more, now, *limit];
            over.iter_mut().zip(shown).for_each(|(list, amount)| list.push(format!("{name}={amount}")));
        }
    }
    let [asked, used, limited] = over.map(|list| list.join(","));
    let name = quota.str_at(&["metadata", "name"]);
    (!asked.is_empty())
        .then(|| format!("exceeded quota: {name}, requested: {asked}, used: {used}, limited: {limited}"))
}

fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let now = sum.entry(name.clone()).or_insert(Amount::ZERO);
        *now = now.plus(*amount);
    }
}

/// Parses a resource list such as `status.used` or `resources.requests`.
pub(crate) fn of_tree(list: Option<&Tree>) -> Amounts {
    let entries = list.map(Tree::entries).unwrap_or_default();
    entries.iter().filter_map(|(name, value)| Some((name.clone(), Amount::of(value)?))).collect()
}

fn to_tree(amounts: &Amounts) -> Tree {
    Tree::map(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string())))
}

#[cfg(test)]
mod tests;
