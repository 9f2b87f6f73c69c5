//! Workloads and PodGroups: gangs as objects.
//!
//! A Workload says how groups of pods are placed, each PodGroup is one such group. Both are served in two forms, see
//! `gang_convert`; the stored one is the proposal's.
//!
//! # Invariants
//!
//! - What a group refers to is fixed; how many members a gang needs may change, be it in a template or in a group.
//! - Templates are told apart by their names: their order means nothing.
//! - Nothing here looks whether the Workload of a group exists: the order of creation does not matter.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Text, Tree, tree};

use super::at::At;
use super::gang_check::{self, FIXED, Form};
use super::{Cx, Errors, Generation, Strategy, gang_convert, shown};
use crate::registry::Resource;
use crate::status::Status;

/// Most templates of a Workload.
const TEMPLATES_MAX: usize = 8;
/// The lists that a Workload may hold: that of the proposal, and that of the time before it.
const LISTS: [&str; 2] = ["podGroupTemplates", "podGroups"];
/// What admission fills in, and what a client that sends a whole object need not know.
const FILLED: [&str; 2] = ["priority", "preemptionPolicy"];

const SPEC: At<'static> = At::Root("spec");

/// What Workloads do differently.
#[derive(Debug)]
pub(super) struct Workload;

impl Strategy for Workload {
    fn prepare_update(&self, new: Tree, old: &Tree, cx: &Cx<'_>) -> Result<Tree, Status> {
        if Form::of(cx) == Form::Released {
            return Ok(new);
        }
        let path = ["spec", LISTS[0]];
        let Some(templates) = new.at(&path) else {
            return Ok(new);
        };
        let before = old.items_at(&path);
        let templates = templates.map_items(|_, new| match named(before, new.str_at(&["name"])) {
            Some(old) => still_filled(new, old),
            None => new.clone(),
        });
        Ok(new.with(&path, templates))
    }

    fn validate_create(&self, new: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (spec, form) = (new.get("spec").unwrap_or(&Tree::Null), Form::of(cx));
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

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (spec, before) = (new.get("spec").unwrap_or(&Tree::Null), old.get("spec").unwrap_or(&Tree::Null));
        if spec == before {
            return;
        }
        let form = Form::of(cx);
        one_list(spec, form, errors);
        let (owner, owner_before) = (spec.get("controllerRef"), before.get("controllerRef"));
        let at = SPEC.field("controllerRef");
        match owner {
            // Only the proposal's form lets it be set later.
            Some(owner) if owner_before.is_none() && form == Form::Proposal => {
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

    fn generation(&self) -> Generation {
        Generation::Spec
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::workload_to_wire(resource, tree, version)
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::workload_to_storage(resource, tree, version)
    }

    fn unsaid(&self, resource: &Resource, new: Tree, old: &Tree, version: usize) -> Tree {
        gang_convert::workload_unsaid(resource, new, old, version)
    }

    fn wire_has_zeros(&self, resource: &Resource, version: usize) -> bool {
        gang_convert::is_released(resource, version)
    }
}

/// The entry of that name.
fn named<'a>(all: &'a [Tree], name: &str) -> Option<&'a Tree> {
    all.iter().find(|entry| entry.str_at(&["name"]) == name)
}

/// With what was filled in before, where the class is the same and nothing is said of it.
fn still_filled(new: &Tree, old: &Tree) -> Tree {
    if new.get("priorityClassName") != old.get("priorityClassName") {
        return new.clone();
    }
    FILLED.iter().fold(new.clone(), |new, key| match (new.get(key), old.get(key)) {
        (None, Some(value)) => new.with_key(key, value.clone()),
        _ => new,
    })
}

/// Exactly one list of templates.
fn one_list(spec: &Tree, form: Form, errors: &mut Errors) {
    match LISTS.map(|key| !spec.items_at(&[key]).is_empty()) {
        [false, false] if form == Form::Released => {
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

/// All templates have one priority.
fn one_priority(templates: &[Tree], form: Form, list: &At<'_>, errors: &mut Errors) {
    let Some(first) = templates.first() else {
        return;
    };
    for (i, template) in templates.iter().enumerate() {
        let other =
            ["priorityClassName", "priority"].into_iter().find(|key| template.get(key) != first.get(key));
        let Some(key) = other else {
            continue;
        };
        if form == Form::Released {
            errors.push(FieldError::invalid("spec", Tree::Null, "detected multiple priority configurations"));
            return;
        }
        let shown = template.get(key).cloned().unwrap_or(Tree::Null);
        errors.push(FieldError::invalid(list.item(i).field(key), shown, "must be the same in all templates"));
    }
}

/// The fields of a template in the order that refusals show them.
const ORDER: [&str; 3] = ["name", "schedulingPolicy", "schedulingConstraints"];

/// A template as the released form has it, with the one field that is there also when it says nothing.
fn as_released(template: &Tree) -> Tree {
    let wire = gang_convert::template_to_wire(template);
    match wire.get(ORDER[2]) {
        Some(_) => wire,
        None => wire.with_key(ORDER[2], Tree::Null),
    }
}

fn templates(templates: &[Tree], form: Form, list: &At<'_>, errors: &mut Errors) {
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
                Form::Released => {
                    FieldError::duplicate_as(at, shown::ordered(&as_released(template), &ORDER))
                }
                Form::Proposal => FieldError::duplicate(at, tree!({"name": name})),
            });
        }
        template_policy(template, form, &at, errors);
        gang_check::extras(template, &at, errors);
    }
}

