//! Pod defaults that depend on other fields.

use muster_tree::{Text, Tree, tree};

use super::quantity::Amount;
use crate::quota;

/// Defaults a pod spec, in pods and templates.
pub(super) fn spec(spec: &Tree) -> Tree {
    let host = spec.bool_at(&["hostNetwork"]) == Some(true);
    spec.map_entries(|key, value| {
        Some(match key.as_str() {
            "containers" | "initContainers" => value.map_items(|_, item| container(item, host)),
            "volumes" => value.map_items(|_, item| volume(item)),
            "ephemeralContainers" => value.map_items(|_, item| container(item, false)),
            "serviceAccountName" if value.as_str() == Some("") => return None,
            _ => value.clone(),
        })
    })
}

/// Defaults of pods only, not of templates: requests default to limits.
pub(super) fn requests(pod_spec: &Tree) -> Tree {
    pod_spec.map_entries(|key, value| {
        Some(match key.as_str() {
            "containers" | "initContainers" => value.map_items(|_, item| with_requests(item)),
            _ => value.clone(),
        })
    })
}

/// Defaults pod-level requests and limits from the set ones and from the containers. Applies to pods that have any,
/// and after admission, which may add containers.
pub(super) fn pod_level(spec: &Tree) -> Tree {
    let Some(own) = spec.get("resources") else {
        return spec.clone();
    };
    let has = |part: &str| !own.entries_at(&[part]).is_empty();
    if !has("limits") && !has("requests") {
        return spec.clone();
    }
    let huge = |(name, _): &(Text, Amount)| name.starts_with("hugepages-");
    let mut own = own.clone();
    for (name, limit) in quota::of_containers(spec, "limits").into_iter().filter(huge) {
        if own.at(&["requests", &name]).is_none() && own.at(&["limits", &name]).is_none() {
            own = own.with(&["limits", &name], limit.to_string());
        }
    }
    if !own.entries_at(&["limits"]).is_empty() {
        let requests = quota::of_containers(spec, "requests").into_iter().filter(|it| !huge(it));
        let requests = requests.map(|(name, amount)| (name, Tree::from(amount.to_string())));
        let limits: Vec<_> = own.entries_at(&["limits"]).to_vec();
        for (name, amount) in requests.chain(limits) {
            if quota::is_pod_level(&name) && own.at(&["requests", &name]).is_none() {
                own = own.with(&["requests", &name], amount);
            }
        }
    }
    spec.with_key("resources", own)
}

fn with_requests(container: &Tree) -> Tree {
    let limits = container.entries_at(&["resources", "limits"]);
    let missing = limits.iter().filter(|(name, _)| container.at(&["resources", "requests", name]).is_none());
    missing.fold(container.clone(), |tree, (name, value)| {
        tree.with(&["resources", "requests", name], value.clone())
    })
}

fn container(container: &Tree, host_network: bool) -> Tree {
    let mut tree = container.clone();
    if tree.get("imagePullPolicy").is_none() {
        let policy = if is_latest(tree.str_at(&["image"])) { "Always" } else { "IfNotPresent" };
        tree = tree.with_key("imagePullPolicy", Tree::from(policy));
    }
    if host_network && let Some(ports) = tree.get("ports") {
        let ports = ports.map_items(|_, port| match (port.get("hostPort"), port.get("containerPort")) {
            (None, Some(number)) => port.with_key("hostPort", number.clone()),
            _ => port.clone(),
        });
        tree = tree.with_key("ports", ports);
    }
    tree
}

/// Whether an image has the tag `latest`, or neither tag nor digest.
fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

fn volume(volume: &Tree) -> Tree {
    let bare = volume.entries().iter().all(|(key, _)| key == "name");
    if bare { volume.with_key("emptyDir", tree!({})) } else { volume.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_a_pod_follow_its_containers_then_its_limits() {
        let containers =
            tree!([{"resources": {"requests": {"cpu": "1"}}}, {"resources": {"requests": {"cpu": "500m"}}}]);
        for (own, want) in [
            (
                tree!({"limits": {"cpu": "4", "memory": "1Gi"}}),
                tree!({"limits": {"cpu": "4", "memory": "1Gi"}, "requests": {"cpu": "1500m", "memory": "1Gi"}}),
            ),
            (tree!({"requests": {"cpu": "2"}}), tree!({"requests": {"cpu": "2"}})),
            (tree!({}), tree!({})),
        ] {
            let spec = tree!({"resources": own, "containers": &containers});
            assert_eq!(pod_level(&spec).get("resources"), Some(&want), "{spec:?}");
        }
    }
}
