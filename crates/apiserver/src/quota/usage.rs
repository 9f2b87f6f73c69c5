//! Usage of one object, by kind.

use muster_api::time::Time;
use muster_tree::{Text, Tree};

use super::{Amounts, CountedObject, pod, scope};
use crate::admission::Operation;
use crate::kinds::quantity::Amount;
use crate::registry::Resource;

const POD_NAMES: [&str; 10] = [
    "pods",
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
const CLAIM_NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const SERVICE_NAMES: [&str; 3] = ["services", "services.nodeports", "services.loadbalancers"];
/// Core kinds that quotas also count by their plural alone.
const PLAIN: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

const BY_STORAGE_CLASS: &str = ".storageclass.storage.k8s.io/";
const BY_DEVICE_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Usage of a device request with `allocationMode: All`: the maximum per claim.
const DEVICES_MAX: i64 = 32;

/// The `count/` name of a resource.
fn count_name(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => format!("count/{}", resource.plural),
        group => format!("count/{}.{group}", resource.plural),
    }
}

/// Whether a quota name counts this resource.
pub(super) fn tracks(resource: &Resource, name: &str) -> bool {
    if name.strip_prefix("count/").is_some() {
        return name == count_name(resource);
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => {
            let extended = name.strip_prefix("requests.").is_some_and(|name| {
                name.starts_with("hugepages-") || (name.contains('/') && !name.contains("kubernetes.io/"))
            });
            POD_NAMES.contains(&name) || name.starts_with("hugepages-") || extended
        }
        ("", "persistentvolumeclaims") => {
            let plain = name.split_once(BY_STORAGE_CLASS).map_or(name, |(_, name)| name);
            CLAIM_NAMES.contains(&plain)
        }
        ("", "services") => SERVICE_NAMES.contains(&name),
        ("resource.k8s.io", "resourceclaims") => name.ends_with(BY_DEVICE_CLASS),
        ("", plural) => PLAIN.contains(&plural) && plural == name,
        _ => false,
    }
}

/// Whether a request is checked against quotas. Other requests only update usage.
pub(crate) fn is_handled(
    operation: Operation,
    subresource: &str,
    old: Option<&Tree>,
    item: &CountedObject<'_>,
) -> bool {
    if operation == Operation::Create {
        return subresource.is_empty();
    }
    if operation != Operation::Update {
        return false;
    }
    let changes_scope =
        || old.is_some_and(|old| scope::is_terminating(old) != scope::is_terminating(item.tree));
    match (item.resource.group.as_str(), item.resource.plural.as_str(), subresource) {
        ("", "pods", "") => changes_scope(),
        ("", "pods", "resize") => true,
        ("", "persistentvolumeclaims" | "services", "") => true,
        ("resource.k8s.io", "resourceclaims", "") => true,
        _ => false,
    }
}

pub(super) fn of(item: &CountedObject<'_>) -> Amounts {
    let mut all = Amounts::new();
    all.insert(Text::from(count_name(item.resource)), Amount::whole(1));
    match (item.resource.group.as_str(), item.resource.plural.as_str()) {
        ("", "pods") if !is_over(item.tree, item.now) => of_pod(item.tree, &mut all),
        ("", "pods") => {}
        ("", "persistentvolumeclaims") => of_claim(item.tree, &mut all),
        ("", "services") => of_service(item.tree, &mut all),
        ("resource.k8s.io", "resourceclaims") => of_device_claim(item.tree, &mut all),
        ("", plural) if PLAIN.contains(&plural) => {
            all.insert(item.resource.plural.clone(), Amount::whole(1));
        }
        _ => {}
    }
    all
}

/// Whether a pod no longer counts: it has terminated, or outlived its grace period (e.g. on a lost node).
fn is_over(pod: &Tree, now: Time) -> bool {
    matches!(pod.str_at(&["status", "phase"]), "Failed" | "Succeeded") || is_overdue(pod, now)
}

/// Whether the grace period of a deleted pod has expired.
pub(crate) fn is_overdue(pod: &Tree, now: Time) -> bool {
    let doomed = Time::of(pod.at(&["metadata", "deletionTimestamp"]));
    let grace = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]);
    match (doomed, grace) {
        (Some(doomed), Some(grace)) => now.0 > doomed.0 + grace * 1_000_000,
        _ => false,
    }
}

fn of_pod(tree: &Tree, all: &mut Amounts) {
    all.insert(Text::from("pods"), Amount::whole(1));
    if let Some(spec) = tree.get("spec") {
        all.extend(pod::named(&pod::totals(spec, "requests"), &pod::totals(spec, "limits")));
    }
}

fn of_claim(tree: &Tree, all: &mut Amounts) {
    let class = match tree.str_at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]) {
        "" => tree.str_at(&["spec", "storageClassName"]),
        class => class,
    };
    let asked = tree.at(&["spec", "resources", "requests", "storage"]).and_then(Amount::of);
    let given = tree.at(&["status", "allocatedResources", "storage"]).and_then(Amount::of);
    let storage = asked.map(|asked| match given {
        // A volume being expanded counts with the larger of requested and allocated size.
        Some(given) if given.value > asked.value => given.rounded_up(),
        _ => asked.rounded_up(),
    });
    let amounts = [("persistentvolumeclaims", Some(Amount::whole(1))), ("requests.storage", storage)];
    for (name, amount) in amounts.into_iter().filter_map(|(name, amount)| Some((name, amount?))) {
        all.insert(Text::from(name), amount);
        if !class.is_empty() {
            all.insert(Text::from(format!("{class}{BY_STORAGE_CLASS}{name}")), amount);
        }
    }
}

fn of_service(tree: &Tree, all: &mut Amounts) {
    let ports = tree.items_at(&["spec", "ports"]);
    let chosen = || ports.iter().filter(|port| port.int_at(&["nodePort"]).unwrap_or(0) != 0).count();
    let (node_ports, balancers) = match tree.str_at(&["spec", "type"]) {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if tree.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) == Some(false) => {
            (chosen(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let whole = |n: usize| Amount::whole(i64::try_from(n).unwrap_or(i64::MAX));
    all.insert(Text::from("services"), Amount::whole(1));
    all.insert(Text::from("services.nodeports"), whole(node_ports));
    all.insert(Text::from("services.loadbalancers"), Amount::whole(balancers));
}

/// Devices by class; of alternatives, the maximum per class.
fn of_device_claim(tree: &Tree, all: &mut Amounts) {
    let count = |request: &Tree| match request.str_at(&["allocationMode"]) {
        "ExactCount" => request.int_at(&["count"]).unwrap_or(0),
        "All" => DEVICES_MAX,
        _ => 0,
    };
    let name =
        |request: &Tree| Text::from(format!("{}{BY_DEVICE_CLASS}", request.str_at(&["deviceClassName"])));
    for request in tree.items_at(&["spec", "devices", "requests"]) {
        let mut most = Amounts::new();
        let alternatives = request.items_at(&["firstAvailable"]);
        // Of alternatives the most expensive counts: which one is allocated is unknown until scheduling.
        for one in alternatives.iter().chain(request.get("exactly").filter(|_| alternatives.is_empty())) {
            let devices = Amount::whole(count(one));
            let known = most.entry(name(one)).or_insert(Amount::ZERO);
            if known.value < devices.value {
                *known = devices;
            }
        }
        super::add(all, &most);
    }
}
