//! Validation of affinity and selectors.

use muster_schema::error::FieldError;
use muster_schema::selector::{label_key_problems, label_value_problems};
use muster_tree::Tree;

use super::FieldErrors;
use super::field_path::FieldPath;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates the affinities of a pod spec.
pub(super) fn affinity(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(affinity) = spec.get("affinity") else {
        return;
    };
    let at = at.field("affinity");
    if let Some(rules) = affinity.get("nodeAffinity") {
        node(rules, &at.field("nodeAffinity"), errors);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        if let Some(rules) = affinity.get(key) {
            pod(rules, &at.field(key), errors);
        }
    }
}

fn node(rules: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    if let Some(required) = rules.get(REQUIRED) {
        node_selector(required, &at.field(REQUIRED), errors);
    }
    let list = at.field(PREFERRED);
    for (i, term) in rules.items_at(&[PREFERRED]).iter().enumerate() {
        let at = list.item(i);
        weight(term, &at, errors);
        node_term(term.get("preference").unwrap_or(&Tree::Null), &at.field("preference"), errors);
    }
}

/// Validates a selector of nodes.
pub(super) fn node_selector(selector: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("nodeSelectorTerms");
    let terms = selector.items_at(&["nodeSelectorTerms"]);
    if terms.is_empty() {
        errors.push(FieldError::required(list, "must have at least one node selector term"));
    }
    for (i, term) in terms.iter().enumerate() {
        node_term(term, &list.item(i), errors);
    }
}

fn node_term(term: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field("matchExpressions");
    for (i, expression) in term.items_at(&["matchExpressions"]).iter().enumerate() {
        let at = list.item(i);
        let values = expression.items_at(&["values"]);
        match expression.str_at(&["operator"]) {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                at.field("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                at.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Gt" | "Lt" if values.len() != 1 => errors.push(FieldError::required(
                at.field("values"),
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                errors.push(FieldError::invalid(
                    at.field("operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = expression.str_at(&["key"]);
        at.field("key").problems(key, label_key_problems(key), errors);
    }
}

fn weight(term: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let weight = term.int_at(&["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(at.field("weight"), weight, "must be in the range 1-100"));
    }
}

fn pod(rules: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let list = at.field(REQUIRED);
    for (i, term) in rules.items_at(&[REQUIRED]).iter().enumerate() {
        pod_term(term, &list.item(i), errors);
    }
    let list = at.field(PREFERRED);
    for (i, term) in rules.items_at(&[PREFERRED]).iter().enumerate() {
        let at = list.item(i);
        weight(term, &at, errors);
        pod_term(term.get("podAffinityTerm").unwrap_or(&Tree::Null), &at.field("podAffinityTerm"), errors);
    }
}

fn pod_term(term: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    selector(term.get("labelSelector"), &at.field("labelSelector"), errors);
    selector(term.get("namespaceSelector"), &at.field("namespaceSelector"), errors);
    let key = term.str_at(&["topologyKey"]);
    if key.is_empty() {
        errors.push(FieldError::required(at.field("topologyKey"), "can not be empty"));
    } else {
        at.field("topologyKey").problems(key, label_key_problems(key), errors);
    }
}

/// Validates a label selector.
pub(super) fn selector(selector: Option<&Tree>, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(selector) = selector else {
        return;
    };
    let labels = at.field("matchLabels");
    for (key, value) in selector.entries_at(&["matchLabels"]) {
        labels.problems(key, label_key_problems(key), errors);
        let value = value.as_str().unwrap_or_default();
        labels.problems(value, label_value_problems(value), errors);
    }
    let list = at.field("matchExpressions");
    for (i, expression) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
        let at = list.item(i);
        let values = expression.items_at(&["values"]);
        match expression.str_at(&["operator"]) {
            "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
                at.field("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
                at.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    at.field("operator"),
                    other,
                    "not a valid selector operator",
                ));
            }
        }
        let key = expression.str_at(&["key"]);
        at.field("key").problems(key, label_key_problems(key), errors);
    }
}
