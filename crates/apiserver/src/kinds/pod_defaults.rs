//! Defaults of pods that depend on other fields.

use muster_tree::{Tree, tree};

/// A pod spec, of a pod or of a template, with what depends on other fields.
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

/// What only pods get, not templates: requests follow limits.
pub(super) fn requests(pod_spec: &Tree) -> Tree {
    pod_spec.map_entries(|key, value| {
        Some(match key.as_str() {
            "containers" | "initContainers" => value.map_items(|_, item| with_requests(item)),
            _ => value.clone(),
        })
    })
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

/// Whether an image names the newest of its kind: by tag, or by having neither tag nor digest.
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
