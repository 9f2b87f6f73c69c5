//! ResourceQuotas: validation of resource names and scopes.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::resource_check::{amount, is_quota_standard, quota_name};
use super::{FieldErrors, ResourceStrategy, StrategyContext, go_format};

#[derive(Debug)]
pub(super) struct ResourceQuota;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const PAIRS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

impl ResourceStrategy for ResourceQuota {
    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        amounts(new, "spec", "hard", errors);
        scopes(new, errors);
        selector(new, errors);
    }

    fn validate_update(&self, new: &Tree, old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_create(new, cx, errors);
        let set = |tree: &Tree| {
            let scopes = tree.items_at(&["spec", "scopes"]).iter();
            scopes.filter_map(Tree::as_text).cloned().collect::<BTreeSet<_>>()
        };
        if set(new) != set(old) {
            let shown = new.at(&["spec", "scopes"]).cloned().unwrap_or(Tree::Null);
            errors.push(FieldError::invalid(SPEC.field("scopes"), shown, "field is immutable"));
        }
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        amounts(new, "status", "hard", errors);
        amounts(new, "status", "used", errors);
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

fn amounts(tree: &Tree, part: &str, key: &str, errors: &mut FieldErrors) {
    let root = FieldPath::Root(part);
    let list = root.field(key);
    for (name, value) in tree.entries_at(&[part, key]) {
        quota_name(name, &list.key(name), errors);
        amount(name, value, &list.key(name), errors);
    }
}

/// Whether a scope applies to a resource.
fn fits(scope: &str, resource: &str) -> bool {
    let compute = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"]
        .contains(&resource);
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || compute,
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

/// Whether a quota has resources to which a scope does not apply.
fn has_misfits(tree: &Tree, scope: &str) -> bool {
    tree.entries_at(&["spec", "hard"]).iter().any(|(name, _)| is_quota_standard(name) && !fits(scope, name))
}

fn contradictions(seen: &BTreeSet<&str>) -> usize {
    PAIRS.iter().filter(|pair| pair.iter().all(|scope| seen.contains(scope))).count()
}

fn scopes(tree: &Tree, errors: &mut FieldErrors) {
    let all = tree.at(&["spec", "scopes"]).cloned().unwrap_or(Tree::Null);
    let at = SPEC.field("scopes");
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for scope in all.items().iter().filter_map(Tree::as_str) {
        wrong.extend((!SCOPES.contains(&scope)).then_some("unsupported scope"));
        wrong.extend(has_misfits(tree, scope).then_some("unsupported scope applied to resource"));
        seen.insert(scope);
    }
    wrong.extend(std::iter::repeat_n("conflicting scopes", contradictions(&seen)));
    errors.extend(wrong.into_iter().map(|why| FieldError::invalid(at, all.clone(), why)));
}

/// An expression as error messages show it.
const EXPRESSION: [go_format::Part; 3] =
    [("ScopeName", "scopeName", "\"\""), ("Operator", "operator", "\"\""), ("Values", "values", "null")];

fn selector(tree: &Tree, errors: &mut FieldErrors) {
    let place = SPEC.field("scopeSelector");
    let at = place.field("matchExpressions");
    let all = tree.items_at(&["spec", "scopeSelector", "matchExpressions"]);
    let mut seen = BTreeSet::new();
    for one in all {
        let (scope, operator) = (one.str_at(&["scopeName"]), one.str_at(&["operator"]));
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(at.field("scopeName"), scope, "unsupported scope"));
        }
        if has_misfits(tree, scope) {
            let shown = format!("{{\"MatchExpressions\":{}}}", go_format::all_typed(all, &EXPRESSION));
            errors.push(FieldError::invalid_as(at, &shown, "unsupported scope applied to resource"));
        }
        let only_exists =
            !matches!(scope, "PriorityClass" | "VolumeAttributesClass") && SCOPES.contains(&scope);
        if only_exists && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid(at.field("operator"), operator, why));
        }
        values(one, operator, &at, errors);
        seen.insert(scope);
    }
    for _ in 0..contradictions(&seen) {
        let shown = tree.at(&["spec", "scopes"]).cloned().unwrap_or(Tree::Null);
        errors.push(FieldError::invalid(at, shown, "conflicting scopes"));
    }
}

fn values(one: &Tree, operator: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let has = !one.items_at(&["values"]).is_empty();
    match operator {
        "In" | "NotIn" if !has => {
            let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(FieldError::required(at.field("values"), why));
        }
        "Exists" | "DoesNotExist" if has => {
            let shown = one.get("values").cloned().unwrap_or(Tree::Null);
            let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.push(FieldError::invalid(at.field("values"), shown, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            errors.push(FieldError::invalid(at.field("operator"), other, "not a valid selector operator"));
        }
    }
}
