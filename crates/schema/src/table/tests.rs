//! The table as others rely on it.

use muster_tree::tree;

use super::*;
use crate::node::{ListKind, Shape, View};

fn view(group: &str, version: &str, kind: &str) -> View<'static> {
    let root = builtin().root(group, version, kind).unwrap_or_else(|| panic!("no {group}/{version} {kind}"));
    View { schema: &builtin().schema, id: root.id }
}

/// Paths of well-known fields, and the shape each has.
const PATHS: &[(&str, &str, &str, &str, &str)] = &[
    ("", "v1", "Pod", "spec.containers.resources.limits.cpu", "quantity"),
    ("", "v1", "Pod", "spec.containers.ports.containerPort", "int"),
    ("", "v1", "Pod", "spec.containers.livenessProbe.httpGet.port", "int-or-string"),
    ("", "v1", "Pod", "spec.workloadRef.podGroupName", "text"),
    ("", "v1", "Pod", "spec.workloadRef.podGroupReplicaKey", "text"),
    ("", "v1", "Pod", "spec.schedulingGroup.podGroupName", "text"),
    ("", "v1", "Pod", "spec.resourceClaims.resourceClaimTemplateName", "text"),
    ("", "v1", "Pod", "spec.nodeSelector.anything", "text"),
    ("", "v1", "Pod", "status.conditions.lastTransitionTime", "text"),
    ("", "v1", "Pod", "metadata.ownerReferences.blockOwnerDeletion", "bool"),
    ("", "v1", "Pod", "metadata.managedFields.fieldsV1", "any"),
    ("", "v1", "Secret", "data.anything", "text"),
    ("", "v1", "Node", "status.allocatable.anything", "quantity"),
    ("", "v1", "Event", "involvedObject.fieldPath", "text"),
    ("", "v1", "DeleteOptions", "preconditions.uid", "text"),
    ("", "v1", "Status", "details.causes.field", "text"),
    ("", "v1", "PodList", "items.spec.nodeName", "text"),
    ("batch", "v1", "Job", "spec.template.spec.workloadRef.name", "text"),
    ("batch", "v1", "Job", "spec.podFailurePolicy.rules.onExitCodes.values", "list"),
    ("batch", "v1", "CronJob", "spec.jobTemplate.spec.template.spec.containers.image", "text"),
    ("apps", "v1", "StatefulSet", "spec.volumeClaimTemplates.spec.storageClassName", "text"),
    ("coordination.k8s.io", "v1", "Lease", "spec.renewTime", "text"),
    ("resource.k8s.io", "v1", "ResourceClaim", "spec.devices.requests.exactly.count", "int"),
    ("resource.k8s.io", "v1beta1", "ResourceClaim", "spec.devices.requests.count", "int"),
    ("resource.k8s.io", "v1beta2", "ResourceSlice", "spec.devices.capacity.anything.value", "quantity"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "value", "int"),
    ("scheduling.k8s.io", "v1alpha1", "Workload", "spec.podGroupTemplates.policy.gang.minCount", "int"),
    ("scheduling.k8s.io", "v1alpha1", "Workload", "spec.podGroups.policy.basic", "fields"),
    ("scheduling.k8s.io", "v1alpha1", "PodGroup", "spec.workloadRef.uid", "text"),
    ("scheduling.k8s.io", "v1alpha1", "PodGroup", "spec.podGroupTemplateRef.name", "text"),
    ("scheduling.k8s.io", "v1alpha1", "PodGroup", "status.scheduledPods", "int"),
    ("scheduling.k8s.io", "v1beta1", "PodGroup", "spec.workloadRef.templateName", "text"),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "spec.versions.schema.openAPIV3Schema.properties.a.properties.b.type",
        "text",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "spec.versions.schema.openAPIV3Schema.default",
        "any",
    ),
    ("policy", "v1", "Eviction", "deleteOptions.gracePeriodSeconds", "int"),
    ("autoscaling", "v1", "Scale", "spec.replicas", "int"),
    ("authentication.k8s.io", "v1", "TokenRequest", "spec.boundObjectRef.uid", "text"),
    ("authorization.k8s.io", "v1", "SelfSubjectAccessReview", "spec.resourceAttributes.verb", "text"),
    ("apiregistration.k8s.io", "v1", "APIService", "spec.caBundle", "text"),
];

fn word(view: View<'_>) -> &str {
    let node = view.node();
    match &node.shape {
        Shape::Any if node.int_or_string => "int-or-string",
        Shape::Any if node.format == "quantity" => "quantity",
        Shape::Any => "any",
        Shape::Bool => "bool",
        Shape::Int => "int",
        Shape::Number => "number",
        Shape::Text => "text",
        Shape::List(_) => "list",
        Shape::Map(_) => "map",
        Shape::Fields(_) => "fields",
    }
}

#[test]
fn well_known_paths_lead_to_fields_of_the_right_shape() {
    for (group, version, kind, path, want) in PATHS {
        let keys: Vec<&str> = path.split('.').collect();
        let found = view(group, version, kind).at(&keys);
        let found = found.unwrap_or_else(|| panic!("{kind} has no {path}"));
        assert_eq!(word(found), *want, "{kind} {path}");
    }
}

