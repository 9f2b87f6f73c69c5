//! Submitting a plan, and taking back what was submitted.
//!
//! # Invariants
//!
//! - Whatever was made stands in [`Submitted::made`], also when a later object was refused: it can be taken back.
//! - An object that was there before is used when it says what the file says, and never deleted.

use std::time::Duration;

use muster_api::meta;
use muster_api::port::{Act, Call, Cascade, Guard, Kind, Part, Refusal};
use muster_cluster::{KubeApi, Served};
use muster_tree::{Text, Tree, literal};

use crate::run::picture::{Work, WorkKind};
use crate::run::plan::Item;
use crate::run::signals::Signals;

/// Who submits.
const BY: Text = literal!("muster-run");
/// How often a server that is not ready for an object is asked again.
const TRIES_MAX: u32 = 100;
/// The pause between two tries.
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// An object that we made.
#[derive(Debug, Clone)]
pub struct Made {
    kind: Kind,
    tree: Tree,
}

/// What was submitted.
#[derive(Debug, Default)]
pub struct Submitted {
    /// What we made, in order.
    pub made: Vec<Made>,
    /// The work among it.
    pub works: Vec<Work>,
}

/// Why an object was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {title}: {problem}\n\nhint: {hint}")]
pub struct SubmitError {
    origin: String,
    title: String,
    problem: String,
    hint: &'static str,
}

/// Submits a plan in order; stops early, without an error, when a signal comes.
///
/// # Errors
/// The first object that was refused.
pub async fn submit(
    api: &KubeApi,
    served: &[Served],
    items: &[Item],
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
                into.made.push(Made { kind: item.kind.clone(), tree });
            }
            Err(Refusal::AlreadyExists(_)) => same(api, item).await?,
            Err(refusal) => return Err(refused(item, &refusal)),
        }
    }
    Ok(())
}

/// Deletes the work; its pods end with their grace.
pub async fn end(api: &KubeApi, works: &[Work]) {
    for work in works {
        let tree = muster_tree::tree!({"metadata": {"namespace": &work.namespace, "name": &work.name}});
        delete(api, work.kind.kind(), &tree, &work.uid, None).await;
    }
}

/// Deletes pods without any grace.
pub async fn kill(api: &KubeApi, pods: impl Iterator<Item = &Tree>) {
    for pod in pods {
        delete(api, &muster_api::kinds::PODS, pod, &meta::uid(pod), Some(0)).await;
    }
}

/// Takes back everything that was made, last first.
pub async fn take_back(api: &KubeApi, made: &[Made]) {
    for Made { kind, tree } in made.iter().rev() {
        delete(api, kind, tree, &meta::uid(tree), None).await;
    }
}

async fn delete(api: &KubeApi, kind: &Kind, tree: &Tree, uid: &Text, grace_secs: Option<u32>) {
    let on = meta::target(kind, tree, Part::Main);
    let mut call = Call::delete(BY, on, uid.clone(), Cascade::Background);
    if grace_secs.is_some() {
        call.act = Act::Delete { cascade: Cascade::Background, grace_secs };
    }
    match api.perform(&call).await {
        // Gone before us, or another of the same name by now.
        Ok(_) | Err(Refusal::NotFound(_) | Refusal::Conflict(_)) => {}
        Err(refusal) => tracing::warn!(name = %call.on.name, %refusal, "could not be deleted"),
    }
}

async fn create(api: &KubeApi, item: &Item, is_new_kind: bool) -> Result<Tree, Refusal> {
    let on = meta::target(&item.kind, &item.tree, Part::Main);
    let call = Call { by: BY, on, guard: Guard::default(), act: Act::Create(item.tree.clone()) };
    for _ in 1..TRIES_MAX {
        match api.perform(&call).await {
            Err(refusal) if passes(&refusal, is_new_kind) => tokio::time::sleep(TRY_PAUSE).await,
            done => return done.map(|object| object.tree),
        }
    }
    api.perform(&call).await.map(|object| object.tree)
}

/// Whether a refusal may be over soon: a definition is served a moment after it was taken, and a new namespace gets
/// its service account a moment after it was made.
fn passes(refusal: &Refusal, is_new_kind: bool) -> bool {
    match refusal {
        Refusal::Busy { .. } => true,
        Refusal::NotFound(_) => is_new_kind,
        Refusal::Forbidden(words) => words.contains("serviceaccount") && words.contains("not found"),
        _ => false,
    }
}

/// An object that is there already must say what the file says. Work must be new.
async fn same(api: &KubeApi, item: &Item) -> Result<(), SubmitError> {
    let wrong = |problem: &str| SubmitError {
        origin: item.origin.to_string(),
        title: item.title(),
        problem: problem.to_owned(),
        hint: "delete it first, or give this one another name (`generateName` always finds a free one)",
    };
    if item.is_work {
        return Err(wrong("it exists already"));
    }
    let on = meta::target(&item.kind, &item.tree, Part::Main);
    let call = Call { by: BY, on, guard: Guard::default(), act: Act::Get };
    match api.perform(&call).await {
        Ok(live) if says(&live.tree, &item.tree) => Ok(()),
        Ok(_) => Err(wrong("it exists already with other content")),
        Err(refusal) => Err(refused(item, &refusal)),
    }
}

/// Whether an object says everything that another does.
fn says(live: &Tree, wanted: &Tree) -> bool {
    match wanted {
        Tree::Map(_) => {
            wanted.entries().iter().all(|(key, value)| live.get(key).is_some_and(|found| says(found, value)))
        }
        Tree::List(_) => {
            let (live, wanted) = (live.items(), wanted.items());
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| says(live, wanted))
        }
        _ => live == wanted,
    }
}

fn refused(item: &Item, refusal: &Refusal) -> SubmitError {
    let hint = match refusal {
        Refusal::Invalid(_) => "change the manifest; what was submitted before it is taken back",
        // The webhooks of queues and of training tell so what is wrong with an object.
        Refusal::Forbidden(words) if words.contains("denied the request") => {
            "change the manifest; what was submitted before it is taken back"
        }
        Refusal::NotFound(_) => "does its namespace exist?",
        Refusal::Forbidden(_) => "may this user create it?",
        _ => "is the server well? What was submitted before it is taken back",
    };
    SubmitError { origin: item.origin.to_string(), title: item.title(), problem: refusal.words(), hint }
}

fn work_of(item: &Item, tree: &Tree) -> Option<Work> {
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
            assert_eq!(says(&live, &wanted), want, "{wanted}");
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        let words = |words: &str| words.to_owned();
        assert!(passes(&Refusal::NotFound(words("no such path")), true));
        assert!(!passes(&Refusal::NotFound(words("no such namespace")), false));
        assert!(passes(&Refusal::Forbidden(words("serviceaccount \"default\" not found")), false));
        assert!(!passes(&Refusal::Forbidden(words("you may not")), false));
        assert!(!passes(&Refusal::Unknown(words("lost")), false), "it may have happened");
    }
}
