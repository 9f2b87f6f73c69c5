//! Submits a plan, and deletes what was created.
//!
//! # Guarantees
//!
//! - Every created object is recorded, also if a later one is rejected, so that it can be deleted.
//! - An existing object is used if it has all fields of the manifest, and never deleted.

use std::time::Duration;

use muster_api::client::{
    ApiError, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestVerb, Subresource,
};
use muster_api::meta;
use muster_cluster::{KubeApi, ServedResource};
use muster_tree::{Text, Tree, literal};

use crate::run::plan::PlannedObject;
use crate::run::signals::Signals;
use crate::run::snapshot::{Work, WorkKind};

const FIELD_MANAGER: Text = literal!("muster-run");
/// Attempts to create an object while the server is not ready for it: 100 every 100 ms are 10 seconds.
const TRIES_MAX: u32 = 100;
/// The pause between two attempts.
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// An object that this run created.
#[derive(Debug, Clone)]
pub struct CreatedObject {
    kind: Kind,
    tree: Tree,
}

#[derive(Debug, Default)]
pub struct Submitted {
    /// The created objects, in order.
    pub made: Vec<CreatedObject>,
    /// The work among them.
    pub works: Vec<Work>,
}

/// An object was rejected.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {title}: {problem}\n\nhint: {hint}")]
pub struct SubmitError {
    origin: String,
    title: String,
    problem: String,
    hint: &'static str,
}

/// Creates the objects of a plan in order; stops early, without an error, when a signal was received.
///
/// # Errors
/// The first object that was rejected.
pub async fn submit(
    api: &KubeApi,
    served: &[ServedResource],
    items: &[PlannedObject],
    signals: &Signals,
    into: &mut Submitted,
) -> Result<(), SubmitError> {
    for item in items {
        if signals.first().is_some() {
            return Ok(());
        }
        let is_new = !served.iter().any(|known| known.kind == item.kind);
        match create(api, item, is_new).await {
            Ok(tree) => {
                into.works.extend(work_of(item, &tree));
                into.made.push(CreatedObject { kind: item.kind.clone(), tree });
            }
            Err(ApiError::AlreadyExists(_)) => check_existing(api, item).await?,
            Err(refusal) => return Err(refused(item, &refusal)),
        }
    }
    Ok(())
}

/// Deletes the work with background propagation; its pods terminate gracefully.
pub async fn delete_work(api: &KubeApi, works: &[Work]) {
    for work in works {
        let tree = muster_tree::tree!({"metadata": {"namespace": &work.namespace, "name": &work.name}});
        delete(api, work.kind.kind(), &tree, &work.uid, None).await;
    }
}

/// Deletes pods with a grace period of 0.
pub async fn force_delete_pods(api: &KubeApi, pods: impl Iterator<Item = &Tree>) {
    for pod in pods {
        delete(api, &muster_api::kinds::PODS, pod, &meta::uid(pod), Some(0)).await;
    }
}

/// Deletes the created objects in reverse order, so that work is deleted before its namespace and CRDs.
pub async fn delete_created(api: &KubeApi, made: &[CreatedObject]) {
    for CreatedObject { kind, tree } in made.iter().rev() {
        delete(api, kind, tree, &meta::uid(tree), None).await;
    }
}

async fn delete(api: &KubeApi, kind: &Kind, tree: &Tree, uid: &Text, grace_secs: Option<u32>) {
    let on = meta::target(kind, tree, Subresource::Main);
    let mut call = ApiRequest::delete(FIELD_MANAGER, on, uid.clone(), DeletionPropagation::Background);
    if grace_secs.is_some() {
        call.verb = RequestVerb::Delete { propagation_policy: DeletionPropagation::Background, grace_secs };
    }
    match api.perform(&call).await {
        // Already deleted, or recreated with the same name: then the UID precondition fails, as it should.
        Ok(_) | Err(ApiError::NotFound(_) | ApiError::Conflict(_)) => {}
        Err(refusal) => tracing::warn!(name = %call.target.name, %refusal, "could not be deleted"),
    }
}

async fn create(api: &KubeApi, item: &PlannedObject, is_new_kind: bool) -> Result<Tree, ApiError> {
    let on = meta::target(&item.kind, &item.tree, Subresource::Main);
    let call = ApiRequest {
        field_manager: FIELD_MANAGER,
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Create(item.tree.clone()),
    };
    for _ in 1..TRIES_MAX {
        match api.perform(&call).await {
            Err(refusal) if is_transient(&refusal, is_new_kind) => tokio::time::sleep(TRY_PAUSE).await,
            done => return done.map(|object| object.tree),
        }
    }
    api.perform(&call).await.map(|object| object.tree)
}

