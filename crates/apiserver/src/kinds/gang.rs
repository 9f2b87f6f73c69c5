//! Workloads and PodGroups, the gang scheduling API.
//!
//! A Workload describes how groups of pods are placed, a PodGroup is one such group. Both are served in `v1alpha1`
//! (the KEP's form, stored) and `v1beta1` (Kubernetes 1.37), see `gang_convert`.
//!
//! # Invariants
//!
//! - References of a group are immutable; `minCount` of a gang may change, in templates and groups.
//! - Templates are identified by name; their order is irrelevant.
//! - A group's Workload need not exist: the creation order is free.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree, tree};

use super::field_path::FieldPath;
use super::gang_check::{self, FIXED, GangVersion};
use super::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, gang_convert, go_format};
use crate::registry::Resource;
use crate::status::Status;

/// Maximum number of templates of a Workload.
const TEMPLATES_MAX: usize = 8;
/// The template lists: the KEP's, and that of an earlier version of it.
const LISTS: [&str; 2] = ["podGroupTemplates", "podGroups"];
/// Set by admission; clients that replace the object may omit them.
const FILLED: [&str; 2] = ["priority", "preemptionPolicy"];

const SPEC: FieldPath<'static> = FieldPath::Root("spec");

#[derive(Debug)]
pub(super) struct Workload;

impl ResourceStrategy for Workload {
    fn prepare_update(&self, new: Tree, old: &Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        if GangVersion::of(cx) == GangVersion::V1Beta1 {
            return Ok(new);
        }
        let path = ["spec", LISTS[0]];
        let Some(templates) = new.at(&path) else {
            return Ok(new);
        };
        let before = old.items_at(&path);
        let templates = templates.map_items(|_, new| match named(before, new.str_at(&["name"])) {
            // Without this, a client that replaces the Workload without resolved priorities would fail immutability
            // checks.
            Some(old) => still_filled(new, old),
            None => new.clone(),
        });
        Ok(new.with(&path, templates))
    }

    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (spec, form) = (new.get("spec").unwrap_or(&Tree::Null), GangVersion::of(cx));
        one_list(spec, form, errors);
        if let Some(reference) = spec.get("controllerRef") {
            gang_check::controller(reference, &SPEC.field("controllerRef"), errors);
        }
        for key in LISTS {
            let (list, at) = (spec.items_at(&[key]), SPEC.field(key));
            one_priority(list, form, &at, errors);
            templates(list, form, &at, errors);
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (spec, before) = (new.get("spec").unwrap_or(&Tree::Null), old.get("spec").unwrap_or(&Tree::Null));
        if spec == before {
            return;
        }
        let form = GangVersion::of(cx);
        one_list(spec, form, errors);
        let (owner, owner_before) = (spec.get("controllerRef"), before.get("controllerRef"));
        let at = SPEC.field("controllerRef");
        match owner {
            // Only `v1alpha1` allows setting it later.
            Some(owner) if owner_before.is_none() && form == GangVersion::V1Alpha1 => {
                gang_check::controller(owner, &at, errors);
            }
            _ => form.fixed(&at, owner, owner_before, errors),
        }
        for key in LISTS {
            kept_templates(spec.items_at(&[key]), before.items_at(&[key]), form, &SPEC.field(key), errors);
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::workload_to_wire(resource, tree, version)
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::workload_to_storage(resource, tree, version)
    }

    fn restore_unrepresentable(&self, resource: &Resource, new: Tree, old: &Tree, version: usize) -> Tree {
        gang_convert::workload_unsaid(resource, new, old, version)
    }

    fn wire_has_zeros(&self, resource: &Resource, version: usize) -> bool {
        gang_convert::is_v1beta1(resource, version)
    }
}

/// The list item with this name.
fn named<'a>(all: &'a [Tree], name: &str) -> Option<&'a Tree> {
    all.iter().find(|entry| entry.str_at(&["name"]) == name)
}

/// Keeps the resolved priority of a template with an unchanged class.
fn still_filled(new: &Tree, old: &Tree) -> Tree {
    if new.get("priorityClassName") != old.get("priorityClassName") {
        return new.clone();
    }
    FILLED.iter().fold(new.clone(), |new, key| match (new.get(key), old.get(key)) {
        (None, Some(value)) => new.with_key(key, value.clone()),
        _ => new,
    })
}

