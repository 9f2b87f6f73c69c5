//! Conversion of ResourceClaims and ResourceSlices: `v1` and `v1beta2` are alike; `v1beta1` has flat requests and
//! nested devices.

use muster_tree::Tree;

use super::with_api_version;
use crate::registry::Resource;

/// Request fields that `v1` has under `exactly`.
const EXACTLY: [&str; 7] =
    ["adminAccess", "allocationMode", "capacity", "count", "deviceClassName", "selectors", "tolerations"];

fn is_flat(resource: &Resource, version: usize) -> bool {
    resource.versions[version].name == "v1beta1"
}

/// Converts a stored claim, or a template with its claim at `spec`, to a version.
pub(super) fn to_wire(resource: &Resource, tree: &Tree, version: usize, spec: &[&str]) -> Tree {
    let tree = with_api_version(tree, &resource.api_version(version));
    if !is_flat(resource, version) {
        return tree;
    }
    requests(&tree, spec, |request| match request.get("exactly") {
        Some(exactly) => {
            let entries = request.without_key("exactly");
            exactly.entries().iter().fold(entries, |tree, (key, value)| tree.with_key(key, value.clone()))
        }
        None => request.clone(),
    })
}

/// Converts a claim to the stored version.
pub(super) fn to_storage(resource: &Resource, tree: &Tree, version: usize, spec: &[&str]) -> Tree {
    let tree = with_api_version(tree, &resource.storage_api_version());
    if !is_flat(resource, version) {
        return tree;
    }
    requests(&tree, spec, |request| {
        if request.get("firstAvailable").is_some() {
            return request.clone();
        }
        let (inner, outer): (Vec<_>, Vec<_>) =
            request.entries().iter().cloned().partition(|(key, _)| EXACTLY.contains(&key.as_str()));
        if inner.is_empty() {
            return request.clone();
        }
        Tree::map(outer).with_key("exactly", Tree::map(inner))
    })
}

fn requests(tree: &Tree, spec: &[&str], change: impl Fn(&Tree) -> Tree) -> Tree {
    let path: Vec<&str> = spec.iter().copied().chain(["devices", "requests"]).collect();
    match tree.at(&path) {
        Some(list) => tree.with(&path, list.map_items(|_, request| change(request))),
        None => tree.clone(),
    }
}

/// Converts a stored slice to a version.
pub(super) fn slice_to_wire(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.api_version(version));
    if !is_flat(resource, version) {
        return tree;
    }
    devices(&tree, |device| {
        let basic = device.without_key("name");
        Tree::map([("name", Tree::from(device.text_at(&["name"]))), ("basic", basic)])
    })
}

/// Converts a slice to the stored version.
pub(super) fn slice_to_storage(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.storage_api_version());
    if !is_flat(resource, version) {
        return tree;
    }
    devices(&tree, |device| {
        let basic = device.get("basic").cloned().unwrap_or_else(Tree::empty_map);
        let basic = if basic.is_map() { basic } else { Tree::empty_map() };
        basic.with_key("name", Tree::from(device.text_at(&["name"])))
    })
}

fn devices(tree: &Tree, change: impl Fn(&Tree) -> Tree) -> Tree {
    let path = ["spec", "devices"];
    match tree.at(&path) {
        Some(list) => tree.with(&path, list.map_items(|_, device| change(device))),
        None => tree.clone(),
    }
}
