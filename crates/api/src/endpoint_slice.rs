//! EndpointSlices: endpoints from Services and Pods, and the slices themselves.

use muster_tree::{Text, Tree, tree};

use crate::client::Uid;
use crate::consts::{conditions, labels};
use crate::paths::{endpoint_slice as slice_path, meta as meta_path, pod as pod_path, service as path};
use crate::pod::PodPhase;
use crate::{condition, meta};

/// Largest number of endpoints in a slice, upstream's default.
pub const ENDPOINTS_MAX: usize = 100;

/// The ports of a slice as canonical JSON; slices are grouped by it.
pub type Ports = String;

/// The key of a slice without ports.
#[must_use]
pub fn no_ports() -> Ports {
    "[]".to_owned()
}

/// Name of the Service of a slice that this controller manages; `None` for a slice of another controller.
#[must_use]
pub fn service(slice: &Tree) -> Option<Text> {
    let ours = meta::label(slice, labels::SLICE_MANAGED_BY) == Some(labels::SLICE_CONTROLLER);
    meta::label(slice, labels::SERVICE_NAME).filter(|_| ours).map(Text::from)
}

/// Returns whether a Service has a selector.
#[must_use]
pub fn has_selector(service: &Tree) -> bool {
    !service.entries_at(path::SELECTOR).is_empty()
}

/// Returns whether the selector of a Service matches a pod.
#[must_use]
pub fn selects(service: &Tree, pod: &Tree) -> bool {
    let has = |(key, value): &(Text, Tree)| meta::label(pod, key) == value.as_str();
    has_selector(service) && service.entries_at(path::SELECTOR).iter().all(has)
}

/// Returns whether a change of a pod can change a slice; filters watch events of pods.
#[must_use]
pub fn is_news(before: Option<&Tree>, after: Option<&Tree>) -> bool {
    let (Some(before), Some(after)) = (before, after) else { return true };
    let ready = |pod: &Tree| condition::is_true(pod.items_at(pod_path::CONDITIONS), conditions::READY);
    let ended = |pod: &Tree| PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal();
    before.at(meta_path::LABELS) != after.at(meta_path::LABELS)
        || before.str_at(pod_path::POD_IP) != after.str_at(pod_path::POD_IP)
        || before.str_at(pod_path::NODE_NAME) != after.str_at(pod_path::NODE_NAME)
        || meta::deletion_timestamp(before).is_some() != meta::deletion_timestamp(after).is_some()
        || ready(before) != ready(after)
        || ended(before) != ended(after)
}

/// `spec.nodeName` of a pod.
#[must_use]
pub fn node(pod: &Tree) -> Text {
    pod.text_at(pod_path::NODE_NAME)
}

/// The endpoint of a pod; `None` for a pod without an address or in a terminal phase.
#[must_use]
pub fn endpoint(service: &Tree, pod: &Tree, zone: Option<&str>) -> Option<Tree> {
    let address = pod.text_at(pod_path::POD_IP);
    if address.is_empty() || PodPhase::of(pod.str_at(pod_path::PHASE)).is_terminal() {
        return None;
    }
    let serving = condition::is_true(pod.items_at(pod_path::CONDITIONS), conditions::READY);
    let terminating = meta::deletion_timestamp(pod).is_some();
    let ready = service.bool_at(path::PUBLISH_NOT_READY) == Some(true) || (serving && !terminating);
    let mut made = tree!({"addresses": [address],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "name": meta::name(pod), "namespace": meta::namespace(pod), "uid": meta::uid(pod)}});
    let hostname = pod.text_at(pod_path::HOSTNAME);
    let named = pod.text_at(pod_path::SUBDOMAIN) == meta::name(service);
    for (key, value) in [
        ("nodeName", Some(node(pod))),
        ("zone", zone.map(Text::from)),
        ("hostname", Some(hostname).filter(|_| named)),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            made = made.with(&[key], value);
        }
    }
    Some(made)
}

/// The ports of a Service on this pod. A named target port that the pod lacks is omitted.
#[must_use]
pub fn ports(service: &Tree, pod: &Tree) -> Ports {
    let found = service.items_at(path::PORTS).iter().filter_map(|port| {
        let protocol = port.text_at(&["protocol"]);
        let number = match port.at(&["targetPort"]) {
            Some(Tree::Text(name)) => container_port(pod, name, &protocol)?,
            Some(number) => number.clone(),
            None => port.at(&["port"])?.clone(),
        };
        let mut made = tree!({"name": port.text_at(&["name"]), "port": number, "protocol": protocol});
        if let Some(application) = port.at(&["appProtocol"]) {
            made = made.with(&["appProtocol"], application);
        }
        Some(made)
    });
    Tree::list(found.collect::<Vec<_>>()).to_json()
}

fn container_port(pod: &Tree, name: &str, protocol: &str) -> Option<Tree> {
    let sidecars = pod.items_at(pod_path::INIT_CONTAINERS).iter();
    let sidecars = sidecars.filter(|c| c.str_at(&["restartPolicy"]) == "Always");
    let containers = pod.items_at(pod_path::CONTAINERS).iter().chain(sidecars);
    let mut all = containers.flat_map(|container| container.items_at(&["ports"]));
    let named = |port: &&Tree| port.str_at(&["name"]) == name && port.str_at(&["protocol"]) == protocol;
    all.find(named)?.at(&["containerPort"]).cloned()
}

