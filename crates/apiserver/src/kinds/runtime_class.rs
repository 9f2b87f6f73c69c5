use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Tree, tree};

use super::field_path::FieldPath;
use super::{FieldErrors, ResourceStrategy, StrategyContext, pod_check, resource_check};
use crate::engine::metadata_check::check_labels;

#[derive(Debug)]
pub(super) struct RuntimeClass;

impl ResourceStrategy for RuntimeClass {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validate_create(&self, new: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        let (at, handler) = (FieldPath::Root("handler"), new.str_at(&["handler"]));
        if handler.is_empty() {
            at.required(errors);
        } else {
            at.problems(handler, names::label(handler), errors);
        }
        if let Some(fixed) = new.at(&["overhead", "podFixed"]) {
            let limits = tree!({"limits": fixed.clone()});
            resource_check::container(&limits, &FieldPath::Root("overhead"), &BTreeSet::new(), errors);
        }
        let at = FieldPath::Root("scheduling");
        let selector = new.at(&["scheduling", "nodeSelector"]);
        check_labels(selector, &at.field("nodeSelector").to_string(), errors);
        let (all, list) = (new.items_at(&["scheduling", "tolerations"]), at.field("tolerations"));
        pod_check::tolerations(all, &list, errors);
        let mut seen = BTreeSet::new();
        for (i, toleration) in all.iter().enumerate() {
            if !seen.insert(["key", "operator", "value", "effect"].map(|key| toleration.text_at(&[key]))) {
                errors.push(FieldError::duplicate(list.item(i), toleration.clone()));
            }
        }
    }

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &StrategyContext<'_>, errors: &mut FieldErrors) {
        FieldPath::Root("handler").immutable(new.get("handler"), old.get("handler"), errors);
    }
}