/// The policy of a template stands under either of its names, or under both.
fn template_policy(template: &Tree, form: Form, at: &At<'_>, errors: &mut Errors) {
    let later = At::Field(at, "schedulingPolicy");
    let first = if form == Form::Released { later } else { At::Field(at, "policy") };
    match (template.get("policy"), template.get("schedulingPolicy")) {
        (Some(a), Some(b)) if a != b => {
            let why = format!("must equal {first} when both are set");
            errors.push(FieldError::invalid(later, b.clone(), why));
        }
        (None, Some(policy)) => gang_check::policy(policy, &later, errors),
        (policy, _) => gang_check::policy(policy.unwrap_or(&Tree::Null), &first, errors),
    }
}

/// A list of templates after an update: the same names, with the same policies.
fn kept_templates(new: &[Tree], old: &[Tree], form: Form, list: &At<'_>, errors: &mut Errors) {
    let names =
        |all: &[Tree]| -> Vec<Text> { all.iter().map(|template| template.text_at(&["name"])).collect() };
    let (after, before) = (names(new), names(old));
    let errors_before = errors.len();
    match form {
        Form::Proposal => {
            let set = |names: &[Text]| names.iter().cloned().collect::<BTreeSet<Text>>();
            if after.len() != before.len() || set(&after) != set(&before) {
                let why = "field is immutable: templates cannot be added or removed";
                errors.push(FieldError::invalid(list, Tree::list(&after), why));
            }
        }
        Form::Released => {
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

fn kept_template(new: &Tree, old: &Tree, form: Form, at: &At<'_>, errors: &mut Errors) {
    template_policy(new, form, at, errors);
    let policy = |template: &Tree| {
        template.get("policy").or_else(|| template.get("schedulingPolicy")).cloned().unwrap_or(Tree::Null)
    };
    let key =
        if form == Form::Released || new.get("policy").is_none() { "schedulingPolicy" } else { "policy" };
    gang_check::policy_kept(&policy(new), &policy(old), form, &at.field(key), errors);
    for key in FIXED {
        form.fixed(&at.field(key), new.get(key), old.get(key), errors);
    }
}

/// What PodGroups do differently.
#[derive(Debug)]
pub(super) struct PodGroup;

/// The two places where a group names its template.
const BY_REF: [&str; 3] = ["spec", "podGroupTemplateRef", "name"];
const BY_NAME: [&str; 2] = ["spec", "podGroupTemplateName"];

impl Strategy for PodGroup {
    fn default_first(&self, tree: Tree) -> Tree {
        gang_convert::group_defaulted(tree)
    }

    fn default(&self, tree: Tree) -> Tree {
        // Every reader finds its field: each of the two fills in for the other.
        match (tree.text_at(&BY_REF), tree.text_at(&BY_NAME)) {
            (a, b) if a.is_empty() && !b.is_empty() => tree.with(&BY_REF, b),
            (a, b) if b.is_empty() && !a.is_empty() => tree.with(&BY_NAME, a),
            _ => tree,
        }
    }

    fn prepare_update(&self, new: Tree, old: &Tree, cx: &Cx<'_>) -> Result<Tree, Status> {
        match (new.get("spec"), old.get("spec")) {
            (Some(spec), Some(before)) if Form::of(cx) == Form::Proposal => {
                let spec = still_filled(spec, before);
                Ok(new.with_key("spec", spec))
            }
            _ => Ok(new),
        }
    }

    fn validate_create(&self, new: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (Some(spec), form) = (new.get("spec"), Form::of(cx)) else {
            errors.push(FieldError::required("spec", ""));
            return;
        };
        let inline = spec.get("schedulingPolicy");
        match form {
            Form::Released => released_reference(spec, errors),
            Form::Proposal => reference(spec, new.str_at(&["metadata", "namespace"]), errors),
        }
        if form == Form::Released || inline.is_some() {
            gang_check::policy(inline.unwrap_or(&Tree::Null), &SPEC.field("schedulingPolicy"), errors);
        }
        gang_check::extras(spec, &SPEC, errors);
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        gang_check::status(new, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (spec, before) = (new.get("spec").unwrap_or(&Tree::Null), old.get("spec").unwrap_or(&Tree::Null));
        if spec == before {
            return;
        }
        let form = Form::of(cx);
        kept_references(spec, before, form, errors);
        let at = SPEC.field("schedulingPolicy");
        match (spec.get("schedulingPolicy"), before.get("schedulingPolicy")) {
            (new, old) if new == old => {}
            (Some(policy), Some(old)) => {
                gang_check::policy(policy, &at, errors);
                gang_check::policy_kept(policy, old, form, &at, errors);
            }
            (new, old) if form == Form::Proposal => at.immutable(new, old, errors),
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

    fn generation(&self) -> Generation {
        Generation::Spec
    }

    fn to_wire(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::group_to_wire(resource, tree, version)
    }

    fn to_storage(&self, resource: &Resource, tree: &Tree, version: usize) -> Tree {
        gang_convert::group_to_storage(resource, tree, version)
    }

    fn unsaid(&self, resource: &Resource, new: Tree, old: &Tree, version: usize) -> Tree {
        gang_convert::group_unsaid(resource, new, old, version)
    }

    fn wire_has_zeros(&self, resource: &Resource, version: usize) -> bool {
        gang_convert::is_released(resource, version)
    }
}

/// The fields by which a group refers to its Workload, and to the template there.
const REFERENCES: [&str; 3] = ["workloadRef", "podGroupTemplateRef", "podGroupTemplateName"];

fn kept_references(spec: &Tree, before: &Tree, form: Form, errors: &mut Errors) {
    if form == Form::Released {
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

/// The released form names the Workload and the template side by side.
fn released_reference(spec: &Tree, errors: &mut Errors) {
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

/// The proposal's form: a reference to the Workload, and the name of the template in two places.
fn reference(spec: &Tree, namespace: &str, errors: &mut Errors) {
    let by_ref = At::Field(&SPEC, "podGroupTemplateRef");
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

/// The group of Workloads, as a reference names it before the version.
const OWN_GROUP: &str = "scheduling.k8s.io/";

fn workload_reference(reference: &Tree, namespace: &str, errors: &mut Errors) {
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