/// Exactly one of the template lists is required.
fn one_list(spec: &Tree, form: GangVersion, errors: &mut FieldErrors) {
    match LISTS.map(|key| !spec.items_at(&[key]).is_empty()) {
        [false, false] if form == GangVersion::V1Beta1 => {
            let why = "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`";
            errors.push(FieldError::invalid("spec", "", why));
        }
        [false, false] => SPEC.field(LISTS[0]).required(errors),
        [true, true] => {
            let why = "may not be set together with podGroupTemplates";
            errors.push(FieldError::forbidden(SPEC.field(LISTS[1]), why));
        }
        _ => {}
    }
}

/// All templates must have the same priority.
fn one_priority(templates: &[Tree], form: GangVersion, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(first) = templates.first() else {
        return;
    };
    for (i, template) in templates.iter().enumerate() {
        let other =
            ["priorityClassName", "priority"].into_iter().find(|key| template.get(key) != first.get(key));
        let Some(key) = other else {
            continue;
        };
        if form == GangVersion::V1Beta1 {
            errors.push(FieldError::invalid("spec", Tree::Null, "detected multiple priority configurations"));
            return;
        }
        let shown = template.get(key).cloned().unwrap_or(Tree::Null);
        errors.push(FieldError::invalid(list.item(i).field(key), shown, "must be the same in all templates"));
    }
}

/// Template fields in the order of error messages.
const ORDER: [&str; 3] = ["name", "schedulingPolicy", "schedulingConstraints"];

/// A template in `v1beta1`, where one field is present even when unset.
fn as_released(template: &Tree) -> Tree {
    let wire = gang_convert::template_to_wire(template);
    match wire.get(ORDER[2]) {
        Some(_) => wire,
        None => wire.with_key(ORDER[2], Tree::Null),
    }
}

fn templates(templates: &[Tree], form: GangVersion, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    if templates.len() > TEMPLATES_MAX {
        errors.push(FieldError::too_many(list, templates.len(), TEMPLATES_MAX));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, template) in templates.iter().enumerate() {
        let at = list.item(i);
        let name = template.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
        } else {
            at.field("name").problems(name, names::label(name), errors);
        }
        if !seen.insert(name) {
            errors.push(match form {
                GangVersion::V1Beta1 => {
                    FieldError::duplicate_as(at, go_format::ordered(&as_released(template), &ORDER))
                }
                GangVersion::V1Alpha1 => FieldError::duplicate(at, tree!({"name": name})),
            });
        }
        template_policy(template, form, &at, errors);
        gang_check::extras(template, &at, errors);
    }
}

/// A template has its policy under either of two field names, or both.
fn template_policy(template: &Tree, form: GangVersion, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let later = FieldPath::Field(at, "schedulingPolicy");
    let first = if form == GangVersion::V1Beta1 { later } else { FieldPath::Field(at, "policy") };
    match (template.get("policy"), template.get("schedulingPolicy")) {
        (Some(a), Some(b)) if a != b => {
            let why = format!("must equal {first} when both are set");
            errors.push(FieldError::invalid(later, b.clone(), why));
        }
        (None, Some(policy)) => gang_check::policy(policy, &later, errors),
        (policy, _) => gang_check::policy(policy.unwrap_or(&Tree::Null), &first, errors),
    }
}

/// On update templates keep their names and policies.
fn kept_templates(
    new: &[Tree],
    old: &[Tree],
    form: GangVersion,
    list: &FieldPath<'_>,
    errors: &mut FieldErrors,
) {
    let names =
        |all: &[Tree]| -> Vec<Text> { all.iter().map(|template| template.text_at(&["name"])).collect() };
    let (after, before) = (names(new), names(old));
    let errors_before = errors.len();
    match form {
        GangVersion::V1Alpha1 => {
            let set = |names: &[Text]| names.iter().cloned().collect::<BTreeSet<Text>>();
            if after.len() != before.len() || set(&after) != set(&before) {
                let why = "field is immutable: templates cannot be added or removed";
                errors.push(FieldError::invalid(list, Tree::list(&after), why));
            }
        }
        GangVersion::V1Beta1 => {
            let added = (0..).zip(&after).filter(|(_, name)| !before.contains(name));
            errors.extend(added.map(|(i, _)| FieldError::forbidden(list.item(i), "item may not be added")));
            let removed = before.iter().filter(|name| !after.contains(name));
            errors.extend(removed.map(|_| FieldError::forbidden(list, "item may not be removed")));
        }
    }
    if errors.len() > errors_before {
        return;
    }
    for (i, template) in new.iter().enumerate() {
        if let Some(old) = named(old, &after[i]).filter(|old| *old != template) {
            kept_template(template, old, form, &list.item(i), errors);
        }
    }
}

