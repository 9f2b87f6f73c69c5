//! Takes away what a former version of ours installed and this one does not.

use std::collections::BTreeSet;

use muster_api::port::{Act, Cascade, Object, Refusal};
use muster_install::{Fate, INSTALLED_BY, KINDS};
use muster_tree::{Text, Tree};

use super::InstallError;
use super::apply::Done;
use super::plane::{Plane, call, itself};

/// Deletes what is left over, in all namespaces: an operator that stays behind in another would work against this one.
///
/// # Errors
/// The server refuses.
pub async fn prune(plane: &impl Plane, all: &[Tree]) -> Result<Vec<Done>, InstallError> {
    let wanted: BTreeSet<(Text, Text, Text)> = all.iter().map(key).collect();
    let mut done = Vec::new();
    for (word, kind, _) in KINDS.iter().filter(|it| it.2 == Fate::Goes) {
        let found = plane.labelled(kind, &[INSTALLED_BY]).await;
        let found = found.map_err(|why| InstallError::refused(&kind.plural, &why))?;
        // Objects of a list do not say what kind they are.
        let named = |it: Object| it.tree.with(&["kind"], *word);
        for left in found.into_iter().map(named).filter(|it| !wanted.contains(&key(it))) {
            let delete = Act::Delete { cascade: Cascade::Background, grace_secs: None };
            match plane.perform(&call(&left, itself(&left), delete)).await {
                Ok(_) | Err(Refusal::NotFound(_) | Refusal::Conflict(_)) => {}
                Err(why) => return Err(InstallError::refused(&Done::of(&left, "").object, &why)),
            }
            done.push(Done::of(&left, "removed"));
        }
    }
    Ok(done)
}

fn key(object: &Tree) -> (Text, Text, Text) {
    let meta = |key: &str| object.text_at(&["metadata", key]);
    (object.text_at(&["kind"]), meta("namespace"), meta("name"))
}
