//! Rows of ResourceClaims and PodGroups.

use muster_tree::{Text, Tree};

use super::cells::{NONE, Row, cells};

pub(super) fn claim(row: &Row<'_>) -> Vec<Tree> {
    let mut states = Vec::new();
    if row.is_deleting() {
        states.push("deleted");
    }
    if row.object.at(&["status", "allocation"]).is_some() {
        states.push("allocated");
        if row.count(&["status", "reservedFor"]) > 0 {
            states.push("reserved");
        }
    } else if !row.is_deleting() {
        states.push("pending");
    }
    cells![row.name(), states.join(","), row.age()]
}

pub(super) fn slice(row: &Row<'_>) -> Vec<Tree> {
    cells![
        row.name(),
        row.text(&["spec", "nodeName"]),
        row.text(&["spec", "driver"]),
        row.text(&["spec", "pool", "name"]),
        row.age(),
    ]
}

pub(super) fn taint_rule(row: &Row<'_>) -> Vec<Tree> {
    let added = &["spec", "taint", "timeAdded"];
    cells![
        row.name(),
        row.text(&["spec", "taint", "key"]),
        row.text(&["spec", "taint", "value"]),
        row.text(&["spec", "taint", "effect"]),
        row.object.at(added).map_or(String::new(), |_| row.since(added)),
        row.age(),
    ]
}

pub(super) fn pod_group_alpha(row: &Row<'_>) -> Vec<Tree> {
    let status = match (row.condition("DisruptionTarget"), row.condition("PodGroupScheduled")) {
        (Some(target), _) => target.text_at(&["reason"]),
        (None, Some(_)) if row.holds("PodGroupScheduled") => Text::from("Scheduled"),
        (None, Some(found)) => found.text_at(&["reason"]),
        (None, None) => Text::from("Pending"),
    };
    cells![
        row.name(),
        row.text_or(&["spec", "workloadRef", "name"], NONE),
        row.text_or(&["spec", "podGroupTemplateRef", "name"], NONE),
        row.int(&["status", "scheduledPods"]),
        status,
        row.age(),
    ]
}

pub(super) fn pod_group_beta(row: &Row<'_>) -> Vec<Tree> {
    let has = |policy: &str| row.object.at(&["spec", "schedulingPolicy", policy]).is_some();
    // A `v1alpha1` group takes the policy of its template.
    let policy = match (has("gang"), has("basic")) {
        (true, _) => "Gang",
        (false, true) => "Basic",
        (false, false) => NONE,
    };
    let status = match (row.condition("DisruptionTarget"), row.condition("PodGroupInitiallyScheduled")) {
        (Some(target), _) => target.text_at(&["reason"]),
        (None, Some(_)) if row.holds("PodGroupInitiallyScheduled") => Text::from("Scheduled"),
        (None, Some(_)) => Text::from("Unschedulable"),
        (None, None) => Text::from("Pending"),
    };
    cells![row.name(), policy, row.text_or(&["spec", "workloadRef", "workloadName"], NONE), status, row.age(),]
}