/// The ports of a stored slice.
#[must_use]
pub fn ports_of(slice: &Tree) -> Ports {
    Tree::list(slice.items_at(slice_path::PORTS)).to_json()
}

/// The endpoints of a stored slice.
#[must_use]
pub fn endpoints(slice: &Tree) -> &[Tree] {
    slice.items_at(slice_path::ENDPOINTS)
}

/// UID of the pod of an endpoint.
#[must_use]
pub fn pod(endpoint: &Tree) -> Uid {
    endpoint.text_at(&["targetRef", "uid"])
}

/// A slice to create for a Service.
#[must_use]
pub fn made(service: &Tree, name: &Text, ports: &Ports, endpoints: Vec<Tree>) -> Tree {
    let reserved = [labels::HEADLESS, labels::SERVICE_NAME, labels::SLICE_MANAGED_BY];
    let theirs = service.entries_at(meta_path::LABELS).iter().cloned();
    let mut all: Vec<(Text, Tree)> = theirs.filter(|(key, _)| !reserved.contains(&key.as_str())).collect();
    if ["", "None"].contains(&service.str_at(path::CLUSTER_IP)) {
        all.push((labels::HEADLESS.into(), Tree::from("")));
    }
    all.push((labels::SERVICE_NAME.into(), Tree::from(meta::name(service))));
    all.push((labels::SLICE_MANAGED_BY.into(), Tree::from(labels::SLICE_CONTROLLER)));
    let ports = Tree::parse(ports.as_bytes()).expect("ports are written by ourselves");
    tree!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": meta::namespace(service), "labels": Tree::map(all),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": meta::name(service),
                "uid": meta::uid(service), "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4", "endpoints": Tree::list(endpoints), "ports": ports})
}

/// A merge patch that replaces labels and endpoints of a stored slice by those of a new one.
#[must_use]
pub fn update(made: &Tree) -> Tree {
    let labels = made.at(meta_path::LABELS).cloned().unwrap_or_default();
    tree!({"metadata": {"labels": labels}, "endpoints": Tree::list(endpoints(made))})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Tree {
        tree!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "a", "x": "y"}},
            "spec": {"nodeName": "node", "hostname": "h", "subdomain": "s",
                "containers": [{"ports": [{"name": "web", "protocol": "TCP", "containerPort": 8080}]}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1",
                "conditions": [{"type": "Ready", "status": "True"}]}})
    }

    fn headless() -> Tree {
        tree!({"metadata": {"name": "s", "namespace": "n", "uid": "su"},
            "spec": {"clusterIP": "None", "selector": {"app": "a"},
                "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": "web"}]}})
    }

    #[test]
    fn endpoints_of_pods() {
        let ready = tree!({"addresses": ["10.0.0.1"], "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "name": "p", "namespace": "n", "uid": "u"}, "nodeName": "node", "hostname": "h"});
        let gone = pod().with(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
        let unready = pod().with(&["status", "conditions"], tree!([]));
        let early = headless().with(&["spec", "publishNotReadyAddresses"], true);
        let conditions = |service: &Tree, pod: &Tree| {
            endpoint(service, pod, None).map(|e| e.at(&["conditions"]).unwrap().to_json())
        };
        assert_eq!(endpoint(&headless(), &pod(), None), Some(ready));
        let told = |ready: bool, serving: bool, terminating: bool| {
            Some(format!(r#"{{"ready":{ready},"serving":{serving},"terminating":{terminating}}}"#))
        };
        assert_eq!(conditions(&headless(), &gone), told(false, true, true), "a pod that ends still serves");
        assert_eq!(conditions(&headless(), &unready), told(false, false, false));
        assert_eq!(conditions(&early, &unready), told(true, false, false), "published early");
        assert_eq!(
            conditions(&headless(), &pod().with(&["status", "phase"], "Succeeded")),
            None,
            "it has ended"
        );
        assert_eq!(conditions(&headless(), &pod().with(&["status", "podIP"], "")), None, "no address yet");
    }

    #[test]
    fn ports_by_name_and_number() {
        assert_eq!(ports(&headless(), &pod()), r#"[{"name":"http","port":8080,"protocol":"TCP"}]"#);
        let by_number = headless()
            .with(&["spec", "ports"], tree!([{"name": "", "protocol": "TCP", "port": 80, "targetPort": 81}]));
        assert_eq!(ports(&by_number, &pod()), r#"[{"name":"","port":81,"protocol":"TCP"}]"#);
        let unknown = headless()
            .with(&["spec", "ports"], tree!([{"protocol": "TCP", "port": 80, "targetPort": "odd"}]));
        assert_eq!(ports(&unknown, &pod()), "[]");
    }

    #[test]
    fn a_selector_matches_all_labels_and_an_absent_one_nothing() {
        assert!(selects(&headless(), &pod()));
        assert!(!selects(&headless().with(&["spec", "selector", "app"], "b"), &pod()));
        assert!(!selects(&headless().with(&["spec", "selector"], tree!({})), &pod()));
    }
}
