//! The table against a real API server: minimal objects of every kind and what it made of them.
//!
//! `tests/answers.json` holds what was sent to Kubernetes 1.37.1 (as a dry run, all defaults on) and what came back,
//! without the metadata that the server fills in. Whatever the table does not explain must stand in [`ELSEWHERE`].

use std::collections::BTreeSet;

use muster_tree::Tree;

use super::builtin;
use crate::node::View;
use crate::testing::differences;
use crate::{structure, zero};

/// What depends on other fields, on other objects or on the request, and is therefore no business of the table.
const ELSEWHERE: &[(&str, &[&str])] = &[
    ("CronJob", &["spec.jobTemplate.spec.template.spec.containers.imagePullPolicy"]),
    ("CustomResourceDefinition", &["spec.names.listKind", "spec.names.singular", "status.storedVersions"]),
    (
        "DaemonSet",
        &[
            "metadata.annotations",
            "spec.template.spec.containers.imagePullPolicy",
            "spec.updateStrategy.rollingUpdate",
        ],
    ),
    ("Deployment", &["spec.strategy.rollingUpdate", "spec.template.spec.containers.imagePullPolicy"]),
    (
        "Job",
        &[
            "metadata.labels",
            "spec.backoffLimit",
            "spec.completions",
            "spec.podReplacementPolicy",
            "spec.selector",
            "spec.template.metadata.labels",
            "spec.template.spec.containers.imagePullPolicy",
        ],
    ),
    ("LimitRange", &["spec.limits.default", "spec.limits.defaultRequest"]),
    ("Namespace", &["metadata.labels", "spec.finalizers"]),
    ("NetworkPolicy", &["spec.policyTypes"]),
    ("Node", &["spec.taints"]),
    ("PersistentVolume", &["metadata.finalizers", "status.lastPhaseTransitionTime"]),
    ("PersistentVolumeClaim", &["metadata.finalizers"]),
    (
        "Pod",
        &[
            "spec.containers.imagePullPolicy",
            "spec.containers.resources.requests",
            "spec.initContainers.imagePullPolicy",
            "spec.preemptionPolicy",
            "spec.priority",
            "spec.serviceAccount",
            "spec.tolerations",
            "spec.volumes.emptyDir",
            "spec.volumes.image.pullPolicy",
            "status.phase",
            "status.qosClass",
        ],
    ),
    ("PodGroup", &["metadata.finalizers", "spec.priority"]),
    ("PodTemplate", &["template.spec.containers.imagePullPolicy"]),
    ("ReplicaSet", &["spec.template.spec.containers.imagePullPolicy"]),
    (
        "ResourceClaim",
        &[
            "spec.devices.requests.allocationMode",
            "spec.devices.requests.count",
            "spec.devices.requests.exactly.count",
            "spec.devices.requests.firstAvailable.count",
        ],
    ),
    ("ResourceClaimTemplate", &["spec.spec.devices.requests.exactly.count"]),
    ("RoleBinding", &["subjects.apiGroup"]),
    (
        "Service",
        &[
            "spec.allocateLoadBalancerNodePorts",
            "spec.clusterIP",
            "spec.clusterIPs",
            "spec.externalTrafficPolicy",
            "spec.internalTrafficPolicy",
            "spec.ipFamilies",
            "spec.ipFamilyPolicy",
            "spec.ports.nodePort",
            "spec.ports.targetPort",
            "spec.sessionAffinityConfig",
        ],
    ),
    ("StatefulSet", &["spec.template.spec.containers.imagePullPolicy", "spec.updateStrategy.rollingUpdate"]),
    ("VolumeAttributesClass", &["metadata.finalizers"]),
];

/// A path without positions in lists.
fn plain(difference: &str) -> String {
    let path = difference.split(": ").next().unwrap_or_default();
    let parts = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    parts.collect::<String>().trim_start_matches('.').to_owned()
}

#[test]
fn minimal_objects_come_back_as_from_the_real_server() {
    let all = Tree::parse(include_bytes!("../../tests/answers.json")).expect("JSON");
    let mut found = BTreeSet::new();
    for one in all.items() {
        let (sent, answered) = (one.get("sent").expect("sent"), one.get("answered").expect("answered"));
        let version = sent.str_at(&["apiVersion"]);
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = sent.str_at(&["kind"]);
        let root = builtin().root(group, version, kind).expect("a root");
        let tree = zero::absent(builtin(), root.id, sent);
        let tree = structure::default(View { schema: &builtin().schema, id: root.id }, &tree);
        let tree = zero::written(builtin(), root.id, &tree);
        for difference in differences(&tree, answered) {
            found.insert(format!("{kind}.{}", plain(&difference)));
        }
    }
    let paths = |(kind, paths): &(&str, &[&str])| {
        paths.iter().map(|path| format!("{kind}.{path}")).collect::<Vec<_>>()
    };
    let known: BTreeSet<String> = ELSEWHERE.iter().flat_map(paths).collect();
    let unexplained: Vec<&String> = found.difference(&known).collect();
    let outdated: Vec<&String> = known.difference(&found).collect();
    assert!(unexplained.is_empty(), "the table does not explain {unexplained:#?}");
    assert!(outdated.is_empty(), "the table explains {outdated:#?} by now");
}
