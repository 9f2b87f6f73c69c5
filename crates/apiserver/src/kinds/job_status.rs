//! Validation of Job status updates.

use std::collections::BTreeSet;

use muster_schema::error::{FieldError, Problem};
use muster_tree::Tree;

use super::field_path::FieldPath;
use super::{FieldErrors, go_format, job_policy};

const STATUS: FieldPath<'static> = FieldPath::Root("status");
/// `uncountedTerminatedPods` in error messages.
const UNCOUNTED: [go_format::Part; 2] = [("Succeeded", "succeeded", "null"), ("Failed", "failed", "null")];

/// Old and new state of a Job.
struct Change<'a> {
    new: &'a Tree,
    old: &'a Tree,
}

impl Change<'_> {
    fn is(&self, kind: &str) -> bool {
        holds(self.new, kind)
    }

    fn was(&self, kind: &str) -> bool {
        holds(self.old, kind)
    }

    /// Whether one of these conditions changed.
    fn turned(&self, kinds: &[&str]) -> bool {
        kinds.iter().any(|kind| self.is(kind) != self.was(kind))
    }

    /// Whether one of these status fields changed.
    fn moved(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.new.at(&["status", key]) != self.old.at(&["status", key]))
    }

    fn number(&self, key: &str) -> i64 {
        self.new.int_at(&["status", key]).unwrap_or(0)
    }

    fn before(&self, key: &str) -> i64 {
        self.old.int_at(&["status", key]).unwrap_or(0)
    }
}

fn holds(job: &Tree, kind: &str) -> bool {
    let conditions = job.items_at(&["status", "conditions"]).iter();
    conditions.filter(|c| c.str_at(&["type"]) == kind).any(|c| c.str_at(&["status"]) == "True")
}

/// An error about conditions, without a value.
fn refuse(why: &str, errors: &mut FieldErrors) {
    let mut error = FieldError::invalid(STATUS.field("conditions"), Tree::Null, why);
    error.problem = Problem::InvalidBranch;
    errors.push(error);
}

/// Validates an update of the status.
pub(super) fn check(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let change = Change { new, old };
    for key in ["active", "succeeded", "failed", "ready", "terminating"] {
        STATUS.field(key).not_negative(new.int_at(&["status", key]), errors);
    }
    uncounted(&change, errors);
    together(&change, errors);
    times(&change, errors);
    pods(&change, errors);
    indexes(&change, errors);
    kept(&change, errors);
}

