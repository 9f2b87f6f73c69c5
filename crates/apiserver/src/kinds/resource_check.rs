//! Validation of requests and limits of containers and pods, and of resource names in LimitRanges and quotas.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::selector::label_key_problems;
use muster_tree::{Text, Tree};

use super::FieldErrors;
use super::field_path::FieldPath;
use super::quantity::{Amount, Quantity};
use crate::quota;

const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
/// Quota resources besides counts.
const QUOTA_AMOUNTS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];

/// Whether a name is in the server's own domain.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    let quota_name = format!("requests.{name}");
    !is_native(name) && !name.starts_with("requests.") && label_key_problems(&quota_name).is_empty()
}

/// Whether a resource can be overcommitted: requests below limits.
pub(super) fn is_overcommitted(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

pub(super) fn is_quota_standard(name: &str) -> bool {
    let huge = name.strip_prefix("requests.").unwrap_or(name).starts_with("hugepages-");
    COUNTS.contains(&name) || QUOTA_AMOUNTS.contains(&name) || huge
}

fn is_container_standard(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Validates a resource name.
pub(super) fn resource_name(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let problems = label_key_problems(name);
    let is_known = name.contains('/') || name == "storage" || is_quota_standard(name);
    if problems.is_empty() && !is_known {
        let why = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(at, name, why));
    }
    at.problems(name, problems, errors);
}

/// Validates a container resource name.
pub(super) fn container_name(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    resource_name(name, at, errors);
    if !name.contains('/') {
        if !is_container_standard(name) {
            errors.push(FieldError::invalid(at, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(at, name, "doesn't follow extended resource name standard"));
    }
}

/// Validates a quota resource name.
pub(super) fn quota_name(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    resource_name(name, at, errors);
    if !name.contains('/') && !is_quota_standard(name) {
        errors.push(FieldError::invalid(at, name, "must be a standard resource for quota"));
    }
}

/// Validates a pod-level resource name.
fn pod_name(name: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let before = errors.len();
    resource_name(name, at, errors);
    if errors.len() == before && !quota::is_pod_level(name) {
        errors.push(FieldError::not_supported(at, name, ["cpu", "hugepages-", "memory"]));
    }
}

pub(super) fn amount(name: &str, value: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(quantity) = Quantity::of(value) else {
        return;
    };
    if quantity < Quantity::ZERO {
        errors.push(FieldError::invalid(at, value.clone(), "must be greater than or equal to 0"));
    }
    if (COUNTS.contains(&name) || is_extended(name)) && !quantity.is_whole() {
        errors.push(FieldError::invalid(at, value.clone(), "must be an integer"));
    }
}

/// Validates the resources of a container.
pub(super) fn container(tree: &Tree, at: &FieldPath<'_>, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    requirements(tree, container_name, at, errors);
    claim_names(tree, &at.field("claims"), claims, errors);
}

/// Validates pod-level resources, by themselves and against those of containers.
pub(super) fn pod(spec: &Tree, at: &FieldPath<'_>, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let Some(own) = spec.get("resources") else {
        return;
    };
    let at = at.field("resources");
    if spec.str_at(&["os", "name"]) == "windows" {
        errors.push(FieldError::forbidden(at, "may not be set for a windows pod"));
        return;
    }
    if own.get("claims").is_some() {
        errors.push(FieldError::forbidden(
            at.field("claims"),
            "claims may not be set for Resources at pod-level",
        ));
    }
    requirements(own, pod_name, &at, errors);
    claim_names(own, &at.field("claims"), claims, errors);
    let of_pod = |part: &str| quota::of_tree(own.get(part));
    for (part, words) in [("requests", "requests"), ("limits", "limits")] {
        let list = at.field(part);
        let total = quota::of_containers(spec, part);
        for (name, total) in total.iter().filter(|(name, _)| part == "requests" || is_huge(name)) {
            if let Some(has) = of_pod(part).get(name).filter(|has| total.value > has.value) {
                let why = format!("must be greater than or equal to aggregate container {words} of {total}");
                errors.push(FieldError::invalid(list.key(name), has.to_string(), why));
            }
        }
    }
    let most = of_pod("limits");
    for (i, container) in spec.items_at(&["containers"]).iter().enumerate() {
        for (name, limit) in quota::of_tree(container.at(&["resources", "limits"])) {
            if let Some(most) = most.get(&name).filter(|most| limit.value > most.value) {
                let list = at.field("containers");
                let (item, why) =
                    (list.item(i), format!("must be less than or equal to pod limits of {most}"));
                errors.push(FieldError::invalid(item.key(&name).field("limits"), limit.to_string(), why));
            }
        }
    }
}

fn is_huge(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn requirements(
    tree: &Tree,
    check_name: fn(&str, &FieldPath<'_>, &mut FieldErrors),
    at: &FieldPath<'_>,
    errors: &mut FieldErrors,
) {
    let limits = tree.get("limits").unwrap_or(&Tree::Null);
    for part in ["limits", "requests"] {
        let list = at.field(part);
        for (name, value) in tree.entries_at(&[part]) {
            let place = list.key(name);
            check_name(name, &place, errors);
            amount(name, value, &place, errors);
            if part == "requests" {
                within_limit(name, value, limits.get(name), at, errors);
            }
            if is_huge(name) && !is_of_pages(name, value) {
                let shown = Amount::of(value).map(|amount| amount.to_string()).unwrap_or_default();
                let why = format!("{shown} is not positive integer multiple of {name}");
                errors.push(FieldError::invalid(place, shown, why));
            }
        }
    }
    let names = || ["limits", "requests"].into_iter().flat_map(|part| tree.entries_at(&[part]));
    let is_compute = |(name, _): &(Text, Tree)| matches!(name.as_str(), "cpu" | "memory");
    if names().any(|(name, _)| is_huge(name)) && !names().any(is_compute) {
        errors.push(FieldError::forbidden(at, "HugePages require cpu or memory"));
    }
}

fn within_limit(
    name: &str,
    value: &Tree,
    limit: Option<&Tree>,
    at: &FieldPath<'_>,
    errors: &mut FieldErrors,
) {
    let requests = at.field("requests");
    let (request, most) = (Quantity::of(value), limit.and_then(Quantity::of));
    match limit {
        Some(limit) => {
            let shown = limit.as_str().map_or_else(|| limit.to_json(), str::to_owned);
            if !is_overcommitted(name) && request != most {
                let why = format!("must be equal to {name} limit of {shown}");
                errors.push(FieldError::invalid(requests, value.clone(), why));
            } else if request > most {
                let why = format!("must be less than or equal to {name} limit of {shown}");
                errors.push(FieldError::invalid(requests, value.clone(), why));
            }
        }
        None if !is_overcommitted(name) => {
            let why = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(at.field("limits"), why));
        }
        None => {}
    }
}

/// Whether a huge page quantity is a multiple of the page size.
fn is_of_pages(name: &str, value: &Tree) -> bool {
    let page =
        name.strip_prefix("hugepages-").and_then(Quantity::parse).filter(|page| *page > Quantity::ZERO);
    let (Some(page), Some(amount)) = (page, Quantity::of(value)) else {
        return false;
    };
    amount > Quantity::ZERO && amount.0 % page.0 == 0
}

fn claim_names(tree: &Tree, list: &FieldPath<'_>, claims: &BTreeSet<&str>, errors: &mut FieldErrors) {
    for (i, claim) in tree.items_at(&["claims"]).iter().enumerate() {
        let name = claim.str_at(&["name"]);
        if name.is_empty() {
            list.item(i).field("name").required(errors);
        } else if !claims.contains(name) {
            let all = claims.iter().copied().collect::<Vec<_>>().join(", ");
            let which = if all.is_empty() { "which is empty".to_owned() } else { format!("[{all}]") };
            let mut error = FieldError::not_found(list.item(i), name);
            error.detail = format!("must be one of the names in pod.spec.resourceClaims {which}");
            errors.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn problems(spec: &Tree) -> Vec<String> {
        let mut errors = FieldErrors::new();
        pod(spec, &FieldPath::Root("spec"), &BTreeSet::new(), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn resources_of_a_pod_are_checked_beside_those_of_its_containers() {
        let containers = tree!([
            {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}},
            {"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]);
        for (resources, want) in [
            (tree!({"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}), vec![]),
            (
                tree!({"requests": {"cpu": "-1"}}),
                vec![
                    "spec.resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0",
                    "spec.resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to aggregate container requests of 2",
                ],
            ),
            (
                tree!({"requests": {"cpu": "4"}, "limits": {"cpu": "3"}}),
                vec![
                    "spec.resources.requests: Invalid value: \"4\": must be less than or equal to cpu limit of 3",
                ],
            ),
            (
                tree!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}),
                vec![
                    "spec.resources.requests[cpu]: Invalid value: \"1\": must be greater than or equal to aggregate container requests of 2",
                    "spec.resources.containers[0][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
                    "spec.resources.containers[1][cpu].limits: Invalid value: \"2\": must be less than or equal to pod limits of 1",
                ],
            ),
            (
                tree!({"requests": {"ephemeral-storage": "1"}}),
                vec![
                    "spec.resources.requests[ephemeral-storage]: Unsupported value: \"ephemeral-storage\": supported values: \"cpu\", \"hugepages-\", \"memory\"",
                ],
            ),
            (
                tree!({"claims": [], "limits": {"hugepages-2Mi": "3Mi"}}),
                vec![
                    "spec.resources.claims: Forbidden: claims may not be set for Resources at pod-level",
                    "spec.resources.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
                    "spec.resources: Forbidden: HugePages require cpu or memory",
                ],
            ),
        ] {
            let spec = tree!({"resources": resources, "containers": &containers});
            assert_eq!(problems(&spec), want, "{spec:?}");
        }
    }

    #[test]
    fn names_of_resources() {
        let found = |check: fn(&str, &FieldPath<'_>, &mut FieldErrors), name: &str| {
            let mut errors = FieldErrors::new();
            check(name, &FieldPath::Root("x"), &mut errors);
            errors.into_iter().map(|error| error.detail).collect::<Vec<_>>()
        };
        let unknown = "must be a standard resource type or fully qualified";
        for (name, container, quota) in [
            ("cpu", vec![], vec![]),
            ("example.com/gpu", vec![], vec![]),
            (
                "storage",
                vec!["must be a standard resource for containers"],
                vec!["must be a standard resource for quota"],
            ),
            ("pods", vec!["must be a standard resource for containers"], vec![]),
            (
                "gpu",
                vec![unknown, "must be a standard resource for containers"],
                vec![unknown, "must be a standard resource for quota"],
            ),
            ("requests.example.com/gpu", vec!["doesn't follow extended resource name standard"], vec![]),
        ] {
            assert_eq!(found(container_name, name), container, "{name}");
            assert_eq!(found(quota_name, name), quota, "{name}");
        }
    }
}
