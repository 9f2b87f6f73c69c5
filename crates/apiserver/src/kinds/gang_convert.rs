//! The two forms of Workloads and PodGroups: the proposal's (`v1alpha1`, stored) and the released one (`v1beta1`).

use muster_tree::{Text, Tree};

use super::with_api_version;
use crate::registry::Resource;

/// (type here, type there) of conditions.
const TYPES: (&str, &str) = ("PodGroupScheduled", "PodGroupInitiallyScheduled");

fn is_released(resource: &Resource, version: usize) -> bool {
    resource.versions[version].name == "v1beta1"
}

/// A Workload in the form of a version.
pub(super) fn workload_to_wire(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.api_version(version));
    if !is_released(resource, version) {
        return tree;
    }
    policies(&tree, "policy", "schedulingPolicy").without(&["metadata", "generation"])
}

/// The stored form of a Workload that came in a version.
pub(super) fn workload_to_storage(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.storage_api_version());
    if is_released(resource, version) { policies(&tree, "schedulingPolicy", "policy") } else { tree }
}

fn policies(tree: &Tree, from: &str, to: &str) -> Tree {
    let path = ["spec", "podGroupTemplates"];
    let Some(templates) = tree.at(&path) else {
        return tree.clone();
    };
    let templates = templates.map_items(|_, template| match template.get(from) {
        Some(policy) => template.without_key(from).with_key(to, policy.clone()),
        None => template.clone(),
    });
    tree.with(&path, templates)
}

/// A PodGroup in the form of a version.
pub(super) fn group_to_wire(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.api_version(version));
    if !is_released(resource, version) {
        return tree;
    }
    let workload = tree.text_at(&["spec", "workloadRef", "name"]);
    let template = tree.text_at(&["spec", "podGroupTemplateName"]);
    let reference = (!workload.is_empty()).then(|| {
        let template = (!template.is_empty()).then_some(("templateName", template));
        Tree::map([("workloadName", workload)].into_iter().chain(template))
    });
    let tree = tree
        .without(&["spec", "podGroupTemplateRef"])
        .without(&["spec", "podGroupTemplateName"])
        .with_option(&["spec", "workloadRef"], reference);
    let tree = tree.without(&["status", "scheduledPods"]).without(&["metadata", "generation"]);
    conditions(&tree, |condition| {
        if condition.str_at(&["type"]) != TYPES.0 {
            return Some(condition.clone());
        }
        let known = condition.str_at(&["status"]) != "Unknown";
        let reason = match condition.str_at(&["reason"]) {
            "MinCountSatisfied" => "Scheduled",
            "SchedulingTimeout" => "Unschedulable",
            other => other,
        };
        known.then(|| condition.with(&["type"], TYPES.1).with(&["reason"], reason))
    })
}

/// The stored form of a PodGroup that came in a version.
pub(super) fn group_to_storage(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.storage_api_version());
    if !is_released(resource, version) {
        return tree;
    }
    let part = |key: &str| tree.text_at(&["spec", "workloadRef", key]);
    let (workload, template): (Text, Text) = (part("workloadName"), part("templateName"));
    let mut stored = tree.without(&["spec", "workloadRef"]);
    if !workload.is_empty() {
        stored = stored.with(&["spec", "workloadRef", "name"], workload);
    }
    if !template.is_empty() {
        stored = stored
            .with(&["spec", "podGroupTemplateRef", "name"], &template)
            .with(&["spec", "podGroupTemplateName"], template);
    }
    conditions(&stored, |condition| {
        if condition.str_at(&["type"]) != TYPES.1 {
            return Some(condition.clone());
        }
        let reason = match condition.str_at(&["reason"]) {
            "Scheduled" => "MinCountSatisfied",
            other => other,
        };
        Some(condition.with(&["type"], TYPES.0).with(&["reason"], reason))
    })
}

fn conditions(tree: &Tree, change: impl Fn(&Tree) -> Option<Tree>) -> Tree {
    let path = ["status", "conditions"];
    let old = tree.items_at(&path);
    if old.is_empty() {
        return tree.clone();
    }
    tree.with(&path, Tree::list(old.iter().filter_map(change).collect::<Vec<_>>()))
}
