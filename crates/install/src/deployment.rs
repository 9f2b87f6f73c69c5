//! The Deployment of the operator, its ConfigMap, Services and PodDisruptionBudget.

use muster_tree::{Tree, tree};
use sha2::{Digest, Sha256};

use crate::names::{CONFIG, CONFIG_FILE, METRICS_SERVICE, OPERATOR, WEBHOOK_SERVICE};
use crate::{Options, selector, with_labels};

const WEBHOOK_PORT: u16 = 9443;
const METRICS_PORT: u16 = 8080;
const HEALTH_PORT: u16 = 8081;
/// The mount path of the configuration file.
const CONFIG_FOLDER: &str = "/etc/muster";

/// The ConfigMap, the Services, the Deployment and the PodDisruptionBudget.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    vec![config(options), webhooks(options), metrics(options), deployment(options), budget(options)]
}

fn of(options: &Options, version: &str, kind: &str, name: &str) -> Tree {
    let namespace = options.namespace.as_str();
    let object =
        tree!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    with_labels(&object, "operator")
}

fn config(options: &Options) -> Tree {
    let data = Tree::map([(CONFIG_FILE, options.config.as_str())]);
    of(options, "v1", "ConfigMap", CONFIG).with(&["data"], data)
}

/// The webhook Service. The progress endpoint of training pods is another port of it, since the serving certificate
/// is for this host name.
fn webhooks(options: &Options) -> Tree {
    let all: Vec<(&str, u16)> =
        [("webhook", options.webhook_port)].into_iter().chain(status_port(options)).collect();
    service(options, WEBHOOK_SERVICE, &all)
}

/// The port of the progress endpoint, if it is enabled and TrainJobs are.
fn status_port(options: &Options) -> Option<(&'static str, u16)> {
    options.status_port.filter(|_| options.training).map(|port| ("status", port))
}

/// A Service of the operator. It has ready pods only: a replica that is not ready would fail the webhook request.
pub(crate) fn service(options: &Options, name: &str, ports: &[(&str, u16)]) -> Tree {
    let port = |(name, port): &(&str, u16)| tree!({"name": (*name), "port": i64::from(*port), "targetPort": (*name), "protocol": "TCP"});
    let ports = Tree::list(ports.iter().map(port));
    let spec = tree!({"type": "ClusterIP", "selector": selector(), "ports": ports});
    of(options, "v1", "Service", name).with(&["spec"], spec)
}

/// The metrics Service. Prometheus finds it by the annotations, or by the port name.
fn metrics(options: &Options) -> Tree {
    let notes = Tree::map([
        ("prometheus.io/scrape", "true".to_owned()),
        ("prometheus.io/port", METRICS_PORT.to_string()),
        ("prometheus.io/path", "/metrics".to_owned()),
    ]);
    service(options, METRICS_SERVICE, &[("metrics", METRICS_PORT)]).with(&["metadata", "annotations"], notes)
}

fn deployment(options: &Options) -> Tree {
    let sum: String = Sha256::digest(&options.config).iter().map(|byte| format!("{byte:02x}")).collect();
    let pod = tree!({"metadata": {}, "spec": pod(options)})
        // The hash changes with the configuration, so that the Deployment rolls out new pods, which read it at the start.
        .with(&["metadata", "annotations"], Tree::map([("checksum/config", sum)]));
    let labels =
        with_labels(&Tree::empty_map(), "operator").at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let spec = tree!({
        "replicas": i64::from(options.replicas),
        "selector": {"matchLabels": selector()},
        "template": pod.with(&["metadata", "labels"], labels.without_key("app.kubernetes.io/managed-by")),
    });
    of(options, "apps/v1", "Deployment", OPERATOR).with(&["spec"], spec)
}

fn pod(options: &Options) -> Tree {
    let beside =
        tree!({"labelSelector": {"matchLabels": selector()}, "topologyKey": "kubernetes.io/hostname"});
    let apart = tree!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": beside}]});
    tree!({
        "serviceAccountName": OPERATOR,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "affinity": {"podAntiAffinity": apart},
        "containers": [(container(options))],
        "volumes": [{"name": "config", "configMap": {"name": CONFIG}}],
    })
}

fn container(options: &Options) -> Tree {
    let port = |(name, port): (&str, u16)| tree!({"name": name, "containerPort": i64::from(port), "protocol": "TCP"});
    let ports = [("webhook", WEBHOOK_PORT), ("metrics", METRICS_PORT), ("health", HEALTH_PORT)];
    let probe = |path: &str| tree!({"httpGet": {"path": path, "port": "health"}, "periodSeconds": 10, "timeoutSeconds": 5});
    let own = |name: &str, path: &str| tree!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    // `$(POD_NAMESPACE)` is expanded in the arguments.
    let space = own("POD_NAMESPACE", "metadata.namespace");
    tree!({
        "name": "operator",
        "image": (options.image.as_str()),
        "args": Tree::list(arguments()),
        "env": [space, (own("POD_NAME", "metadata.name"))],
        "ports": Tree::list(ports.into_iter().chain(status_port(options)).map(port)),
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        // Memory grows with the cached objects: 10,000 JobSets with 40,000 Jobs took 160 MB (`cargo xtask bench operator`).
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "runAsNonRoot": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": true}],
    })
}

/// Addresses are arguments and not in the configuration file, since they must match the ports and probes of the pod,
/// while a user's configuration file may have other ports.
fn arguments() -> Vec<String> {
    let words = [
        ("--config", format!("{CONFIG_FOLDER}/{CONFIG_FILE}")),
        ("--namespace", "$(POD_NAMESPACE)".to_owned()),
        ("--webhook-service", WEBHOOK_SERVICE.to_owned()),
        ("--webhook-listen", format!("[::]:{WEBHOOK_PORT}")),
        ("--health-listen", format!("[::]:{HEALTH_PORT}")),
        ("--metrics-listen", format!("[::]:{METRICS_PORT}")),
    ];
    let words = words.into_iter().map(|(flag, value)| format!("{flag}={value}"));
    std::iter::once("operator".to_owned()).chain(words).collect()
}

/// The PodDisruptionBudget: draining nodes evicts one replica at a time, so that webhooks stay available.
fn budget(options: &Options) -> Tree {
    let spec = tree!({"maxUnavailable": 1, "selector": {"matchLabels": selector()}});
    of(options, "policy/v1", "PodDisruptionBudget", OPERATOR).with(&["spec"], spec)
}
