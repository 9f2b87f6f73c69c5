//! Requests and limits of a pod.

use std::collections::{BTreeMap, BTreeSet};

use muster_tree::{Text, Tree};

use super::{Amounts, add, of_tree};

/// Resources that every container must specify when a quota constrains them.
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];

/// Whether a resource can be specified at pod level.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Whether the pod has pod-level resources.
pub(crate) fn has_pod_level(spec: &Tree) -> bool {
    let parts = ["requests", "limits"].map(|part| spec.entries_at(&["resources", part]));
    parts.iter().any(|part| part.iter().any(|(name, _)| is_pod_level(name)))
}

/// Pod-level `requests` or `limits` where set, else those of the containers; plus overhead.
pub(crate) fn totals(spec: &Tree, part: &str) -> Amounts {
    let mut total = of_containers(spec, part);
    let own = of_tree(spec.at(&["resources", part]));
    total.extend(own.into_iter().filter(|(name, _)| is_pod_level(name)));
    let mut overhead = of_tree(spec.get("overhead"));
    if part == "limits" {
        // Overhead does not create a limit.
        overhead.retain(|name, _| total.get(name).is_some_and(|limit| limit.is_positive()));
    }
    add(&mut total, &overhead);
    total
}

/// Sums containers and sidecars; an init container runs beside the sidecars started before it, and the maximum
/// counts.
pub(crate) fn of_containers(spec: &Tree, part: &str) -> Amounts {
    let of = |container: &Tree| of_tree(container.at(&["resources", part]));
    let mut total = Amounts::new();
    for container in spec.items_at(&["containers"]) {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut largest) = (Amounts::new(), Amounts::new());
    for container in spec.items_at(&["initContainers"]) {
        let mut own = of(container);
        if container.str_at(&["restartPolicy"]) == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        at_least(&mut largest, &own);
    }
    at_least(&mut total, &largest);
    total
}

fn at_least(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|has| has.value < amount.value) {
            list.insert(name.clone(), *amount);
        }
    }
}

/// Maps requests and limits to quota resource names.
pub(super) fn named(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut all = Amounts::new();
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(amount) = requests.get(name) {
            all.insert(Text::from(name), *amount);
            all.insert(Text::from(format!("requests.{name}")), *amount);
        }
        if let Some(amount) = limits.get(name) {
            all.insert(Text::from(format!("limits.{name}")), *amount);
        }
    }
    for (name, amount) in requests {
        let huge = name.starts_with("hugepages-");
        if huge {
            all.insert(name.clone(), *amount);
        }
        if huge || (name.contains('/') && !name.contains("kubernetes.io/")) {
            all.insert(Text::from(format!("requests.{name}")), *amount);
        }
    }
    all
}

/// The message if containers do not specify some of `names`.
pub(super) fn unspecified(names: &[&Text], pod: &Tree) -> Option<String> {
    let spec = pod.get("spec")?;
    if has_pod_level(spec) {
        return None;
    }
    let required: Vec<&Text> =
        names.iter().copied().filter(|name| REQUIRED.contains(&name.as_str())).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let all = spec.items_at(&["containers"]).iter().chain(spec.items_at(&["initContainers"]));
    for container in all {
        let part = |part: &str| of_tree(container.at(&["resources", part]));
        let has = named(&part("requests"), &part("limits"));
        for name in required.iter().filter(|name| !has.contains_key(name.as_str())) {
            missing.entry(name).or_default().insert(container.str_at(&["name"]));
        }
    }
    let words = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    let each: Vec<String> = missing.into_iter().map(words).collect();
    (!each.is_empty()).then(|| format!("must specify {}", each.join("; ")))
}