#[test]
fn every_row_has_a_root_with_kind_and_api_version() {
    let table = builtin();
    for row in &table.kinds {
        let root = table.root(&row.group, &row.version, &row.kind).expect("a root");
        assert_eq!(root.id, row.root);
        if row.kind != "WatchEvent" {
            assert!(root.view().at(&["apiVersion"]).is_some(), "{}", row.kind);
        }
        let is_stored = row.verbs.iter().any(|verb| verb == "list");
        if is_stored {
            assert!(root.view().at(&["metadata", "resourceVersion"]).is_some(), "{}", row.kind);
            assert!(table.root(&row.group, &row.version, &row.list_kind).is_some(), "{}", row.list_kind);
        }
        for sub in &row.subresources {
            let (group, version, kind) = &sub.response_kind;
            let is_stream = kind.ends_with("Options");
            assert!(is_stream || table.root(group, version, kind).is_some(), "{}/{}", row.plural, sub.name);
        }
    }
    assert!(table.row("", "v1", "componentstatuses").is_none());
    assert_eq!(table.row("", "v1", "pods").expect("pods").short_names, ["po"]);
    assert_eq!(
        table.row("scheduling.k8s.io", "v1alpha1", "podgroups").expect("podgroups").subresources.len(),
        1
    );
}

#[test]
fn keys_of_lists_are_fields_of_their_items() {
    let schema = &builtin().schema;
    let mut keyed = 0;
    for at in 0..schema.nodes.len() {
        let id = NodeId(u32::try_from(at).expect("few nodes"));
        let view = View { schema, id };
        let node = view.node();
        let Some(item) = view.item() else { continue };
        if let ListKind::Map(keys) = &node.list {
            keyed += 1;
            assert!(!keys.is_empty());
            assert!(keys.iter().all(|key| item.below(key).is_some()), "{keys:?}");
        }
        let key = &node.patch.merge_key;
        assert!(key.is_empty() || item.below(key).is_some(), "{key}");
    }
    assert!(keyed > 50, "{keyed} lists with keys");
}

#[test]
fn defaults_stand_where_the_overlay_puts_them() {
    let default = |kind: &str, group: &str, path: &[&str]| {
        view(group, "v1", kind).at(path).expect("a field").node().default.clone()
    };
    for (kind, group, path, want) in [
        ("Pod", "", &["spec", "containers", "terminationMessagePath"][..], tree!("/dev/termination-log")),
        ("Pod", "", &["spec", "initContainers", "livenessProbe", "periodSeconds"], tree!(10)),
        ("Pod", "", &["spec", "enableServiceLinks"], tree!(true)),
        ("Pod", "", &["spec", "restartPolicy"], tree!("Always")),
        ("Pod", "", &["spec", "containers", "ports", "protocol"], tree!("TCP")),
        ("Job", "batch", &["spec", "template", "spec", "restartPolicy"], tree!("Always")),
        ("Job", "batch", &["spec", "suspend"], tree!(false)),
    ] {
        assert_eq!(default(kind, group, path), Some(want), "{kind} {path:?}");
    }
    assert_eq!(default("Job", "batch", &["spec", "template", "spec", "enableServiceLinks"]), None);
    assert_eq!(default("CronJob", "batch", &["spec", "jobTemplate", "spec", "suspend"]), None);
    assert_eq!(default("Pod", "", &["spec", "containers", "name"]), None, "Go's zero values are no defaults");
}

#[test]
fn variants_remember_their_component() {
    let table = builtin();
    let spec = view("", "v1", "Pod").at(&["spec"]).expect("a spec");
    assert_eq!(table.component_name(spec.id), Some("io.k8s.api.core.v1.PodSpec"));
    assert!(table.is_variant(spec.id));
    let spec = table.component("io.k8s.api.core.v1.PodSpec").expect("PodSpec").node;
    assert!(!table.is_variant(spec));
    let strategy = view("apps", "v1", "Deployment").at(&["spec", "strategy"]).expect("a strategy");
    assert!(strategy.node().patch.retain_keys);
    assert_eq!(table.component_name(strategy.id), Some("io.k8s.api.apps.v1.DeploymentStrategy"));
}

#[test]
fn the_overlay_must_fit_the_components() {
    for (text, words) in [
        ("[nothing]\na = 1", "line 2: no component nothing"),
        ("[io.k8s.api.core.v1.Pod]\nspec.nothing = 1", "has no field spec.nothing"),
        ("[io.k8s.api.core.v1.Pod]\nspec", "neither a section"),
        ("[io.k8s.api.core.v1.Pod]\nspec = {", "unexpected end of JSON input"),
    ] {
        let published = Tree::parse(&decompress(PUBLISHED)).expect("JSON");
        let mut built = build::build(published.get("components").expect("components"));
        let problem = defaults::put(&mut built, text).expect_err("a bad overlay");
        assert!(problem.contains(words), "{problem}");
    }
}
