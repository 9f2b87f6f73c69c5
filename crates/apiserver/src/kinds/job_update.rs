//! Validation of Job updates.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, go_format, job_policy};

const SPEC: FieldPath<'static> = FieldPath::Root("spec");

pub(super) fn check(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    // Idle: never started or suspended, and without active pods.
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
    for key in ["selector", "completionMode", "backoffLimitPerIndex", "managedBy"] {
        SPEC.field(key).immutable(new.get(key), old.get(key), errors);
    }
    policy("podFailurePolicy", shown_policy, new, old, errors);
    policy("successPolicy", job_policy::shown_success, new, old, errors);
    let loose = suspended && idle;
    let (a, b) = (template(new, loose), template(old, loose));
    let place = SPEC.field("template");
    if loose {
        place.field("spec").immutable(a.get("spec"), b.get("spec"), errors);
    } else {
        place.immutable(Some(&a), Some(&b), errors);
    }
}

/// Elastic indexed Jobs: completions may change together with parallelism.
fn completions(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
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

fn policy(key: &str, shown: fn(&Tree) -> String, new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    if new.get(key) != old.get(key) {
        let shown = new.get(key).map_or_else(|| "null".to_owned(), shown);
        errors.push(FieldError::invalid_as(SPEC.field(key), &shown, "field is immutable"));
    }
}

/// A failure policy in Go's field names.
fn shown_policy(policy: &Tree) -> String {
    let rule = |rule: &Tree| {
        let exits =
            rule.get("onExitCodes").map_or_else(|| "null".to_owned(), |e| go_format::typed(e, &EXIT_CODES));
        let conditions = match rule.items_at(&["onPodConditions"]) {
            [] => "null".to_owned(),
            some => go_format::all_typed(some, &CONDITION),
        };
        let action = rule.get("action").map_or_else(|| "\"\"".to_owned(), Tree::to_json);
        format!("{{\"Action\":{action},\"OnExitCodes\":{exits},\"OnPodConditions\":{conditions}}}")
    };
    let rules: Vec<String> = policy.items_at(&["rules"]).iter().map(rule).collect();
    format!("{{\"Rules\":[{}]}}", rules.join(","))
}

const EXIT_CODES: [go_format::Part; 3] = [
    ("ContainerName", "containerName", "null"),
    ("Operator", "operator", "\"\""),
    ("Values", "values", "null"),
];
const CONDITION: [go_format::Part; 2] = [("Type", "type", "\"\""), ("Status", "status", "\"\"")];

/// The template without mutable fields: for a suspended Job that never ran, the scheduling directives.
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
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        template = template.without(&["spec", key]);
    }
    // Pod affinity is immutable, node affinity is not.
    template = template.without(&["spec", "affinity", "nodeAffinity"]);
    if template.at(&["spec", "affinity"]).is_some_and(Tree::is_empty) {
        template = template.without(&["spec", "affinity"]);
    }
    for key in ["containers", "initContainers"] {
        if let Some(containers) = template.at(&["spec", key]) {
            let bare = containers.map_items(|_, container| container.without_key("resources"));
            template = template.with(&["spec", key], bare);
        }
    }
    template
}
