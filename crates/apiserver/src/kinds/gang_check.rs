//! Validation shared by Workloads and PodGroups.
//!
//! Both versions share these rules; errors come in the field order of `v1beta1`.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_schema::selector::label_key_problems;
use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::{FieldErrors, StrategyContext};

const PRIORITY_MAX: i64 = 1_000_000_000;
/// Maximum number of claims of a group, in spec and status.
const CLAIMS_MAX: usize = 4;
/// Maximum number of topology keys.
const TOPOLOGY_MAX: usize = 1;
/// Maximum length of a condition's reason in bytes.
const REASON_MAX: usize = 1024;
/// Maximum length of a condition's message in bytes.
const MESSAGE_MAX: usize = 32 * 1024;

/// The API version of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GangVersion {
    /// `v1alpha1`, the stored version.
    V1Alpha1,
    V1Beta1,
}

impl GangVersion {
    pub fn of(cx: &StrategyContext<'_>) -> GangVersion {
        if cx.version == cx.resource.storage_version { GangVersion::V1Alpha1 } else { GangVersion::V1Beta1 }
    }

    /// What a error message shows of a value that may not change: the `v1beta1` form shows none.
    pub fn fixed(self, at: &FieldPath<'_>, new: Option<&Tree>, old: Option<&Tree>, errors: &mut FieldErrors) {
        match self {
            GangVersion::V1Alpha1 => at.immutable(new, old, errors),
            GangVersion::V1Beta1 if new != old => {
                errors.push(FieldError::invalid(at, Tree::Null, "field is immutable"));
            }
            GangVersion::V1Beta1 => {}
        }
    }
}

/// Exactly one of these keys must be set.
fn one_of(map: &Tree, keys: [&str; 2], at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let set: Vec<&str> = keys.into_iter().filter(|key| map.get(key).is_some()).collect();
    let [a, b] = keys;
    match set.len() {
        0 => errors.push(FieldError::invalid(at, "", format!("must specify one of: `{a}`, `{b}`"))),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", set.join(", "));
            errors.push(FieldError::invalid(at, shown, format!("must specify exactly one of: `{a}`, `{b}`")));
        }
    }
}

/// The scheduling policy: basic, or gang with `minCount`.
pub(super) fn policy(policy: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    one_of(policy, ["basic", "gang"], at, errors);
    let Some(gang) = policy.get("gang") else {
        return;
    };
    let at = at.field("gang");
    let at = at.field("minCount");
    match gang.int_at(&["minCount"]) {
        None | Some(0) => at.required(errors),
        Some(count) if count < 1 => {
            errors.push(FieldError::invalid(at, count, "must be greater than or equal to 1"));
        }
        Some(_) => {}
    }
}

/// The policy type is immutable; `minCount` may change.
pub(super) fn policy_kept(
    new: &Tree,
    old: &Tree,
    form: GangVersion,
    at: &FieldPath<'_>,
    errors: &mut FieldErrors,
) {
    let has = |policy: &Tree, key: &str| policy.get(key).is_some_and(|value| !value.is_null());
    if form == GangVersion::V1Alpha1 {
        let kept = ["basic", "gang"].iter().all(|key| has(new, key) == has(old, key));
        if !kept {
            errors.push(FieldError::invalid(at, new.clone(), "field is immutable"));
        }
        return;
    }
    if has(new, "basic") != has(old, "basic") {
        errors.push(FieldError::invalid(at.field("basic"), Tree::Null, "field is immutable"));
    }
    let words = match (has(old, "gang"), has(new, "gang")) {
        (false, true) => "field cannot be set once created",
        (true, false) => "field cannot be cleared once set",
        _ => return,
    };
    errors.push(FieldError::invalid(at.field("gang"), Tree::Null, words));
}

/// Fields of templates and groups besides the policy.
pub(super) fn extras(owner: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    topology(owner, at, errors);
    claims(owner, at, errors);
    if let Some(mode) = owner.get("disruptionMode") {
        one_of(mode, ["single", "all"], &at.field("disruptionMode"), errors);
    }
    let class = owner.str_at(&["priorityClassName"]);
    if !class.is_empty() {
        at.field("priorityClassName").problems(class, names::subdomain(class), errors);
    }
    if let Some(priority) = owner.int_at(&["priority"]).filter(|priority| *priority > PRIORITY_MAX) {
        let why = format!("must be less than or equal to {PRIORITY_MAX}");
        errors.push(FieldError::invalid(at.field("priority"), priority, why));
    }
    let policies = ["Never", "PreemptLowerPriority"];
    at.field("preemptionPolicy").absent_or_one_of(owner.get("preemptionPolicy"), &policies, errors);
}

/// Fields of [`extras`] that are immutable.
pub(super) const FIXED: [&str; 6] = [
    "schedulingConstraints",
    "resourceClaims",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
];

