//! Validation of pod updates.

use muster_schema::error::FieldError;
use muster_tree::Tree;

use super::FieldErrors;
use super::field_path::FieldPath;

const SPEC: FieldPath<'static> = FieldPath::Root("spec");

const MAY_NOT: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Restores the parts of the spec that this endpoint cannot change.
pub(super) fn keep_other_parts(new: Tree, old: &Tree, subresource: &str) -> Tree {
    match subresource {
        "ephemeralcontainers" => {
            let part = new.at(&["spec", "ephemeralContainers"]).cloned();
            old.with_option(&["spec", "ephemeralContainers"], part)
                .with_option(&["metadata"], new.get("metadata").cloned())
        }
        "resize" => {
            let resized =
                old.at(&["spec", "containers"]).cloned().unwrap_or(Tree::Null).map_items(|i, container| {
                    match new.items_at(&["spec", "containers"]).get(i).and_then(|c| c.get("resources")) {
                        Some(resources) => container.with_key("resources", resources.clone()),
                        None => container.clone(),
                    }
                });
            old.with(&["spec", "containers"], resized)
                .with_option(&["metadata"], new.get("metadata").cloned())
        }
        _ => new,
    }
}

/// Validates an update through the pod itself.
pub(super) fn check(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let (Some(new), Some(old)) = (new.get("spec"), old.get("spec")) else {
        return;
    };
    if new == old {
        return;
    }
    // If containers were added or removed, other comparisons are pointless; an invalid deadline stops validation,
    // too, as upstream.
    if has_other_containers(new, old, errors) || has_later_deadline(new, old, errors) {
        return;
    }
    gates(new, old, errors);
    let gated = !old.items_at(&["schedulingGates"]).is_empty();
    // Undo each permitted change; whatever still differs from the old spec is forbidden.
    let mut allowed = with_old_images(new, old);
    for key in ["activeDeadlineSeconds", "schedulingGates"] {
        allowed = allowed.with_option(&[key], old.get(key).cloned());
    }
    let grace = ["terminationGracePeriodSeconds"];
    // A stored negative grace period (from old API versions) may be corrected to 1.
    if old.int_at(&grace).is_some_and(|n| n < 0) && new.int_at(&grace) == Some(1) {
        allowed = allowed.with_option(&grace, old.get(grace[0]).cloned());
    }
    allowed = allowed.with_option(&["tolerations"], old.get("tolerations").cloned());
    let timeless = |toleration: &Tree| toleration.without_key("tolerationSeconds");
    let now: Vec<Tree> = new.items_at(&["tolerations"]).iter().map(timeless).collect();
    if !old.items_at(&["tolerations"]).iter().all(|t| now.contains(&timeless(t))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(SPEC.field("tolerations"), why));
    }
    // Queueing controllers inject node selectors while the pod is gated.
    if gated {
        allowed = narrowed(&allowed, new, old, errors);
    }
    if allowed != *old {
        errors.push(FieldError::forbidden("spec", MAY_NOT));
    }
}

fn gates(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let before = old.items_at(&["schedulingGates"]);
    for (i, gate) in new.items_at(&["schedulingGates"]).iter().enumerate() {
        if !before.contains(gate) {
            let name = gate.str_at(&["name"]);
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            let list = SPEC.field("schedulingGates");
            let at = list.item(i);
            errors.push(FieldError::forbidden(at.field("name"), why));
        }
    }
}

fn has_other_containers(new: &Tree, old: &Tree, errors: &mut FieldErrors) -> bool {
    let differs = |key: &&str| new.items_at(&[key]).len() != old.items_at(&[key]).len();
    let Some(key) = ["containers", "initContainers"].into_iter().find(differs) else {
        return false;
    };
    errors.push(FieldError::forbidden(SPEC.field(key), "pod updates may not add or remove containers"));
    true
}

fn has_later_deadline(new: &Tree, old: &Tree, errors: &mut FieldErrors) -> bool {
    let key = ["activeDeadlineSeconds"];
    let (new, old) = (new.int_at(&key), old.int_at(&key));
    let at = SPEC.field("activeDeadlineSeconds");
    match (new, old) {
        (Some(new), Some(old)) if new > old => {
            errors.push(FieldError::invalid(at, new, "must be less than or equal to previous value"));
            true
        }
        (None, Some(_)) => {
            let why = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(at, Tree::Null, why));
            false
        }
        _ => false,
    }
}

fn with_old_images(new: &Tree, old: &Tree) -> Tree {
    new.map_entries(|key, value| {
        Some(match key.as_str() {
            "containers" | "initContainers" => value.map_items(|i, container| {
                match old.items_at(&[key]).get(i).and_then(|c| c.get("image")) {
                    Some(image) => container.with_key("image", image.clone()),
                    None => container.clone(),
                }
            }),
            _ => value.clone(),
        })
    })
}

/// While a pod is gated, its node selection may only become stricter.
fn narrowed(allowed: &Tree, new: &Tree, old: &Tree, errors: &mut FieldErrors) -> Tree {
    let before = old.entries_at(&["nodeSelector"]);
    let added = before.iter().all(|(key, value)| new.at(&["nodeSelector", key]) == Some(value));
    if !added {
        let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let shown = new.get("nodeSelector").cloned().unwrap_or(Tree::Null);
        errors.push(FieldError::invalid(SPEC.field("nodeSelector"), shown, why));
    }
    let path =
        ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let (old_terms, new_terms) = (old.items_at(&path), new.items_at(&path));
    // Terms are ORed: adding one to a non-empty list would loosen the selection; within a term expressions are ANDed.
    let stricter = old_terms.is_empty()
        || (old_terms.len() == new_terms.len()
            && old_terms.iter().zip(new_terms).all(|(a, b)| holds_all(a, b)));
    if !stricter {
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        errors.push(FieldError::invalid(SPEC.field("affinity"), Tree::list(new_terms.to_vec()), why));
    }
    allowed
        .with_option(&["nodeSelector"], old.get("nodeSelector").cloned())
        .with_option(&["affinity"], old.get("affinity").cloned())
}

fn holds_all(old: &Tree, new: &Tree) -> bool {
    ["matchExpressions", "matchFields"].iter().all(|key| {
        let now = new.items_at(&[key]);
        old.items_at(&[key]).iter().all(|term| now.contains(term))
    })
}

/// Validates an update of the status.
pub(super) fn check_status(new: &Tree, old: &Tree, errors: &mut FieldErrors) {
    let status = FieldPath::Root("status");
    for (key, names) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        if new.str_at(&["spec", "restartPolicy"]) == "Always" {
            continue;
        }
        let list = status.field(key);
        for (i, now) in new.items_at(&["status", key]).iter().enumerate() {
            let name = now.str_at(&["name"]);
            let before = old.items_at(&["status", key]).iter().find(|s| s.str_at(&["name"]) == name);
            let ended = before.and_then(|s| s.at(&["state", "terminated"]));
            let restarts = new.str_at(&["spec", "restartPolicy"]) == "OnFailure"
                && ended.and_then(|e| e.int_at(&["exitCode"])).unwrap_or(0) != 0;
            let sidecar = new
                .items_at(&["spec", names])
                .iter()
                .any(|c| c.str_at(&["name"]) == name && !c.str_at(&["restartPolicy"]).is_empty());
            if ended.is_some() && !restarts && !sidecar && now.at(&["state", "terminated"]).is_none() {
                let why = "may not be transitioned to non-terminated state";
                let at = list.item(i);
                errors.push(FieldError::forbidden(at.field("state"), why));
            }
        }
    }
}
