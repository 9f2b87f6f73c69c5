//! Fields of Services that the server defaults, keeps or drops, and warnings.
//!
//! # Deliberately absent
//!
//! IPv6 addresses: only headless Services without selector are dual-stack; their endpoints are managed elsewhere.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::FieldErrors;

fn needs_node_ports(spec: &Tree) -> bool {
    matches!(spec.str_at(&["type"]), "NodePort" | "LoadBalancer")
}

/// Whether the Service type is reachable from outside the cluster.
pub(super) fn is_reached_from_outside(spec: &Tree) -> bool {
    needs_node_ports(spec)
        || (spec.str_at(&["type"]) == "ClusterIP" && !spec.items_at(&["externalIPs"]).is_empty())
}

/// Drops fields that the new type does not support and the client did not change.
pub(super) fn without_outlived(new: Tree, old: &Tree) -> Tree {
    let (Some(now), Some(before)) = (new.get("spec"), old.get("spec")) else {
        return new;
    };
    let mut spec = now.clone();
    let drops = |key: &str, fits: &dyn Fn(&Tree) -> bool| {
        fits(before) && !fits(now) && now.get(key) == before.get(key)
    };
    if drops("externalTrafficPolicy", &is_reached_from_outside) {
        spec = spec.without_key("externalTrafficPolicy");
    }
    if drops("allocateLoadBalancerNodePorts", &|spec| spec.str_at(&["type"]) == "LoadBalancer") {
        spec = spec.without_key("allocateLoadBalancerNodePorts");
    }
    let number = |port: &Tree| port.int_at(&["nodePort"]).filter(|number| *number != 0);
    let known: Vec<i64> = before.items_at(&["ports"]).iter().filter_map(number).collect();
    // A node port that the client changed is an error of the client: keep it for validation.
    let all_known = now.items_at(&["ports"]).iter().filter_map(number).all(|number| known.contains(&number));
    if needs_node_ports(before)
        && !needs_node_ports(now)
        && all_known
        && let Some(ports) = now.get("ports")
    {
        spec = spec.with_key("ports", ports.map_items(|_, port| port.without_key("nodePort")));
    }
    let balanced = spec.str_at(&["type"]) == "LoadBalancer";
    let new = new.with_key("spec", spec);
    if balanced || new.at(&["status", "loadBalancer"]).is_none_or(Tree::is_empty) {
        return new;
    }
    new.with(&["status", "loadBalancer"], Tree::empty_map())
}

/// Keeps the node ports that an update leaves out.
pub(super) fn keep_node_ports(new: Tree, old: &Tree) -> Tree {
    let both = [&new, old].iter().all(|tree| tree.get("spec").is_some_and(needs_node_ports));
    let Some(ports) = new.at(&["spec", "ports"]).filter(|_| both) else {
        return new;
    };
    let before = old.items_at(&["spec", "ports"]);
    let ports = ports.map_items(|_, port| {
        let same = before
            .iter()
            .find(|p| p.get("port") == port.get("port") && p.get("protocol") == port.get("protocol"));
        match same.and_then(|p| p.get("nodePort")) {
            Some(number) if port.get("nodePort").is_none() => port.with_key("nodePort", number.clone()),
            _ => port.clone(),
        }
    });
    new.with(&["spec", "ports"], ports)
}

/// Defaults IP families and family policy, or returns the error.
pub(super) fn with_families(tree: &Tree, old: Option<&Tree>) -> Result<Tree, (Tree, FieldErrors)> {
    let (policies, families) = (&["spec", "ipFamilyPolicy"][..], &["spec", "ipFamilies"][..]);
    let free = is_headless(tree) && tree.entries_at(&["spec", "selector"]).is_empty();
    let given = |tree: &Tree| tree.at(policies).cloned().filter(|policy| !policy.is_null());
    let otherwise = if free { "RequireDualStack" } else { "SingleStack" };
    let policy = given(tree).or_else(|| old.and_then(given)).unwrap_or_else(|| Tree::from(otherwise));
    let single = policy.as_str() == Some("SingleStack");
    let mut all = tree.items_at(families).to_vec();
    // Downgrading to single-stack releases the secondary family unless the client lists families itself.
    if single && old.is_some_and(|old| old.items_at(families) == all) {
        all.truncate(1);
    }
    if all.is_empty() {
        all.push(Tree::from("IPv4"));
    }
    if free && !single && all.len() == 1 {
        let other = if all[0].as_str() == Some("IPv4") { "IPv6" } else { "IPv4" };
        all.push(Tree::from(other));
    }
    let errors = if free { FieldErrors::new() } else { family_errors(&policy, &all) };
    let tree = tree.with(policies, policy).with(families, Tree::list(all));
    if errors.is_empty() { Ok(tree) } else { Err((tree, errors)) }
}

