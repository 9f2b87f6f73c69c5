//! Workloads and PodGroups: gangs as objects.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::label_key_problems;
use muster_tree::{Text, Tree, tree};

use super::at::At;
use super::{Cx, Errors, Generation, Strategy, gang_convert, shown};
use crate::registry::Resource;
use crate::status::Status;

/// Most templates of a Workload.
const TEMPLATES_MAX: usize = 8;
/// Highest priority of a group.
const PRIORITY_MAX: i64 = 1_000_000_000;
/// Most claims of a group.
const CLAIMS_MAX: usize = 4;

const SPEC: At<'static> = At::Root("spec");

/// What Workloads do differently.
#[derive(Debug)]
pub(super) struct Workload;

impl Strategy for Workload {
    fn validate_create(&self, new: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        workload(new.get("spec").unwrap_or(&Tree::Null), cx, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (spec, before) = (new.get("spec").unwrap_or(&Tree::Null), old.get("spec").unwrap_or(&Tree::Null));
        if spec == before {
            return;
        }
        workload(spec, cx, errors);
        let owner = before.get("controllerRef");
        if owner.is_some() && spec.get("controllerRef") != owner {
            let shown = if is_released(cx) { None } else { spec.get("controllerRef").cloned() };
            let shown = shown.unwrap_or(Tree::Null);
            errors.push(FieldError::invalid("spec.controllerRef", shown, "field is immutable"));
        }
        let names = |spec: &Tree| -> BTreeSet<Text> {
            spec.items_at(&["podGroupTemplates"]).iter().map(|t| t.text_at(&["name"])).collect()
        };
        if is_released(cx) && !names(before).is_subset(&names(spec)) {
            errors.push(FieldError::forbidden("spec.podGroupTemplates", "item may not be removed"));
            return;
        }
        for key in ["podGroupTemplates", "podGroups"] {
            let fixed = |spec: &Tree| spec.get(key).map(|list| list.map_items(|_, item| without_count(item)));
            SPEC.field(key).immutable(fixed(spec).as_ref(), fixed(before).as_ref(), errors);
        }
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
}

/// A template without the one number that may change, under the one name of its policy.
fn without_count(template: &Tree) -> Tree {
    let policy = template.get("policy").or_else(|| template.get("schedulingPolicy")).cloned();
    let policy = policy.map(|policy| policy.without(&["gang", "minCount"]));
    template.without_key("schedulingPolicy").with_option(&["policy"], policy)
}

/// Whether the request came in the released form of these kinds rather than in the proposal's.
fn is_released(cx: &Cx<'_>) -> bool {
    cx.version != cx.resource.storage_version
}

fn workload(spec: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
    let released = is_released(cx);
    if let Some(reference) = spec.get("controllerRef") {
        let at = SPEC.field("controllerRef");
        let group = reference.str_at(&["apiGroup"]);
        if !group.is_empty() {
            at.field("apiGroup").problems(group, names::subdomain(group), errors);
        }
        for key in ["kind", "name"] {
            let name = reference.str_at(&[key]);
            if name.is_empty() {
                at.field(key).required(errors);
            } else {
                at.field(key).problems(name, names::path_segment(name), errors);
            }
        }
    }
    let (templates, legacy) = (spec.items_at(&["podGroupTemplates"]), spec.items_at(&["podGroups"]));
    match (templates.is_empty(), legacy.is_empty()) {
        (true, true) if released => {
            let why = "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`";
            errors.push(FieldError::invalid("spec", "", why));
        }
        (true, true) => SPEC.field("podGroupTemplates").required(errors),
        (false, false) => {
            let why = "may not be set together with podGroupTemplates";
            errors.push(FieldError::forbidden(SPEC.field("podGroups"), why));
        }
        _ => {}
    }
    self::templates(templates, &SPEC.field("podGroupTemplates"), released, errors);
    self::templates(legacy, &SPEC.field("podGroups"), released, errors);
}

/// The fields of a template in the order that refusals show them.
const ORDER: [&str; 3] = ["name", "schedulingPolicy", "schedulingConstraints"];

fn templates(templates: &[Tree], list: &At<'_>, released: bool, errors: &mut Errors) {
    let own = if released { "schedulingPolicy" } else { "policy" };
    if templates.len() > TEMPLATES_MAX {
        errors.push(FieldError::too_many(list, templates.len(), TEMPLATES_MAX));
    }
    let mut seen = BTreeSet::new();
    for (i, template) in templates.iter().enumerate() {
        let at = list.item(i);
        let name = template.str_at(&["name"]);
        if name.is_empty() {
            at.field("name").required(errors);
        } else {
            at.field("name").problems(name, names::label(name), errors);
            if !seen.insert(name) {
                let policy = template.get("policy").cloned();
                let wire = template.without_key("policy").with_option(&["schedulingPolicy"], policy);
                errors.push(if released {
                    FieldError::duplicate_as(at, shown::ordered(&wire, &ORDER))
                } else {
                    FieldError::duplicate(at, tree!({"name": name}))
                });
            }
        }
        match (template.get("policy"), template.get("schedulingPolicy")) {
            (None, None) => self::policy(&Tree::Null, &at.field(own), errors),
            (Some(a), Some(b)) if a != b => {
                let why = "must equal policy when both are set";
                errors.push(FieldError::invalid(at.field("schedulingPolicy"), b.clone(), why));
            }
            (Some(policy), _) => self::policy(policy, &at.field(own), errors),
            (None, Some(policy)) => self::policy(policy, &at.field("schedulingPolicy"), errors),
        }
        claims(template, &at, errors);
    }
}

fn policy(policy: &Tree, at: &At<'_>, errors: &mut Errors) {
    match (policy.get("basic"), policy.get("gang")) {
        (None, None) => {
            errors.push(FieldError::invalid(at, "", "must specify one of: `basic`, `gang`"));
        }
        (Some(_), Some(_)) => {
            let why = "must specify exactly one of: `basic`, `gang`";
            errors.push(FieldError::invalid(at, "<object>", why));
        }
        (None, Some(gang)) => {
            let place = at.field("gang");
            match gang.int_at(&["minCount"]) {
                None | Some(0) => place.field("minCount").required(errors),
                Some(count) if count < 1 => errors.push(FieldError::invalid(
                    place.field("minCount"),
                    count,
                    "must be greater than or equal to 1",
                )),
                Some(_) => {}
            }
        }
        (Some(_), None) => {}
    }
}

fn claims(owner: &Tree, at: &At<'_>, errors: &mut Errors) {
    let list = at.field("resourceClaims");
    let claims = owner.items_at(&["resourceClaims"]);
    if claims.len() > CLAIMS_MAX {
        errors.push(FieldError::too_many(list, claims.len(), CLAIMS_MAX));
    }
    for (i, claim) in claims.iter().enumerate() {
        let names = [claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")];
        if names.iter().flatten().count() != 1 {
            let why = "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`";
            errors.push(FieldError::invalid(list.item(i), claim.clone(), why));
        }
    }
}

/// What PodGroups do differently.
#[derive(Debug)]
pub(super) struct PodGroup;

impl Strategy for PodGroup {
    fn default(&self, tree: Tree) -> Tree {
        let (by_ref, by_name) = (["spec", "podGroupTemplateRef", "name"], ["spec", "podGroupTemplateName"]);
        // Every reader finds its field: each of the two fills in for the other.
        match (tree.text_at(&by_ref), tree.text_at(&by_name)) {
            (a, b) if a.is_empty() && !b.is_empty() => tree.with(&by_ref, b),
            (a, b) if b.is_empty() && !a.is_empty() => tree.with(&by_name, a),
            _ => tree,
        }
    }

    fn prepare_create(&self, tree: Tree, _cx: &Cx<'_>) -> Result<Tree, Status> {
        Ok(tree)
    }

    fn prepare_status(&self, new: Tree, old: &Tree, cx: &Cx<'_>) -> Tree {
        if cx.version == cx.resource.storage_version {
            return new;
        }
        // The other form does not know the count: it stays as it was.
        new.with_option(&["status", "scheduledPods"], old.at(&["status", "scheduledPods"]).cloned())
    }

    fn validate_create(&self, new: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        group(new, cx, errors);
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        let status = At::Root("status");
        let list = status.field("conditions");
        for (i, condition) in new.items_at(&["status", "conditions"]).iter().enumerate() {
            self::condition(condition, &list.item(i), errors);
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
        let (spec, before) = (new.get("spec").unwrap_or(&Tree::Null), old.get("spec").unwrap_or(&Tree::Null));
        if spec == before {
            return;
        }
        group(new, cx, errors);
        for key in [
            "workloadRef",
            "podGroupTemplateRef",
            "podGroupTemplateName",
            "priorityClassName",
            "priority",
            "resourceClaims",
            "schedulingConstraints",
            "disruptionMode",
            "preemptionPolicy",
        ] {
            SPEC.field(key).immutable(spec.get(key), before.get(key), errors);
        }
        let fixed = |spec: &Tree| spec.get("schedulingPolicy").map(|p| p.without(&["gang", "minCount"]));
        SPEC.field("schedulingPolicy").immutable(fixed(spec).as_ref(), fixed(before).as_ref(), errors);
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
}

fn condition(condition: &Tree, at: &At<'_>, errors: &mut Errors) {
    let kind = condition.str_at(&["type"]);
    if kind.is_empty() {
        at.field("type").required(errors);
    } else {
        at.field("type").problems(kind, label_key_problems(kind), errors);
    }
    let status = condition.str_at(&["status"]);
    if status.is_empty() {
        at.field("status").required(errors);
    }
    at.field("status").one_of(status, &["False", "True", "Unknown"], errors);
    if condition.get("lastTransitionTime").is_none_or(Tree::is_null) {
        at.field("lastTransitionTime").required(errors);
    }
    if condition.str_at(&["reason"]).is_empty() {
        at.field("reason").required(errors);
    }
}

fn group(tree: &Tree, cx: &Cx<'_>, errors: &mut Errors) {
    let Some(spec) = tree.get("spec") else {
        errors.push(FieldError::required("spec", ""));
        return;
    };
    if let Some(priority) = spec.int_at(&["priority"]).filter(|n| *n > PRIORITY_MAX && is_released(cx)) {
        let why = format!("must be less than or equal to {PRIORITY_MAX}");
        errors.push(FieldError::invalid(SPEC.field("priority"), priority, why));
    }
    let inline = spec.get("schedulingPolicy");
    if let Some(policy) = inline {
        self::policy(policy, &SPEC.field("schedulingPolicy"), errors);
    }
    claims(spec, &SPEC, errors);
    if inline.is_none() && cx.version != cx.resource.storage_version {
        let why = "must specify one of: `basic`, `gang`";
        errors.push(FieldError::invalid(SPEC.field("schedulingPolicy"), "", why));
    }
    match spec.get("workloadRef") {
        None if inline.is_none() => SPEC.field("workloadRef").required(errors),
        None => {}
        Some(_) if is_released(cx) => released_reference(spec, errors),
        Some(reference) => self::reference(reference, tree.str_at(&["metadata", "namespace"]), errors),
    }
    if is_released(cx) {
        return;
    }
    let (by_ref, by_name) =
        (spec.str_at(&["podGroupTemplateRef", "name"]), spec.str_at(&["podGroupTemplateName"]));
    let at = SPEC.field("podGroupTemplateRef");
    let at = at.field("name");
    if by_ref.is_empty() {
        if spec.get("workloadRef").is_some() {
            at.required(errors);
        }
        return;
    }
    at.problems(by_ref, names::label(by_ref), errors);
    if by_ref != by_name {
        let why = format!("must equal spec.podGroupTemplateRef.name ({by_ref:?})");
        errors.push(FieldError::invalid(SPEC.field("podGroupTemplateName"), by_name, why));
    }
}

/// The released form names the workload and the template side by side.
fn released_reference(spec: &Tree, errors: &mut Errors) {
    let at = SPEC.field("workloadRef");
    let workload = spec.str_at(&["workloadRef", "name"]);
    at.field("workloadName").problems(workload, names::subdomain(workload), errors);
    let template = spec.str_at(&["podGroupTemplateName"]);
    if template.is_empty() {
        at.field("templateName").required(errors);
    } else {
        at.field("templateName").problems(template, names::label(template), errors);
    }
}

fn reference(reference: &Tree, namespace: &str, errors: &mut Errors) {
    let at = SPEC.field("workloadRef");
    let name = reference.str_at(&["name"]);
    if name.is_empty() {
        at.field("name").required(errors);
    } else {
        at.field("name").problems(name, names::subdomain(name), errors);
    }
    let of = reference.str_at(&["namespace"]);
    if !of.is_empty() && of != namespace {
        let why = "must be empty or the namespace of the PodGroup";
        errors.push(FieldError::invalid(at.field("namespace"), of, why));
    }
    at.field("kind").one_of(reference.str_at(&["kind"]), &["Workload"], errors);
    let version = reference.str_at(&["apiVersion"]);
    let known =
        ["scheduling.k8s.io/", "scheduling.muster.dev/"].iter().any(|group| version.starts_with(group));
    if !version.is_empty() && !known {
        let why = "must be empty or a version of group scheduling.k8s.io";
        errors.push(FieldError::invalid(at.field("apiVersion"), version, why));
    }
}