fn topology(owner: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = FieldPath::Field(at, "schedulingConstraints");
    let list = list.field("topology");
    let all = owner.items_at(&["schedulingConstraints", "topology"]);
    if all.len() > TOPOLOGY_MAX {
        errors.push(FieldError::too_many(list, all.len(), TOPOLOGY_MAX));
        return;
    }
    for (i, constraint) in all.iter().enumerate() {
        let at = list.item(i);
        match constraint.str_at(&["key"]) {
            "" => at.field("key").required(errors),
            key => at.field("key").problems(key, label_key_problems(key), errors),
        }
    }
}

fn claims(owner: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("resourceClaims");
    let claims = owner.items_at(&["resourceClaims"]);
    if claims.len() > CLAIMS_MAX {
        errors.push(FieldError::too_many(list, claims.len(), CLAIMS_MAX));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, claim) in claims.iter().enumerate() {
        if !seen.insert(claim.str_at(&["name"])) {
            errors.push(FieldError::duplicate(list.item(i), claim.clone()));
        }
    }
    for (i, claim) in claims.iter().enumerate() {
        let at = list.item(i);
        let keys = ["resourceClaimName", "resourceClaimTemplateName"];
        one_of(claim, keys, &at, errors);
        match claim.str_at(&["name"]) {
            "" => at.field("name").required(errors),
            name => at.field("name").problems(name, names::label(name), errors),
        }
        for key in keys {
            if let Some(name) = claim.get(key).and_then(Tree::as_str) {
                at.field(key).problems(name, names::subdomain(name), errors);
            }
        }
    }
}

/// `controllerRef` of a Workload.
pub(super) fn controller(reference: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let group = reference.str_at(&["apiGroup"]);
    if !group.is_empty() {
        at.field("apiGroup").problems(group, names::subdomain(group), errors);
    }
    for key in ["kind", "name"] {
        match reference.str_at(&[key]) {
            "" => at.field(key).required(errors),
            name => at.field(key).problems(name, names::path_segment(name), errors),
        }
    }
}

/// The status of a group.
pub(super) fn status(group: &Tree, errors: &mut FieldErrors) {
    let at = FieldPath::Root("status");
    let list = at.field("conditions");
    let mut seen = BTreeSet::new();
    for (i, condition) in group.items_at(&["status", "conditions"]).iter().enumerate() {
        let kind = condition.str_at(&["type"]);
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(list.item(i), kind));
        }
        self::condition(condition, &list.item(i), errors);
    }
    claim_statuses(group, &at.field("resourceClaimStatuses"), errors);
}

fn condition(condition: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    match condition.str_at(&["type"]) {
        "" => errors.push(FieldError::required(at.field("type"), "is required")),
        kind => at.field("type").problems(kind, label_key_problems(kind), errors),
    }
    match condition.str_at(&["status"]) {
        "" => at.field("status").required(errors),
        word => at.field("status").one_of(word, &["False", "True", "Unknown"], errors),
    }
    if let Some(seen) = condition.int_at(&["observedGeneration"]).filter(|seen| *seen < 0) {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(at.field("observedGeneration"), seen, why));
    }
    if condition.get("lastTransitionTime").is_none_or(Tree::is_null) {
        at.field("lastTransitionTime").required(errors);
    }
    reason(condition.str_at(&["reason"]), &at.field("reason"), errors);
    if condition.str_at(&["message"]).len() > MESSAGE_MAX {
        errors.push(FieldError::too_long(at.field("message"), MESSAGE_MAX));
    }
}

fn reason(reason: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if reason.is_empty() {
        at.required(errors);
        return;
    }
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ',' | ':');
    let ends_well = reason.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let well = reason.starts_with(|c: char| c.is_ascii_alphabetic()) && reason.chars().all(is_inner);
    if !(well && ends_well) {
        errors.push(FieldError::invalid(at, reason, REASON_WORDS));
    }
    if reason.len() > REASON_MAX {
        errors.push(FieldError::too_long(at, REASON_MAX));
    }
}

const REASON_WORDS: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";

fn claim_statuses(group: &Tree, list: &FieldPath<'_>, errors: &mut FieldErrors) {
    let statuses = group.items_at(&["status", "resourceClaimStatuses"]);
    let claims = group.items_at(&["spec", "resourceClaims"]);
    for (i, status) in statuses.iter().enumerate() {
        let name = status.str_at(&["name"]);
        if !claims.iter().any(|claim| claim.str_at(&["name"]) == name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(list.item(i).field("name"), name, why));
        }
    }
    if statuses.len() > CLAIMS_MAX {
        errors.push(FieldError::too_many(list, statuses.len(), CLAIMS_MAX));
        return;
    }
    let mut seen = BTreeSet::new();
    for (i, status) in statuses.iter().enumerate() {
        if !seen.insert(status.str_at(&["name"])) {
            errors.push(FieldError::duplicate(list.item(i), tree!({"name": status.str_at(&["name"])})));
        }
        if let Some(name) = status.get("resourceClaimName").and_then(Tree::as_str) {
            list.item(i).field("resourceClaimName").problems(name, names::subdomain(name), errors);
        }
    }
}