/// Each uncounted pod may be listed once.
fn uncounted(change: &Change<'_>, errors: &mut FieldErrors) {
    let at = STATUS.field("uncountedTerminatedPods");
    let mut seen = BTreeSet::new();
    for key in ["succeeded", "failed"] {
        let list = at.field(key);
        let pods = change.new.items_at(&["status", "uncountedTerminatedPods", key]);
        for (n, uid) in pods.iter().enumerate() {
            let uid = uid.as_str().unwrap_or_default();
            if uid.is_empty() {
                errors.push(FieldError::invalid(list.item(n), uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(FieldError::duplicate(list.item(n), uid));
            }
        }
    }
}

/// Mutually exclusive and dependent conditions.
fn together(change: &Change<'_>, errors: &mut FieldErrors) {
    let is = |kind: &str| change.is(kind);
    if change.turned(&["Complete", "Failed"]) && is("Complete") && is("Failed") {
        refuse("cannot set Complete=True and Failed=true conditions", errors);
    }
    if change.turned(&["Complete", "FailureTarget"]) && is("Complete") && is("FailureTarget") {
        refuse("cannot set Complete=True and FailureTarget=true conditions", errors);
    }
    // The controller adds the interim condition first, while pods terminate, and the terminal one when all
    // are gone.
    let failed = change.turned(&["Failed"]) || change.moved(&["failedIndexes"]);
    if failed && is("Failed") && !is("FailureTarget") {
        refuse("cannot set Failed=True condition without the FailureTarget=true condition", errors);
    }
    if change.turned(&["Complete", "SuccessCriteriaMet"]) && is("Complete") && !is("SuccessCriteriaMet") {
        refuse("cannot set Complete=True condition without the SuccessCriteriaMet=true condition", errors);
    }
    if is("SuccessCriteriaMet") && is("Failed") {
        refuse("cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
    }
    if is("SuccessCriteriaMet") && is("FailureTarget") {
        refuse("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
    }
    let policy = change.new.at(&["spec", "successPolicy"]).is_some();
    if policy && !is("SuccessCriteriaMet") && is("Complete") {
        refuse("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True", errors);
    }
}

fn times(change: &Change<'_>, errors: &mut FieldErrors) {
    let time = |tree: &Tree, key: &str| tree.at(&["status", key]).filter(|t| !t.is_null()).cloned();
    let (start, end) = (time(change.new, "startTime"), time(change.new, "completionTime"));
    let at = STATUS.field("completionTime");
    if change.turned(&["Complete"]) || change.moved(&["completionTime"]) {
        match &end {
            Some(end) if !change.is("Complete") => {
                let why = "cannot set completionTime when there is no Complete=True condition";
                errors.push(FieldError::invalid(at, end.clone(), why));
            }
            None if change.is("Complete") => {
                errors.push(FieldError::required(at, "completionTime is required for Complete jobs"));
            }
            _ => {}
        }
    }
    // RFC 3339 in UTC with whole seconds sorts as text.
    if let (Some(start), Some(end)) = (&start, &end)
        && change.moved(&["startTime", "completionTime"])
        && end.as_str() < start.as_str()
    {
        errors.push(FieldError::invalid(at, end.clone(), "must be equal to or after `startTime`"));
    }
    if let (Some(before), Some(end)) = (time(change.old, "completionTime"), &end)
        && before != *end
    {
        errors.push(FieldError::invalid(at, end.clone(), "field is immutable"));
    }
    let suspended = change.new.bool_at(&["spec", "suspend"]) == Some(true);
    let before = time(change.old, "startTime");
    if before.is_some() && before != start && !suspended && !is_resuming(change) {
        let why = "field is immutable for unsuspended job once set";
        errors.push(FieldError::invalid(STATUS.field("startTime"), start.unwrap_or(Tree::Null), why));
    }
}

/// `startTime` may change only when a suspended Job is resumed.
fn is_resuming(change: &Change<'_>) -> bool {
    change.was("Suspended") && !change.is("Suspended")
}

fn pods(change: &Change<'_>, errors: &mut FieldErrors) {
    let finished = change.is("Complete") || change.is("Failed");
    let ended = change.turned(&["Complete", "Failed"]);
    let active = change.number("active");
    if finished && active > 0 && (ended || change.moved(&["active"])) {
        let why = "active>0 is invalid for finished job";
        errors.push(FieldError::invalid(STATUS.field("active"), active, why));
    }
    // A suspended Job with zero completions finishes without ever starting.
    let idle = change.new.bool_at(&["spec", "suspend"]) == Some(true)
        && change.new.int_at(&["spec", "completions"]) == Some(0);
    let starts = ended || change.moved(&["startTime"]);
    if finished && starts && !idle && change.new.at(&["status", "startTime"]).is_none() {
        errors
            .push(FieldError::required(STATUS.field("startTime"), "startTime is required for finished job"));
    }
    let uncounted = change.new.at(&["status", "uncountedTerminatedPods"]);
    let left = uncounted
        .filter(|pods| !pods.items_at(&["succeeded"]).is_empty() || !pods.items_at(&["failed"]).is_empty());
    if let Some(left) = left.filter(|_| finished && (ended || change.moved(&["uncountedTerminatedPods"]))) {
        let at = STATUS.field("uncountedTerminatedPods");
        let shown = go_format::typed(left, &UNCOUNTED);
        errors.push(FieldError::invalid_as(at, &shown, "must be empty for finished job"));
    }
    let terminating = change.number("terminating");
    if finished && terminating > 0 && (ended || change.moved(&["terminating"])) {
        let why = "terminating>0 is invalid for finished job";
        errors.push(FieldError::invalid(STATUS.field("terminating"), terminating, why));
    }
    let ready = change.new.int_at(&["status", "ready"]);
    if let Some(ready) = ready.filter(|ready| *ready > active && change.moved(&["ready", "active"])) {
        let why = "cannot set more ready pods than active";
        errors.push(FieldError::invalid(STATUS.field("ready"), ready, why));
    }
}

fn indexes(change: &Change<'_>, errors: &mut FieldErrors) {
    let spec = change.new.get("spec").unwrap_or(&Tree::Null);
    let completions = spec.int_at(&["completions"]);
    let check = |key: &str, errors: &mut FieldErrors| {
        let text = change.new.str_at(&["status", key]);
        if let Some(Err(why)) = completions.map(|n| job_policy::count_indexes(text, n)) {
            let why = format!("error parsing {key}: {why}");
            errors.push(FieldError::invalid(STATUS.field(key), text, why));
        }
    };
    if change.moved(&["completedIndexes"]) {
        check("completedIndexes", errors);
        let text = change.new.str_at(&["status", "completedIndexes"]);
        if !text.is_empty() && spec.str_at(&["completionMode"]) != "Indexed" {
            let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(FieldError::invalid(STATUS.field("completedIndexes"), text, why));
        }
    }
    if let Some(failed) = failed_indexes(change.new).filter(|_| change.moved(&["failedIndexes"])) {
        if spec.get("backoffLimitPerIndex").is_none() {
            let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(FieldError::invalid(STATUS.field("failedIndexes"), failed, why));
        } else {
            check("failedIndexes", errors);
        }
    }
    let failed = failed_indexes(change.new);
    if let (Some(failed), Some(completions)) = (failed, completions)
        && change.moved(&["failedIndexes", "completedIndexes"])
    {
        let completed = change.new.str_at(&["status", "completedIndexes"]);
        if let Some(index) = job_policy::overlap(completed, failed, completions) {
            let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
            errors.push(FieldError::invalid(STATUS.field("failedIndexes"), failed, why));
        }
    }
}

fn failed_indexes(job: &Tree) -> Option<&str> {
    job.at(&["status", "failedIndexes"]).and_then(Tree::as_str)
}

/// Terminal conditions and counters never revert.
fn kept(change: &Change<'_>, errors: &mut FieldErrors) {
    for kind in ["Failed", "Complete", "FailureTarget"] {
        if change.was(kind) && !change.is(kind) {
            refuse(&format!("cannot disable the terminal {kind}=True condition"), errors);
        }
    }
    if change.was("SuccessCriteriaMet") && !change.is("SuccessCriteriaMet") {
        refuse("cannot disable the SuccessCriteriaMet=True condition", errors);
    }
    if change.was("Complete") && !change.was("SuccessCriteriaMet") && change.is("SuccessCriteriaMet") {
        refuse("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions", errors);
    }
    let spec = change.new.get("spec").unwrap_or(&Tree::Null);
    // An elastic indexed Job may be scaled down below its succeeded count.
    let elastic =
        spec.str_at(&["completionMode"]) == "Indexed" && spec.get("completions") == spec.get("parallelism");
    for (key, may_shrink) in [("failed", false), ("succeeded", elastic)] {
        if change.number(key) < change.before(key) && !may_shrink {
            let why = format!("cannot decrease the {key} counter");
            errors.push(FieldError::invalid(STATUS.field(key), change.number(key), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    fn job(status: Tree) -> Tree {
        tree!({"spec": {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}, "status": status})
    }

    #[test]
    fn a_status_tells_a_story_that_can_be_true() {
        let done =
            tree!([{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]);
        let only = tree!([{"type": "Complete", "status": "True"}]);
        let start = "2026-01-01T00:00:00Z";
        for (old, new, want) in [
            (tree!({}), tree!({"active": 2, "ready": 1}), vec![]),
            (tree!({}), tree!({"active": 1, "ready": 2}), vec!["status.ready"]),
            (tree!({"failed": 2}), tree!({"failed": 1}), vec!["status.failed"]),
            (tree!({"succeeded": 2}), tree!({"succeeded": 1}), vec![]),
            (tree!({}), tree!({"completedIndexes": "0-9"}), vec!["status.completedIndexes"]),
            (tree!({}), tree!({"completionTime": start}), vec!["status.completionTime"]),
            (
                tree!({"startTime": start}),
                tree!({"startTime": start, "completionTime": start, "conditions": done.clone()}),
                vec![],
            ),
            (
                tree!({"startTime": start}),
                tree!({"startTime": start, "completionTime": start, "conditions": only}),
                vec!["status.conditions"],
            ),
            (tree!({"conditions": done}), tree!({}), vec!["status.conditions", "status.conditions"]),
        ] {
            let mut errors = FieldErrors::new();
            check(&job(new.clone()), &job(old), &mut errors);
            assert_eq!(errors.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), want, "{new:?}");
        }
    }
}
