//! Validation of `podFailurePolicy` and `successPolicy` of Jobs.

use std::collections::BTreeSet;

use muster_schema::error::{FieldError, Problem};
use muster_schema::selector::label_key_problems;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, go_format};

/// Maximum number of rules.
const RULES_MAX: usize = 20;
/// Maximum number of exit codes of a rule.
const EXIT_CODES_MAX: usize = 255;
/// Maximum number of pod conditions of a rule.
const CONDITIONS_MAX: usize = 20;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
/// Maximum length of `succeededIndexes`.
const INDEXES_BYTES_MAX: usize = 64 * 1024;

pub(super) fn pod_failure(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(policy) = spec.get("podFailurePolicy") else {
        return;
    };
    let at = at.field("podFailurePolicy");
    let list = at.field("rules");
    let rules = policy.items_at(&["rules"]);
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(list, rules.len(), RULES_MAX));
    }
    let all = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|key| spec.items_at(&["template", "spec", key]));
    let names: BTreeSet<&str> = all.map(|c| c.str_at(&["name"])).collect();
    for (i, rule) in rules.iter().enumerate() {
        failure_rule(spec, rule, &list.item(i), &names, errors);
    }
}

fn failure_rule(
    spec: &Tree,
    rule: &Tree,
    at: &FieldPath<'_>,
    names: &BTreeSet<&str>,
    errors: &mut FieldErrors,
) {
    let place = at.field("action");
    match rule.str_at(&["action"]) {
        "" => place.required_word(&ACTIONS, errors),
        "FailIndex" if spec.get("backoffLimitPerIndex").is_none() => {
            errors.push(FieldError::invalid(
                place,
                "FailIndex",
                "requires the backoffLimitPerIndex to be set",
            ));
        }
        "Count" | "FailIndex" | "FailJob" | "Ignore" => {}
        other => {
            errors.push(FieldError::not_supported(place, other, ACTIONS));
        }
    }
    if let Some(codes) = rule.get("onExitCodes") {
        exit_codes(codes, &at.field("onExitCodes"), names, errors);
    }
    let conditions = rule.items_at(&["onPodConditions"]);
    let list = at.field("onPodConditions");
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(list, conditions.len(), CONDITIONS_MAX));
    }
    for (i, condition) in conditions.iter().enumerate() {
        let at = list.item(i);
        let kind = condition.str_at(&["type"]);
        at.field("type").problems(kind, label_key_problems(kind), errors);
        at.field("status").one_of(condition.str_at(&["status"]), &["False", "True", "Unknown"], errors);
    }
    let why = match (rule.get("onExitCodes").is_some(), !conditions.is_empty()) {
        (false, false) => "specifying one of OnExitCodes and OnPodConditions is required",
        (true, true) => "specifying both OnExitCodes and OnPodConditions is not supported",
        _ => return,
    };
    let mut error = FieldError::invalid(at, Tree::Null, why);
    // Upstream reports this kind of error without a value.
    error.problem = Problem::InvalidBranch;
    errors.push(error);
}

fn exit_codes(codes: &Tree, at: &FieldPath<'_>, names: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let operator = codes.str_at(&["operator"]);
    if operator.is_empty() {
        at.field("operator").required_word(&["In", "NotIn"], errors);
    }
    at.field("operator").one_of(operator, &["In", "NotIn"], errors);
    if let Some(name) = codes.get("containerName").and_then(Tree::as_str).filter(|name| !names.contains(name))
    {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(at.field("containerName"), name, why));
    }
    let list = at.field("values");
    let values: Vec<i64> = codes.items_at(&["values"]).iter().filter_map(Tree::as_int).collect();
    if values.is_empty() {
        errors.push(FieldError::invalid(list, Tree::empty_list(), "at least one value is required"));
    } else if values.len() > EXIT_CODES_MAX {
        errors.push(FieldError::too_many(list, values.len(), EXIT_CODES_MAX));
    }
    let mut seen = BTreeSet::new();
    for (i, value) in values.iter().enumerate() {
        // Exit code 0 is success and never triggers a failure policy.
        if operator == "In" && *value == 0 {
            errors.push(FieldError::invalid(list.item(i), 0, "must not be 0 for the In operator"));
        }
        if !seen.insert(*value) {
            errors.push(FieldError::duplicate(list.item(i), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(list, Tree::list(values), "must be ordered"));
    }
}

pub(super) fn success(spec: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(policy) = spec.get("successPolicy") else {
        return;
    };
    let at = at.field("successPolicy");
    if spec.str_at(&["completionMode"]) != "Indexed" {
        errors.push(FieldError::invalid_as(at, &shown_success(policy), "requires indexed completion mode"));
        return;
    }
    let list = at.field("rules");
    let rules = policy.items_at(&["rules"]);
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(list, why));
    } else if rules.len() > RULES_MAX {
        errors.push(FieldError::too_many(list, rules.len(), RULES_MAX));
    }
    let completions = spec.int_at(&["completions"]).unwrap_or(0);
    for (i, rule) in rules.iter().enumerate() {
        success_rule(rule, completions, &list.item(i), errors);
    }
}

