//! ResourceQuota: what objects count against which quota, and whether a request still fits.
//!
//! # Guarantees
//!
//! - Everything here is a function of trees and an instant. The engine reads quotas and writes `status.used`
//!   (`engine::charge`) in the same transaction as the object that is counted.
//! - Usage, scopes and refusals are those of the evaluators of kube-apiserver.
//!
//! # Deliberately absent
//!
//! Quotas that must exist (`limitedResources` of the admission configuration), and extended resources that device classes
//! provide: no such resource is in a pod's requests here.

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

/// Amounts by the name of the resource, as in `status.used`.
pub(crate) type Amounts = BTreeMap<Text, Amount>;

/// Resources that no quota counts.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// An object as quotas see it.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub resource: &'a Resource,
    pub tree: &'a Tree,
    pub now: Time,
}

/// Whether any quota can count objects of this resource.
pub(crate) fn is_counted(resource: &Resource) -> bool {
    resource.namespaced && !IGNORED.contains(&(resource.group.as_str(), resource.plural.as_str()))
}

/// The names of a list of amounts that count objects of this resource.
pub(crate) fn tracked<'a>(resource: &Resource, amounts: &'a Tree) -> Vec<&'a Text> {
    amounts.entries().iter().map(|(name, _)| name).filter(|name| usage::tracks(resource, name)).collect()
}

/// What an object adds to a quota: nothing when the quota has none of its resources or other scopes.
pub(crate) fn charge(quota: &Tree, item: &Item<'_>) -> Option<Amounts> {
    let names = tracked(item.resource, hard(quota));
    if names.is_empty() || !scope::matches(quota, item) {
        return None;
    }
    let mut usage = usage::of(item);
    usage.retain(|name, _| names.contains(&name));
    Some(usage)
}

/// Compute resources that a quota constrains and a container of this pod does not specify, in words.
pub(crate) fn unspecified(quota: &Tree, item: &Item<'_>) -> Option<String> {
    let is_pod = item.resource.group.is_empty() && item.resource.plural == "pods";
    if !is_pod || !scope::matches(quota, item) {
        return None;
    }
    pod::unspecified(&tracked(item.resource, hard(quota)), item.tree)
}

/// The limits that count now: those that usage was counted for last.
pub(crate) fn hard(quota: &Tree) -> &Tree {
    quota.at(&["status", "hard"]).unwrap_or(&Tree::Null)
}

/// Whether usage has been counted for the limits of the spec.
pub(crate) fn is_current(quota: &Tree) -> bool {
    let wanted = quota.at(&["spec", "hard"]).filter(|hard| !hard.is_empty());
    let counted = quota.at(&["status", "hard"]).filter(|hard| !hard.is_empty());
    wanted == counted
}

/// The quota with usage counted anew. `list` returns the objects of a resource in the quota's namespace.
pub(crate) fn recounted<'a>(
    quota: &Tree,
    resources: impl Iterator<Item = &'a Resource>,
    list: impl Fn(&Resource) -> Vec<muster_store::Object>,
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
            if let Some(charge) = charge(&quota, &Item { resource, tree: &object.tree, now }) {
                add(&mut used, &charge);
            }
        }
    }
    quota.with(&["status", "used"], to_tree(&used))
}

/// The quota after `before` is replaced by `after`: `status.used` changes by the difference.
pub(crate) fn charged(quota: &Tree, before: &Amounts, after: &Amounts) -> Tree {
    let mut used = of_tree(quota.at(&["status", "used"]));
    add(&mut used, after);
    for (name, amount) in before {
        let now = used.entry(name.clone()).or_insert(Amount::ZERO);
        *now = now.minus(*amount).at_least_zero();
    }
    quota.with(&["status", "used"], to_tree(&used))
}

/// The message of the refusal if `wanted` exceeds a quota by more than `before` already does.
pub(crate) fn exceeded(quota: &Tree, before: &Amounts, wanted: &Amounts) -> Option<String> {
    let used = of_tree(quota.at(&["status", "used"]));
    let limits = of_tree(Some(hard(quota)));
    let mut over = [Vec::new(), Vec::new(), Vec::new()];
    for (name, amount) in wanted {
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

/// The amounts of a list such as `status.used` or `resources.requests`.
pub(crate) fn of_tree(list: Option<&Tree>) -> Amounts {
    let entries = list.map(Tree::entries).unwrap_or_default();
    entries.iter().filter_map(|(name, value)| Some((name.clone(), Amount::of(value)?))).collect()
}

fn to_tree(amounts: &Amounts) -> Tree {
    Tree::map(amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string())))
}

#[cfg(test)]
mod tests;
