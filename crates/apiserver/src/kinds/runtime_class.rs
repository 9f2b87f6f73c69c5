//! RuntimeClasses.

use std::collections::BTreeSet;

use muster_schema::error::FieldError;
use muster_schema::names;
use muster_tree::{Tree, tree};

use super::at::At;
use super::{Cx, Errors, Strategy, pod_check, resource_check};
use crate::engine::metadata_check::check_labels;

/// What classes do differently.
#[derive(Debug)]
pub(super) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn validate_create(&self, new: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        let (at, handler) = (At::Root("handler"), new.str_at(&["handler"]));
        if handler.is_empty() {
            at.required(errors);
        } else {
            at.problems(handler, names::label(handler), errors);
        }
        if let Some(fixed) = new.at(&["overhead", "podFixed"]) {
            let limits = tree!({"limits": fixed.clone()});
            resource_check::container(&limits, &At::Root("overhead"), &BTreeSet::new(), errors);
        }
        let at = At::Root("scheduling");
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

    fn validate_update(&self, new: &Tree, old: &Tree, _cx: &Cx<'_>, errors: &mut Errors) {
        At::Root("handler").immutable(new.get("handler"), old.get("handler"), errors);
    }
}
