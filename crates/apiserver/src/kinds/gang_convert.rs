//! Conversion of Workloads and PodGroups between `v1alpha1` (the KEP's form, stored) and `v1beta1` (Kubernetes 1.37).
//!
//! # Invariants
//!
//! - Writes in a version keep the fields that it cannot express: see [`workload_unsaid`] and [`group_unsaid`].
//! - Zero values that Go serializes appear in `v1beta1` only and are never stored, so a write in one version never
//!   looks like a change to the other.
//! - A group without its own policy, which only `v1alpha1` allows, has none in `v1beta1` either.

use muster_schema::{table, zero};
use muster_tree::{Text, Tree};

use super::with_api_version;
use crate::registry::Resource;

/// (stored, `v1beta1`) condition types.
const TYPES: (&str, &str) = ("PodGroupScheduled", "PodGroupInitiallyScheduled");
const CONDITIONS: [&str; 2] = ["status", "conditions"];
const TEMPLATES: [&str; 2] = ["spec", "podGroupTemplates"];
/// (stored, `v1beta1`) policy fields.
const POLICY: (&str, &str) = ("policy", "schedulingPolicy");
/// (stored) reference fields of a group.
const REFERENCES: [&str; 3] = ["workloadRef", "podGroupTemplateRef", "podGroupTemplateName"];

/// The version that is the `v1beta1` form.
const RELEASED: &str = "v1beta1";
/// The default preemption policy in `v1beta1`.
const PREEMPTS: &str = "PreemptLowerPriority";

/// Whether a version is `v1beta1`.
pub(super) fn is_v1beta1(resource: &Resource, version: usize) -> bool {
    resource.versions[version].name == RELEASED
}

/// Converts a stored Workload to a version.
pub(super) fn workload_to_wire(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.api_version(version));
    if !is_v1beta1(resource, version) {
        return tree;
    }
    // `v1beta1` has neither the older list nor generations.
    let tree = tree.without(&["spec", "podGroups"]).without(&["metadata", "generation"]);
    with_zeros(resource, version, &templates(&tree, template_to_wire))
}

/// Converts a template to `v1beta1`.
pub(super) fn template_to_wire(template: &Tree) -> Tree {
    match template.get(POLICY.0) {
        Some(policy) => template.without_key(POLICY.0).with_key(POLICY.1, policy.clone()),
        None => template.clone(),
    }
}

/// Converts a Workload to the stored version.
pub(super) fn workload_to_storage(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.storage_api_version());
    if !is_v1beta1(resource, version) {
        return tree;
    }
    // Hierarchies of groups are not served, as with the upstream gate off.
    let tree = tree.without(&["spec", "compositePodGroupTemplates"]);
    templates(&tree, |template| {
        let template = without_nulls(template);
        match template.get(POLICY.1) {
            Some(policy) => template.without_key(POLICY.1).with_key(POLICY.0, policy.clone()),
            None => template,
        }
    })
}

/// Converts a Workload to the stored version and restores from `old` what the request's version cannot express.
pub(super) fn workload_unsaid(resource: &Resource, new: Tree, old: &Tree, version: usize) -> Tree {
    if !is_v1beta1(resource, version) {
        return new;
    }
    let before = old.items_at(&TEMPLATES);
    let new = templates(&new, |template| {
        // Templates are matched by name: their order may change.
        let same = before.iter().find(|old| old.str_at(&["name"]) == template.str_at(&["name"]));
        let (Some(old), Some(policy)) = (same, template.get(POLICY.0)) else {
            return template.clone();
        };
        match (old.get(POLICY.0), old.get(POLICY.1)) {
            (None, Some(_)) => template.without_key(POLICY.0).with_key(POLICY.1, policy.clone()),
            (Some(_), Some(_)) => template.with_key(POLICY.1, policy.clone()),
            _ => template.clone(),
        }
    });
    match old.at(&["spec", "podGroups"]) {
        Some(groups) => new.with(&["spec", "podGroups"], groups.clone()),
        None => new,
    }
}

