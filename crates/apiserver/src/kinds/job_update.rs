//! What of a Job may change after it was created.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::Errors;
use super::at::At;

const SPEC: At<'static> = At::Root("spec");

/// What is wrong with an update of a Job.
pub(super) fn check(new: &Tree, old: &Tree, errors: &mut Errors) {
    // Nothing runs: it never started, or has stopped.
    let stopped = old.items_at(&["status", "conditions"]).iter().any(|condition| {
        condition.str_at(&["type"]) == "Suspended" && condition.str_at(&["status"]) == "True"
    });
    let idle = (old.at(&["status", "startTime"]).is_none() || stopped)
        && old.int_at(&["status", "active"]).unwrap_or(0) == 0;
    let suspended = old.bool_at(&["spec", "suspend"]) == Some(true);
    let (Some(new), Some(old)) = (new.get("spec"), old.get("spec")) else {
        return;
    };
    completions(new, old, errors);
    for key in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        SPEC.field(key).immutable(new.get(key), old.get(key), errors);
    }
    let loose = suspended && idle;
    let (a, b) = (template(new, loose), template(old, loose));
    let place = SPEC.field("template");
    if loose {
        place.field("spec").immutable(a.get("spec"), b.get("spec"), errors);
    } else {
        place.immutable(Some(&a), Some(&b), errors);
    }
}

/// An indexed Job may grow and shrink to what its parallelism is then, whatever that was before.
fn completions(new: &Tree, old: &Tree, errors: &mut Errors) {
    let key = ["completions"];
    if new.get("completions") == old.get("completions") {
        return;
    }
    if new.str_at(&["completionMode"]) == "Indexed"
        && new.get("completions").is_some()
        && old.get("completions").is_some()
    {
        if new.int_at(&key) != new.int_at(&["parallelism"]) {
            let value = new.int_at(&key).unwrap_or(0);
            let why = "can only be modified in tandem with spec.parallelism";
            errors.push(FieldError::invalid(SPEC.field("completions"), value, why));
        }
        return;
    }
    let shown = new.get("completions").cloned().unwrap_or(Tree::Null);
    errors.push(FieldError::invalid(SPEC.field("completions"), shown, "field is immutable"));
}

/// The template without what may change: of a suspended Job that never ran, everything about placement.
fn template(spec: &Tree, loose: bool) -> Tree {
    let template = spec.get("template").cloned().unwrap_or(Tree::Null);
    if !loose {
        return template;
    }
    let template = template.without(&["metadata", "labels"]).without(&["metadata", "annotations"]);
    let mut template = if template.get("metadata").is_some_and(Tree::is_empty) {
        template.without_key("metadata")
    } else {
        template
    };
    for key in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
        template = template.without(&["spec", key]);
    }
    for key in ["containers", "initContainers"] {
        if let Some(containers) = template.at(&["spec", key]) {
            let bare = containers.map_items(|_, container| container.without_key("resources"));
            template = template.with(&["spec", key], bare);
        }
    }
    template
}
