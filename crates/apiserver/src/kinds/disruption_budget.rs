use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, GenerationRule, ResourceStrategy, StrategyContext, affinity_check, go_format};

#[derive(Debug)]
pub(super) struct DisruptionBudget;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");
const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
/// The spec in error messages.
const SHOWN: [go_format::Part; 4] = [
    ("MinAvailable", "minAvailable", "null"),
    ("Selector", "selector", "null"),
    ("MaxUnavailable", "maxUnavailable", "null"),
    ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy", "null"),
];

impl ResourceStrategy for DisruptionBudget {
    fn generation(&self) -> GenerationRule {
        GenerationRule::Spec
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let spec = new.get("spec").unwrap_or(&Tree::Null);
        if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
            let shown = go_format::typed(spec, &SHOWN);
            errors.push(FieldError::invalid_as(
                SPEC,
                &shown,
                "minAvailable and maxUnavailable cannot be both set",
            ));
        }
        for key in ["minAvailable", "maxUnavailable"] {
            if let Some(value) = spec.get(key) {
                int_or_percent(value, &SPEC.field(key), errors);
            }
        }
        affinity_check::selector(spec.get("selector"), &SPEC.field("selector"), errors);
        let words = ["AlwaysAllow", "IfHealthyBudget"];
        let policy = spec.get("unhealthyPodEvictionPolicy");
        SPEC.field("unhealthyPodEvictionPolicy").absent_or_one_of(policy, &words, errors);
    }

    fn validate_update(&self, new: &Tree, _old: &Tree, cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        self.validate_create(new, cx, errors);
    }

    fn validate_status(&self, new: &Tree, _old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let at = FieldPath::Root("status");
        for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            at.field(key).not_negative(new.int_at(&["status", key]), errors);
        }
    }
}

fn int_or_percent(value: &Tree, at: &FieldPath<'_>, errors: &mut FieldErrors) {
    let Some(text) = value.as_str() else {
        at.not_negative(value.as_int(), errors);
        return;
    };
    let digits = text.strip_suffix('%').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match digits {
        None => errors.push(FieldError::invalid(at, text, NO_PERCENT)),
        Some(digits) if digits.parse::<u32>().is_ok_and(|n| n <= 100) => {}
        Some(_) => errors.push(FieldError::invalid(at, text, "must not be greater than 100%")),
    }
}