fn is_headless(tree: &Tree) -> bool {
    tree.str_at(&["spec", "clusterIP"]) == "None"
}

/// The cluster is single-stack IPv4.
fn family_errors(policy: &Tree, families: &[Tree]) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let place = "spec.ipFamilyPolicy";
    match policy.as_str() {
        Some("SingleStack") if families.len() == 2 => {
            let why =
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
            errors.push(FieldError::invalid(place, policy.clone(), why));
            return errors;
        }
        Some("RequireDualStack") => {
            let why = "this cluster is not configured for dual-stack services";
            errors.push(FieldError::invalid(place, policy.clone(), why));
        }
        _ => {}
    }
    for (i, family) in families.iter().enumerate().filter(|(_, family)| family.as_str() == Some("IPv6")) {
        let place = format!("spec.ipFamilies[{i}]");
        errors.push(FieldError::invalid(place, family.clone(), "not configured on this cluster"));
    }
    errors
}

/// Warnings for a Service.
pub(super) fn warnings(spec: &Tree) -> Vec<String> {
    let kind = spec.str_at(&["type"]);
    let headless = kind == "ClusterIP" && spec.str_at(&["clusterIP"]) == "None";
    let has_external = !spec.items_at(&["externalIPs"]).is_empty();
    let external_name = kind == "ExternalName";
    let close = spec.str_at(&["trafficDistribution"]) == "PreferClose";
    let said = [
        (
            headless && !spec.str_at(&["loadBalancerIP"]).is_empty(),
            "spec.loadBalancerIP is ignored for headless services",
        ),
        (headless && has_external, "spec.externalIPs is ignored for headless services"),
        (
            headless && spec.str_at(&["sessionAffinity"]) != "None",
            "spec.SessionAffinity is ignored for headless services",
        ),
        (
            has_external && !headless && !external_name,
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        ),
        (external_name && has_external, "spec.externalIPs is ignored when spec.type is \"ExternalName\""),
        (
            !external_name && !spec.str_at(&["externalName"]).is_empty(),
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
        ),
        (close, "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\""),
    ];
    said.into_iter().filter(|(is, _)| *is).map(|(_, text)| text.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn families_follow_from_address_selector_and_what_was() {
        let one = (tree!(["IPv4"]), "SingleStack");
        let both = (tree!(["IPv4", "IPv6"]), "RequireDualStack");
        let cases = [
            ("an address", tree!({"clusterIP": "10.0.0.1"}), None, Some(one.clone())),
            (
                "headless with a selector",
                tree!({"clusterIP": "None", "selector": {"a": "b"}}),
                None,
                Some(one),
            ),
            ("headless without one", tree!({"clusterIP": "None"}), None, Some(both.clone())),
            ("what was stays", tree!({"clusterIP": "None"}), Some("RequireDualStack"), Some(both)),
            (
                "one family here",
                tree!({"clusterIP": "None", "selector": {"a": "b"}}),
                Some("RequireDualStack"),
                None,
            ),
        ];
        for (name, spec, before, want) in cases {
            let old = before.map(|policy| tree!({"spec": {"ipFamilyPolicy": policy}}));
            let made = with_families(&tree!({"spec": spec}), old.as_ref()).ok();
            let made = made.map(|tree| {
                (
                    tree.at(&["spec", "ipFamilies"]).cloned(),
                    tree.text_at(&["spec", "ipFamilyPolicy"]).to_string(),
                )
            });
            assert_eq!(made, want.map(|(all, policy)| (Some(all), policy.to_owned())), "{name}");
        }
    }

    #[test]
    fn a_service_that_is_reached_in_an_odd_way_is_warned_of() {
        let cases = [
            (tree!({"type": "ClusterIP", "sessionAffinity": "None"}), 0),
            (tree!({"type": "ClusterIP", "sessionAffinity": "None", "externalIPs": ["192.0.2.1"]}), 1),
            (
                tree!({"type": "ClusterIP", "clusterIP": "None", "sessionAffinity": "ClientIP", "externalIPs": ["192.0.2.1"]}),
                2,
            ),
        ];
        for (spec, count) in cases {
            assert_eq!(warnings(&spec).len(), count, "{spec}");
        }
    }
}