fn kept_template(new: &Tree, old: &Tree, form: GangVersion, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    template_policy(new, form, at, errors);
    let policy = |template: &Tree| {
        template.get("policy").or_else(|| template.get("schedulingPolicy")).cloned().unwrap_or(Tree::Null)
    };
    let key = if form == GangVersion::V1Beta1 || new.get("policy").is_none() {
        "schedulingPolicy"
    } else {
        "policy"
    };
    gang_check::policy_kept(&policy(new), &policy(old), form, &at.field(key), errors);
    for key in FIXED {
        form.fixed(&at.field(key), new.get(key), old.get(key), errors);
    }
}

#[derive(Debug)]
pub(super) struct PodGroup;

/// The two fields that name a group's template.
const BY_REF: [&str; 3] = ["spec", "podGroupTemplateRef", "name"];
const BY_NAME: [&str; 2] = ["spec", "podGroupTemplateName"];

impl ResourceStrategy for PodGroup {
    fn default_before_schema(&self, tree: Tree) -> Tree {
        gang_convert::group_defaulted(tree)
    }

    fn default(&self, tree: Tree) -> Tree {
        // Each of the two fields defaults to the other, for clients that read only one.
        match (tree.text_at(&BY_REF), tree.text_at(&BY_NAME)) {
            (a, b) if a.is_empty() && !b.is_empty() => tree.with(&BY_REF, b),
            (a, b) if b.is_empty() && !a.is_empty() => tree.with(&BY_NAME, a),
            _ => tree,
        }
    }

    fn prepare_update(&self, new: Tree, old: &Tree, cx: &StrategyContext<'_>) -> Result<Tree, Status> {
        match (new.get("spec"), old.get("spec")) {
            (Some(spec), Some(before)) if GangVersion::of(cx) == GangVersion::V1Alpha1 => {
                let spec = still_filled(spec, before);
                Ok(new.with_key("spec", spec))
            }
            _ => Ok(new),
        }
    }

