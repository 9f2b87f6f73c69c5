//! Validation of ResourceFlavors.

use std::collections::BTreeSet;

use muster_api::queue::paths::flavor as path;
use muster_schema::error::FieldError;
use muster_schema::selector::label_value_problems;
use muster_tree::Tree;

use super::common::{self, Problems};

const UNIQUE: &str = "taints must be unique by key and effect pair";

pub(super) fn check(flavor: &Tree, problems: &mut Problems) {
    common::labels(flavor.at(path::LABELS), "spec.nodeLabels", problems);
    taints(flavor.items_at(path::TAINTS), problems);
    common::tolerations(flavor.items_at(path::TOLERATIONS), "spec.tolerations", problems);
}

fn taints(all: &[Tree], problems: &mut Problems) {
    let mut seen = BTreeSet::new();
    for (at, taint) in all.iter().enumerate() {
        let path = format!("spec.nodeTaints[{at}]");
        let [key, value, effect] = ["key", "value", "effect"].map(|key| taint.str_at(&[key]));
        common::label_key(key, &format!("{path}.key"), problems);
        let wrong = label_value_problems(value);
        if !wrong.is_empty() {
            problems.push(FieldError::invalid(format!("{path}.value"), value, wrong.join(";")));
        }
        if !seen.insert((key, effect)) {
            let mut double = FieldError::duplicate(path, taint);
            double.detail = UNIQUE.to_owned();
            problems.push(double);
        }
    }
}