/// Whether an error is transient: a new CRD is served, and a new namespace gets its default ServiceAccount, only some
/// time after the create. An indeterminate error is not: the object may have been created.
fn is_transient(refusal: &ApiError, is_new_kind: bool) -> bool {
    match refusal {
        ApiError::TooManyRequests { .. } => true,
        ApiError::NotFound(_) => is_new_kind,
        ApiError::Forbidden(words) => words.contains("serviceaccount") && words.contains("not found"),
        _ => false,
    }
}

/// An existing object must have all fields of the manifest. Work must not exist.
async fn check_existing(api: &KubeApi, item: &PlannedObject) -> Result<(), SubmitError> {
    let wrong = |problem: &str| SubmitError {
        origin: item.origin.to_string(),
        title: item.title(),
        problem: problem.to_owned(),
        hint: "delete it first, or give this one another name (`generateName` always finds a free one)",
    };
    if item.is_work {
        return Err(wrong("it exists already"));
    }
    let on = meta::target(&item.kind, &item.tree, Subresource::Main);
    let call = ApiRequest {
        field_manager: FIELD_MANAGER,
        target: on,
        preconditions: Preconditions::default(),
        verb: RequestVerb::Get,
    };
    match api.perform(&call).await {
        Ok(live) if is_superset(&live.tree, &item.tree) => Ok(()),
        Ok(_) => Err(wrong("it exists already with other content")),
        Err(refusal) => Err(refused(item, &refusal)),
    }
}

/// Whether an object has all fields of another one; the server adds defaults and status.
fn is_superset(live: &Tree, wanted: &Tree) -> bool {
    match wanted {
        Tree::Map(_) => wanted
            .entries()
            .iter()
            .all(|(key, value)| live.get(key).is_some_and(|found| is_superset(found, value))),
        Tree::List(_) => {
            let (live, wanted) = (live.items(), wanted.items());
            live.len() == wanted.len()
                && live.iter().zip(wanted).all(|(live, wanted)| is_superset(live, wanted))
        }
        _ => live == wanted,
    }
}

fn refused(item: &PlannedObject, refusal: &ApiError) -> SubmitError {
    let hint = match refusal {
        ApiError::Invalid(_) => "change the manifest; what was submitted before it is taken back",
        // A validating webhook that rejects an object replies with Forbidden, which here does not mean RBAC.
        ApiError::Forbidden(words) if words.contains("denied the request") => {
            "change the manifest; what was submitted before it is taken back"
        }
        ApiError::NotFound(_) => "does its namespace exist?",
        ApiError::Forbidden(_) => "may this user create it?",
        _ => "is the server well? What was submitted before it is taken back",
    };
    SubmitError { origin: item.origin.to_string(), title: item.title(), problem: refusal.message(), hint }
}

fn work_of(item: &PlannedObject, tree: &Tree) -> Option<Work> {
    let kinds = WorkKind::ALL;
    let kind = kinds.into_iter().find(|kind| *kind.kind() == item.kind).filter(|_| item.is_work)?;
    let (namespace, name, uid) = (meta::namespace(tree), meta::name(tree), meta::uid(tree));
    Some(Work { kind, namespace, name, uid })
}

#[cfg(test)]
mod tests {
    use muster_tree::tree;

    use super::*;

    #[test]
    fn an_object_says_what_another_does() {
        let live = tree!({"a": 1, "b": {"c": [1, {"d": "e", "defaulted": true}]}, "status": {}});
        for (wanted, want) in [
            (tree!({}), true),
            (tree!({"a": 1, "b": {"c": [1, {"d": "e"}]}}), true),
            (tree!({"a": 2}), false),
            (tree!({"b": {"c": [1]}}), false),
            (tree!({"missing": 1}), false),
        ] {
            assert_eq!(is_superset(&live, &wanted), want, "{wanted}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        let words = |words: &str| words.to_owned();
        assert!(is_transient(&ApiError::NotFound(words("no such path")), true));
        assert!(!is_transient(&ApiError::NotFound(words("no such namespace")), false));
        assert!(is_transient(&ApiError::Forbidden(words("serviceaccount \"default\" not found")), false));
        assert!(!is_transient(&ApiError::Forbidden(words("you may not")), false));
        assert!(!is_transient(&ApiError::Indeterminate(words("lost")), false), "it may have happened");
    }
}
