//! LimitRanges: defaulting and validation.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::selector::label_key_problems;
use muster_tree::{Text, Tree};

use super::field_path::FieldPath;
use super::quantity::Amount;
use super::resource_check::{container_name, is_overcommitted, resource_name};
use super::{FieldErrors, ResourceStrategy, StrategyContext};
use crate::quota::{self, Amounts};

#[derive(Debug)]
pub(super) struct LimitRange;

impl ResourceStrategy for LimitRange {
    fn default(&self, tree: Tree) -> Tree {
        let Some(limits) = tree.at(&["spec", "limits"]) else {
            return tree;
        };
        let limits = limits.map_items(|_, limit| match limit.str_at(&["type"]) {
            "Container" => filled(limit),
            _ => limit.clone(),
        });
        tree.with(&["spec", "limits"], limits)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let root = FieldPath::Root("spec.limits");
        let mut seen = BTreeSet::new();
        for (i, limit) in new.items_at(&["spec", "limits"]).iter().enumerate() {
            let at = root.item(i);
            let word = limit.str_at(&["type"]);
            type_name(word, &at.field("type"), errors);
            if !seen.insert(word) {
                errors.push(FieldError::duplicate(at.field("type"), word));
            }
            names(limit, &at, errors);
            bounds(limit, &at, errors);
        }
    }

    fn validate_update(&self, new: &Tree, _old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_create(new, cx, errors);
    }
}

fn type_name(word: &str, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let problems = label_key_problems(word);
    let known = word.contains('/') || matches!(word, "Pod" | "Container" | "PersistentVolumeClaim");
    if problems.is_empty() && !known {
        errors.push(FieldError::invalid(at, word, "must be a standard limit type or fully qualified"));
    }
    at.problems(word, problems, errors);
}

/// Validates the resource names of an item.
fn names(limit: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let word = limit.str_at(&["type"]);
    let check = if matches!(word, "Pod" | "Container") { container_name } else { resource_name };
    for part in ["max", "min", "default", "defaultRequest"] {
        let place = at.field(part);
        if word == "Pod" && part.starts_with("default") {
            if !limit.entries_at(&[part]).is_empty() {
                errors.push(FieldError::forbidden(place, "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        limit.entries_at(&[part]).iter().for_each(|(name, _)| check(name, &place.key(name), errors));
    }
    if word == "PersistentVolumeClaim"
        && ["min", "max"].iter().all(|part| limit.at(&[part, "storage"]).is_none())
    {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(at.field("limits"), why));
    }
    let place = at.field("maxLimitRequestRatio");
    let ratios = limit.entries_at(&["maxLimitRequestRatio"]).iter();
    ratios.for_each(|(name, _)| check(name, &place.key(name), errors));
}

/// The quantities of an item in order: min, defaultRequest, default, max.
fn bounds(limit: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let part = |key: &str| {
        let skipped = limit.str_at(&["type"]) == "Pod" && key.starts_with("default");
        quota::of_tree(limit.get(key).filter(|_| !skipped))
    };
    let [min, max, default, request, ratio] =
        ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"].map(part);
    let all: BTreeSet<&Text> =
        [&min, &max, &default, &request, &ratio].into_iter().flat_map(|list| list.keys()).collect();
    for name in all {
        let of = |list: &Amounts| list.get(name).copied();
        let mut ordered =
            |key: &str, shown: Option<Amount>, low: (&str, Option<Amount>), high: (&str, Option<Amount>)| {
                if let (Some(shown), Some(less), Some(more)) = (shown, low.1, high.1)
                    && less.value > more.value
                {
                    let why = format!("{} {less} is greater than {} {more}", low.0, high.0);
                    errors.push(FieldError::invalid(at.field(key).key(name), shown.to_string(), why));
                }
            };
        let (low, high, limit, ask) = (of(&min), of(&max), of(&default), of(&request));
        ordered("min", low, ("min value", low), ("max value", high));
        ordered("defaultRequest", ask, ("min value", low), ("default request value", ask));
        ordered("defaultRequest", ask, ("default request value", ask), ("max value", high));
        ordered("defaultRequest", ask, ("default request value", ask), ("default limit value", limit));
        ordered("default", low, ("min value", low), ("default value", limit));
        ordered("default", high, ("default value", limit), ("max value", high));
        if let Some(ratio) = of(&ratio) {
            stretch(ratio, low, high, &at.field("maxLimitRequestRatio").key(name), errors);
        }
        if let (Some(limit), Some(ask)) = (limit, ask)
            && !is_overcommitted(name)
            && limit.value != ask.value
        {
            let why = format!("default value {limit} must equal to defaultRequest value {ask} in {name}");
            errors.push(FieldError::invalid(at.field("defaultRequest").key(name), ask.to_string(), why));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio, shown with six digits as the real server does")]
fn stretch(
    ratio: Amount,
    low: Option<Amount>,
    high: Option<Amount>,
    at: &FieldPath<'_>,
    errors: &mut FieldErrors,
) {
    if ratio.value < Amount::whole(1).value {
        errors.push(FieldError::invalid(at, ratio.to_string(), format!("ratio {ratio} is less than 1")));
    }
    if let (Some(low), Some(high)) = (low, high) {
        let most = high.value.0 as f64 / low.value.0 as f64;
        if ratio.value.0 as f64 / 1e9 > most {
            let why = format!("ratio {ratio} is greater than max/min = {most:.6}");
            errors.push(FieldError::invalid(at, ratio.to_string(), why));
        }
    }
}

/// `default` defaults to `max`; `defaultRequest` to `default`, else to `min`.
fn filled(limit: &Tree) -> Tree {
    let limit = borrowed(limit, "default", "max");
    let limit = borrowed(&limit, "defaultRequest", "default");
    borrowed(&limit, "defaultRequest", "min")
}

fn borrowed(limit: &Tree, to: &str, from: &str) -> Tree {
    limit.entries_at(&[from]).iter().fold(limit.clone(), |limit, (name, amount)| {
        if limit.at(&[to, name]).is_some() { limit } else { limit.with(&[to, name], amount.clone()) }
    })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn what_is_absent_is_borrowed() {
        for (given, default, request) in [
            (tree!({"max": {"cpu": "2"}}), Some("2"), Some("2")),
            (tree!({"min": {"cpu": "1"}}), None, Some("1")),
            (tree!({"max": {"cpu": "2"}, "min": {"cpu": "1"}}), Some("2"), Some("2")),
            (tree!({"default": {"cpu": "3"}, "defaultRequest": {"cpu": "1"}}), Some("3"), Some("1")),
        ] {
            let limit = given.with_key("type", "Container".into());
            let range = tree!({"spec": {"limits": [limit]}});
            let filled = LimitRange.default(range);
            let limit = &filled.items_at(&["spec", "limits"])[0];
            let of = |key: &str| limit.at(&[key, "cpu"]).and_then(Tree::as_str);
            assert_eq!((of("default"), of("defaultRequest")), (default, request), "{given:?}");
        }
    }
}