fn templates(tree: &Tree, change: impl Fn(&Tree) -> Tree) -> Tree {
    match tree.at(&TEMPLATES) {
        Some(Tree::Null) => tree.without(&TEMPLATES),
        Some(templates) => tree.with(&TEMPLATES, templates.map_items(|_, template| change(template))),
        None => tree.clone(),
    }
}

fn without_nulls(map: &Tree) -> Tree {
    map.map_entries(|_, value| (!value.is_null()).then(|| value.clone()))
}

/// `v1beta1` with Go's zero values.
fn with_zeros(resource: &Resource, version: usize, wire: &Tree) -> Tree {
    zero::written(table::builtin(), resource.versions[version].schema.id, wire)
}

/// Adds the fields that every `v1beta1` group has, though the schema has no default.
pub(super) fn group_defaulted(wire: Tree) -> Tree {
    let says = wire.at(&["spec", "preemptionPolicy"]).is_some();
    if says || !wire.str_at(&["apiVersion"]).ends_with(RELEASED) || wire.get("spec").is_none() {
        return wire;
    }
    wire.with(&["spec", "preemptionPolicy"], PREEMPTS)
}

/// Converts a stored PodGroup to a version.
pub(super) fn group_to_wire(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.api_version(version));
    if !is_v1beta1(resource, version) {
        return tree;
    }
    let reference = tree.at(&["spec", "workloadRef"]).map(|reference| {
        let names = [
            ("workloadName", reference.text_at(&["name"])),
            ("templateName", tree.text_at(&["spec", "podGroupTemplateName"])),
        ];
        Tree::map(names.into_iter().filter(|(_, name)| !name.is_empty()))
    });
    let has_policy = tree.at(&["spec", "schedulingPolicy"]).is_some();
    let tree = REFERENCES.iter().fold(tree, |tree, key| tree.without(&["spec", key]));
    let tree = tree.with_option(&["spec", "workloadRef"], reference);
    let tree = tree.without(&["status", "scheduledPods"]).without(&["metadata", "generation"]);
    let tree = conditions(&tree, condition_to_wire);
    let shown = with_zeros(resource, version, &tree);
    if has_policy { shown } else { shown.without(&["spec", "schedulingPolicy"]) }
}

/// Converts a condition to `v1beta1`, which omits conditions with status Unknown.
fn condition_to_wire(condition: &Tree) -> Option<Tree> {
    if condition.str_at(&["type"]) != TYPES.0 {
        return Some(condition.clone());
    }
    let reason = match condition.str_at(&["reason"]) {
        "MinCountSatisfied" => "Scheduled",
        "SchedulingTimeout" => "Unschedulable",
        other => other,
    };
    // An undecided group has no condition in `v1beta1`.
    let is_known = condition.str_at(&["status"]) != "Unknown";
    is_known.then(|| condition.with(&["type"], TYPES.1).with(&["reason"], reason))
}

/// Converts a PodGroup to the stored version.
pub(super) fn group_to_storage(resource: &Resource, tree: &Tree, version: usize) -> Tree {
    let tree = with_api_version(tree, &resource.storage_api_version());
    if !is_v1beta1(resource, version) {
        return tree;
    }
    // Hierarchies of groups are not served, as with the upstream gate off.
    let tree = tree.without(&["spec", "parentCompositePodGroupName"]);
    let Some(reference) = tree.at(&["spec", "workloadRef"]).filter(|reference| reference.is_map()) else {
        return conditions(&tree.without(&["spec", "workloadRef"]), condition_to_storage);
    };
    let part = |key: &str| -> Text { reference.text_at(&[key]) };
    let (workload, template) = (part("workloadName"), part("templateName"));
    let stored = tree.with(&["spec", "workloadRef"], Tree::map([("name", workload)]));
    let stored = if template.is_empty() {
        stored
    } else {
        stored
            .with(&["spec", "podGroupTemplateRef", "name"], &template)
            .with(&["spec", "podGroupTemplateName"], template)
    };
    conditions(&stored, condition_to_storage)
}

