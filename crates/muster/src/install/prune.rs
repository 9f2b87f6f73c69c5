//! Prunes objects that an earlier version installed and this one does not.

use std::collections::BTreeSet;

use muster_api::client::{ApiError, ApiObject, DeletionPropagation, RequestVerb};
use muster_install::{KINDS, MANAGED_BY_LABEL, PrunePolicy};
use muster_tree::{Text, Tree};

use super::InstallError;
use super::apply::AppliedObject;
use super::cluster_client::{InstallClient, request, uid_precondition};

/// Deletes leftover objects in all namespaces: an operator that is left in another namespace would compete with this
/// one.
///
/// # Errors
/// The server rejects a request.
pub async fn prune(plane: &impl InstallClient, all: &[Tree]) -> Result<Vec<AppliedObject>, InstallError> {
    let wanted: BTreeSet<(Text, Text, Text)> = all.iter().map(key).collect();
    let mut done = Vec::new();
    for (word, kind, _) in KINDS.iter().filter(|it| it.2 == PrunePolicy::Delete) {
        let found = plane.list_by_labels(kind, &[MANAGED_BY_LABEL]).await;
        let found = found.map_err(|why| InstallError::refused(&kind.plural, &why))?;
        // Items of a list have no `kind`.
        let named = |it: ApiObject| it.tree.with(&["kind"], *word);
        for left in found.into_iter().map(named).filter(|it| !wanted.contains(&key(it))) {
            let delete =
                RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs: None };
            match plane.perform(&request(&left, uid_precondition(&left), delete)).await {
                Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {}
                Err(why) => return Err(InstallError::refused(&AppliedObject::of(&left, "").object, &why)),
            }
            done.push(AppliedObject::of(&left, "removed"));
        }
    }
    Ok(done)
}

fn key(object: &Tree) -> (Text, Text, Text) {
    let meta = |key: &str| object.text_at(&["metadata", key]);
    (object.text_at(&["kind"]), meta("namespace"), meta("name"))
}