/// A success policy in Go's field names.
pub(super) fn shown_success(policy: &Tree) -> String {
    let rules = go_format::all_typed(policy.items_at(&["rules"]), &go_format::SUCCESS_RULE);
    format!("{{\"Rules\":{rules}}}")
}

fn success_rule(rule: &Tree, completions: i64, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let (indexes, count) =
        (rule.get("succeededIndexes").and_then(Tree::as_str), rule.int_at(&["succeededCount"]));
    if indexes.is_none() && count.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(at, why));
    }
    let mut total = 0;
    if let Some(text) = indexes {
        let place = at.field("succeededIndexes");
        if text.len() > INDEXES_BYTES_MAX {
            errors.push(FieldError::too_long(place, INDEXES_BYTES_MAX));
        }
        match count_indexes(text, completions) {
            Ok(n) => total = n,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                errors.push(FieldError::invalid(place, text, why));
            }
        }
    }
    let Some(count) = count else {
        return;
    };
    let place = at.field("succeededCount");
    place.not_negative(Some(count), errors);
    if count > completions {
        let why =
            format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(place, count, why));
    }
    if indexes.is_some() && count > total {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(place, count, why));
    }
}

/// Counts the indexes in a text such as `0,2-4`, which must be ascending and below `completions`.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut last = -1;
    let mut total = 0;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, end) = interval(part, completions)?;
        if first <= last {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = end;
    }
    Ok(total)
}

/// First and last index of `4` or `2-4`.
fn interval(text: &str, completions: i64) -> Result<(i64, i64), String> {
    let Some((first, end)) = text.split_once('-') else {
        let only = index(text, completions)?;
        return Ok((only, only));
    };
    if end.contains('-') {
        return Err(format!(
            "the fragment {text:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        ));
    }
    let (first, end) = (index(first, completions)?, index(end, completions)?);
    if first >= end {
        return Err(format!("non-increasing order, previous: {first}, current: {end}"));
    }
    Ok((first, end))
}

/// The first index in both texts; malformed intervals are skipped.
pub(super) fn overlap(one: &str, other: &str, completions: i64) -> Option<i64> {
    let intervals = |text: &str| -> Vec<(i64, i64)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (one, other) = (intervals(one), intervals(other));
    let (mut a, mut b) = (one.as_slice(), other.as_slice());
    while let ([(from, to), rest @ ..], [(other_from, other_to), other_rest @ ..]) = (a, b) {
        if from <= other_to && other_from <= to {
            return Some(*from.max(other_from));
        }
        (a, b) = if from <= other_from { (rest, b) } else { (a, other_rest) };
    }
    None
}

fn index(text: &str, completions: i64) -> Result<i64, String> {
    let number: i64 =
        text.parse().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))?;
    if number >= completions { Err(format!("too large index: {text:?}")) } else { Ok(number) }
}

#[cfg(test)]
mod tests {
    use super::{count_indexes, overlap};

    #[test]
    fn lists_of_indexes() {
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        assert_eq!(count_indexes("", 5), Ok(0));
        for bad in ["5", "2,1", "3-3", "4-2", "x", "1,1"] {
            assert!(count_indexes(bad, 5).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists_that_share_an_index() {
        for (one, other, want) in [
            ("0,2", "1,3", None),
            ("0-2", "2", Some(2)),
            ("0,2-3", "1,3", Some(3)),
            ("x,3", "1,3", Some(3)),
            ("", "1", None),
        ] {
            assert_eq!(overlap(one, other, 5), want, "{one} {other}");
        }
    }
}
