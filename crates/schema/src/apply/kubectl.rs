//! Migration between `kubectl apply` and `kubectl apply --server-side`.
//!
//! Client-side apply stores the last configuration in an annotation. A later server-side apply by kubectl does not
//! conflict with fields that are unchanged since that annotation, and the annotation is kept up to date so that
//! users can switch back.

use muster_tree::Tree;

use super::Conflict;
use crate::fields;
use crate::node::View;
use crate::object::StoredObject;

/// The field manager that this module applies to.
pub(super) const MANAGER: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns whether all conflicting fields are in the annotation.
pub(super) fn allows(view: View<'_>, live: &Tree, conflicts: &[Conflict], api_version: &str) -> bool {
    let Some(own) = owned_by_annotation(view, live, api_version) else { return false };
    conflicts.iter().all(|conflict| own.contains(&conflict.path))
}

/// The conflicts with fields that are not in the annotation.
pub(super) fn disallowed(
    view: View<'_>,
    live: &Tree,
    conflicts: Vec<Conflict>,
    api_version: &str,
) -> Vec<Conflict> {
    let own = owned_by_annotation(view, live, api_version).unwrap_or_default();
    conflicts.into_iter().filter(|conflict| !own.contains(&conflict.path)).collect()
}

/// The fields of the annotation that are unchanged in the live object.
fn owned_by_annotation(view: View<'_>, live: &Tree, api_version: &str) -> Option<Vec<String>> {
    let text = live.at(&["metadata", "annotations", LAST_APPLIED])?.as_str()?;
    let last = Tree::parse(text.as_bytes()).ok()?;
    if last.str_at(&["apiVersion"]) != api_version {
        return None;
    }
    let delta = fields::compare(view, &last, live);
    let kept = fields::difference(&fields::of(view, &last), &fields::union(&delta.changed, &delta.removed));
    Some(fields::paths(&kept))
}

/// Updates the annotation with the applied configuration, if it exists.
pub(super) fn sync_last_applied(object: StoredObject, applied: &Tree) -> StoredObject {
    let path = ["metadata", "annotations", LAST_APPLIED];
    if object.tree.str_at(&path).is_empty() {
        return object;
    }
    let configuration = applied.without(&path);
    let text = configuration.to_json() + "\n";
    StoredObject { tree: object.tree.with(&path, text), ..object }
}
