//! The operator as pods, what they read, and how they are reached.

use muster_tree::{Tree, tree};
use sha2::{Digest, Sha256};

use crate::names::{CONFIG, CONFIG_FILE, METRICS_SERVICE, OPERATOR, WEBHOOK_SERVICE};
use crate::{Options, labelled, selector};

/// Where containers listen.
const WEBHOOK_PORT: u16 = 9443;
const METRICS_PORT: u16 = 8080;
const HEALTH_PORT: u16 = 8081;
/// Where the configuration file is.
const CONFIG_FOLDER: &str = "/etc/muster";

/// The configuration, the Services, the Deployment and its budget.
pub(crate) fn objects(options: &Options) -> Vec<Tree> {
    vec![config(options), webhooks(options), metrics(options), deployment(options), budget(options)]
}

fn of(options: &Options, version: &str, kind: &str, name: &str) -> Tree {
    let namespace = options.namespace.as_str();
    let object =
        tree!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    labelled(&object, "operator")
}

fn config(options: &Options) -> Tree {
    let data = Tree::map([(CONFIG_FILE, options.config.as_str())]);
    of(options, "v1", "ConfigMap", CONFIG).with(&["data"], data)
}

/// The Service of the webhooks, through which training is heard as well: it is known by the same certificate.
fn webhooks(options: &Options) -> Tree {
    let all: Vec<(&str, u16)> =
        [("webhook", options.webhook_port)].into_iter().chain(heard(options)).collect();
    service(options, WEBHOOK_SERVICE, &all)
}

/// The port at which training is heard, where it is run.
fn heard(options: &Options) -> Option<(&'static str, u16)> {
    options.reports.filter(|_| options.training).map(|port| ("status", port))
}

/// Whoever is asked while it is not ready would not answer: pods that are not ready are no part of it.
pub(crate) fn service(options: &Options, name: &str, ports: &[(&str, u16)]) -> Tree {
    let port = |(name, port): &(&str, u16)| tree!({"name": (*name), "port": i64::from(*port), "targetPort": (*name), "protocol": "TCP"});
    let ports = Tree::list(ports.iter().map(port));
    let spec = tree!({"type": "ClusterIP", "selector": selector(), "ports": ports});
    of(options, "v1", "Service", name).with(&["spec"], spec)
}

/// Collectors of numbers look for these annotations, or for a port of this name.
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
        // A new configuration is read by new pods.
        .with(&["metadata", "annotations"], Tree::map([("checksum/config", sum)]));
    let labels =
        labelled(&Tree::empty_map(), "operator").at(&["metadata", "labels"]).cloned().unwrap_or_default();
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
    // Expanded in the arguments.
    let space = own("POD_NAMESPACE", "metadata.namespace");
    tree!({
        "name": "operator",
        "image": (options.image.as_str()),
        "args": Tree::list(arguments()),
        "env": [space, (own("POD_NAME", "metadata.name"))],
        "ports": Tree::list(ports.into_iter().chain(heard(options)).map(port)),
        "livenessProbe": probe("/healthz"),
        "readinessProbe": probe("/readyz"),
        // Memory grows with what is followed: 10,000 JobSets with 40,000 Jobs took 160 MB (`cargo xtask bench operator`).
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

/// The addresses are arguments, not part of the configuration: they belong to the ports and probes above, and people
/// bring their own configurations, with ports of their own.
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

/// A drained node never takes the last of several that answers.
fn budget(options: &Options) -> Tree {
    let spec = tree!({"maxUnavailable": 1, "selector": {"matchLabels": selector()}});
    of(options, "policy/v1", "PodDisruptionBudget", OPERATOR).with(&["spec"], spec)
}