    fn validate_create(&self, new: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (Some(spec), form) = (new.get("spec"), GangVersion::of(cx)) else {
            errors.push(FieldError::required("spec", ""));
            return;
        };
        let inline = spec.get("schedulingPolicy");
        match form {
            GangVersion::V1Beta1 => released_reference(spec, errors),
            GangVersion::V1Alpha1 => reference(spec, new.str_at(&["metadata", "namespace"]), errors),
        }
        if form == GangVersion::V1Beta1 || inline.is_some() {
            gang_check::policy(inline.unwrap_or(&Tree::Null), &SPEC.field("schedulingPolicy"), errors);
        }
        gang_check::extras(spec, &SPEC, errors);
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        gang_check::status(new, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (spec, before) = (new.get("spec").unwrap_or(&Tree::Null), old.get("spec").unwrap_or(&Tree::Null));
        if spec == before {
            return;
        }
        let form = GangVersion::of(cx);
        kept_references(spec, before, form, errors);
        let at = SPEC.field("schedulingPolicy");
        match (spec.get("schedulingPolicy"), before.get("schedulingPolicy")) {
            (new, old) if new == old => {}
            (Some(policy), Some(old)) => {
                gang_check::policy(policy, &at, errors);
                gang_check::policy_kept(policy, old, form, &at, errors);
            }
            (new, old) if form == GangVersion::V1Alpha1 => at.immutable(new, old, errors),
            (new, old) => {
                let (new, old) = (new.unwrap_or(&Tree::Null), old.unwrap_or(&Tree::Null));
                gang_check::policy(new, &at, errors);
                gang_check::policy_kept(new, old, form, &at, errors);
            }
        }
        for key in FIXED {
            form.fixed(&SPEC.field(key), spec.get(key), before.get(key), errors);
        }
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn status_keeps_metadata(&self) -> bool {
        true
    }

    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::group_to_wire(resource, tree, version)
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::group_to_storage(resource, tree, version)
    }

    fn restore_unrepresentable(&self, resource: &Resource, new: Tree, old: &Tree, version: usize) -> Tree {
        gang_convert::group_unsaid(resource, new, old, version)
    }

    fn wire_has_zeros(&self, resource: &Resource, version: usize) -> bool {
        gang_convert::is_v1beta1(resource, version)
    }
}

/// The immutable reference fields of a group.
const REFERENCES: [&str; 3] = ["workloadRef", "podGroupTemplateRef", "podGroupTemplateName"];

fn kept_references(spec: &Tree, before: &Tree, form: GangVersion, errors: &mut FieldErrors) {
    if form == GangVersion::V1Beta1 {
        let changed = REFERENCES.iter().any(|key| spec.get(key) != before.get(key));
        if changed {
            let at = SPEC.field(REFERENCES[0]);
            errors.push(FieldError::invalid(at, Tree::Null, "field is immutable"));
        }
        return;
    }
    for key in REFERENCES {
        SPEC.field(key).immutable(spec.get(key), before.get(key), errors);
    }
}

/// `v1beta1` has Workload and template name side by side.
fn released_reference(spec: &Tree, errors: &mut FieldErrors) {
    let Some(reference) = spec.get("workloadRef") else {
        return;
    };
    let at = SPEC.field("workloadRef");
    match reference.str_at(&["name"]) {
        "" => at.field("workloadName").required(errors),
        name => at.field("workloadName").problems(name, names::subdomain(name), errors),
    }
    match spec.str_at(&["podGroupTemplateName"]) {
        "" => at.field("templateName").required(errors),
        name => at.field("templateName").problems(name, names::label(name), errors),
    }
}

/// `v1alpha1` has a reference to the Workload, and the template name in two places.
fn reference(spec: &Tree, namespace: &str, errors: &mut FieldErrors) {
    let by_ref = FieldPath::Field(&SPEC, "podGroupTemplateRef");
    let by_ref = by_ref.field("name");
    let (template, name) = (spec.str_at(&BY_REF[1..]), spec.str_at(&BY_NAME[1..]));
    match spec.get("workloadRef") {
        None if !template.is_empty() => {
            let why = "must be set when a template is named";
            errors.push(FieldError::required(SPEC.field("workloadRef"), why));
        }
        None if spec.get("schedulingPolicy").is_none() => SPEC.field("workloadRef").required(errors),
        None => {}
        Some(reference) => {
            workload_reference(reference, namespace, errors);
            if template.is_empty() {
                by_ref.required(errors);
            }
        }
    }
    if template.is_empty() {
        return;
    }
    by_ref.problems(template, names::label(template), errors);
    if template != name {
        let why = format!("must equal {by_ref} ({template:?})");
        errors.push(FieldError::invalid(SPEC.field("podGroupTemplateName"), name, why));
    }
}

/// The API group in references to Workloads.
const OWN_GROUP: &str = "scheduling.k8s.io/";

fn workload_reference(reference: &Tree, namespace: &str, errors: &mut FieldErrors) {
    let at = SPEC.field("workloadRef");
    match reference.str_at(&["name"]) {
        "" => at.field("name").required(errors),
        name => at.field("name").problems(name, names::subdomain(name), errors),
    }
    let of = reference.str_at(&["namespace"]);
    if !of.is_empty() && of != namespace {
        let why = format!("must be empty or the namespace of the PodGroup ({namespace:?})");
        errors.push(FieldError::invalid(at.field("namespace"), of, why));
    }
    at.field("kind").one_of(reference.str_at(&["kind"]), &["Workload"], errors);
    let version = reference.str_at(&["apiVersion"]);
    let is_ours = version.strip_prefix(OWN_GROUP).is_some_and(|version| !version.is_empty());
    if !version.is_empty() && !is_ours {
        let why = "must be empty or a version of group scheduling.k8s.io";
        errors.push(FieldError::invalid(at.field("apiVersion"), version, why));
    }
}