fn condition_to_storage(condition: &Tree) -> Option<Tree> {
    if condition.str_at(&["type"]) != TYPES.1 {
        return Some(condition.clone());
    }
    let reason = match condition.str_at(&["reason"]) {
        "Scheduled" => "MinCountSatisfied",
        other => other,
    };
    Some(condition.with(&["type"], TYPES.0).with(&["reason"], reason))
}

/// Converts a PodGroup to the stored version and restores from `old` what the request's version cannot express.
pub(super) fn group_unsaid(resource: &Resource, new: Tree, old: &Tree, version: usize) -> Tree {
    if !is_v1beta1(resource, version) {
        return new;
    }
    let new = match (new.get("spec"), old.get("spec")) {
        (Some(spec), Some(before)) => {
            let spec = spec_unsaid(spec, before);
            new.with_key("spec", spec)
        }
        _ => new,
    };
    status_unsaid(new, old)
}

/// Restores reference fields if the names are unchanged; and the absence of policy and mode, which `v1beta1` always
/// has.
fn spec_unsaid(spec: &Tree, before: &Tree) -> Tree {
    let names = |spec: &Tree| {
        let name = spec.text_at(&["workloadRef", "name"]);
        (spec.get("workloadRef").is_some(), name, spec.text_at(&["podGroupTemplateName"]))
    };
    let mut spec = spec.clone();
    if names(&spec) == names(before) {
        spec = REFERENCES.iter().fold(spec, |spec, key| spec.with_option(&[key], before.get(key).cloned()));
    }
    let is_unsaid = |key: &str, value: Option<&Tree>| match (key, value) {
        ("schedulingPolicy", Some(policy)) => policy.is_empty(),
        ("disruptionMode", Some(mode)) => mode.get("single").is_some() && mode.entries().len() == 1,
        ("preemptionPolicy", Some(policy)) => policy.as_str() == Some(PREEMPTS),
        _ => false,
    };
    ["schedulingPolicy", "disruptionMode", "preemptionPolicy"].iter().fold(spec, |spec, key| {
        if before.get(key).is_none() && is_unsaid(key, spec.get(key)) { spec.without_key(key) } else { spec }
    })
}

/// Restores the count, an Unknown condition, and reasons that `v1beta1` maps to others.
fn status_unsaid(new: Tree, old: &Tree) -> Tree {
    let count = old.at(&["status", "scheduledPods"]);
    let new = match count {
        Some(count) => new.with(&["status", "scheduledPods"], count.clone()),
        None => new,
    };
    let is_ours = |condition: &&Tree| condition.str_at(&["type"]) == TYPES.0;
    let Some(before) = old.items_at(&CONDITIONS).iter().find(is_ours) else {
        return new;
    };
    let mut all = new.items_at(&CONDITIONS).to_vec();
    let shown = condition_to_wire(before).and_then(|shown| condition_to_storage(&shown));
    match (all.iter().position(|condition| is_ours(&condition)), shown) {
        (Some(at), Some(shown)) if all[at] == shown => all[at] = before.clone(),
        (None, None) => all.push(before.clone()),
        _ => return new,
    }
    new.with(&CONDITIONS, Tree::list(all))
}

fn conditions(tree: &Tree, change: impl Fn(&Tree) -> Option<Tree>) -> Tree {
    let old = tree.items_at(&CONDITIONS);
    if old.is_empty() {
        return tree.clone();
    }
    let changed: Vec<Tree> = old.iter().filter_map(change).collect();
    if changed.is_empty() { tree.without(&CONDITIONS) } else { tree.with(&CONDITIONS, Tree::list(changed)) }
}
