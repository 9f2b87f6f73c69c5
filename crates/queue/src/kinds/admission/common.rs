//! Validation shared by several kinds.

use muster_schema::error::FieldError;
use muster_schema::selector::{label_key_problems, label_value_problems};
use muster_tree::Tree;

/// Bound on all annotation keys and values together, as in kube-apiserver.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

pub(super) const NEGATIVE: &str = "must be greater than or equal to 0";
pub(super) const IMMUTABLE: &str = "field is immutable";

pub(super) type Problems = Vec<FieldError>;

pub(super) fn labels(labels: Option<&Tree>, path: &str, problems: &mut Problems) {
    for (key, value) in labels.map(Tree::entries).unwrap_or_default() {
        label_key(key, path, problems);
        let value = value.as_str().unwrap_or_default();
        problems
            .extend(label_value_problems(value).into_iter().map(|why| FieldError::invalid(path, value, why)));
    }
}

pub(super) fn label_key(key: &str, path: &str, problems: &mut Problems) {
    problems.extend(label_key_problems(key).into_iter().map(|why| FieldError::invalid(path, key, why)));
}

pub(super) fn annotations(annotations: Option<&Tree>, path: &str, problems: &mut Problems) {
    let mut bytes = 0;
    for (key, value) in annotations.map(Tree::entries).unwrap_or_default() {
        let wrong = label_key_problems(&key.to_lowercase()).into_iter();
        problems.extend(wrong.map(|why| FieldError::invalid(path, key, why)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        problems.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
}

/// Validates the keys of tolerations; CEL rules validate the rest.
pub(super) fn tolerations(all: &[Tree], path: &str, problems: &mut Problems) {
    for (at, toleration) in all.iter().enumerate() {
        let key = toleration.str_at(&["key"]);
        if !key.is_empty() {
            label_key(key, &format!("{path}[{at}].key"), problems);
        }
    }
}

pub(super) fn selector(selector: Option<&Tree>, path: &str, problems: &mut Problems) {
    let Some(selector) = selector else { return };
    labels(selector.get("matchLabels"), &format!("{path}.matchLabels"), problems);
    for (at, expression) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
        let path = format!("{path}.matchExpressions[{at}]");
        let values = expression.items_at(&["values"]);
        match expression.str_at(&["operator"]) {
            "In" | "NotIn" if values.is_empty() => problems.push(FieldError::required(
                format!("{path}.values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => problems.push(FieldError::forbidden(
                format!("{path}.values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "Exists" | "DoesNotExist" => {}
            other => problems.push(FieldError::invalid(
                format!("{path}.operator"),
                other,
                "not a valid selector operator",
            )),
        }
        label_key(expression.str_at(&["key"]), &format!("{path}.key"), problems);
        for (at, value) in values.iter().filter_map(Tree::as_str).enumerate() {
            let wrong = label_value_problems(value).into_iter();
            problems.extend(wrong.map(|why| FieldError::invalid(format!("{path}.values[{at}]"), value, why)));
        }
    }
}

/// A quantity as printed in messages.
pub(super) fn shown(quantity: &Tree) -> Tree {
    match quantity {
        Tree::Text(_) => quantity.clone(),
        other => Tree::from(other.to_json()),
    }
}

/// A quantity in billionths, for comparison.
pub(super) fn nano(quantity: &Tree) -> i64 {
    muster_api::quantity::nano(&muster_api::quantity::text(quantity)).unwrap_or(0)
}

/// Whether a quantity is negative. Rounding never hides a negative value.
pub(super) fn is_negative(quantity: &Tree) -> bool {
    nano(quantity) < 0
}
