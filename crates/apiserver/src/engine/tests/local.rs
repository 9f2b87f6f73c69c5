//! The in-process API client.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use muster_api::client::{
    Api, ApiError, ApiObject, ApiRequest, DeletionPropagation, Kind, Preconditions, RequestTarget,
    RequestVerb, Subresource, WatchBatch, WatchChange, Watcher,
};
use muster_tree::{Tree, tree};

use super::TestEngine;
use crate::local::LocalApi;

fn kind() -> Kind {
    Kind { group: "".into(), version: "v1".into(), plural: "configmaps".into() }
}

fn call(name: &str, act: RequestVerb) -> ApiRequest {
    let on = RequestTarget {
        kind: kind(),
        namespace: "default".into(),
        name: name.into(),
        subresource: Subresource::Main,
    };
    ApiRequest {
        field_manager: "tester".into(),
        target: on,
        preconditions: Preconditions::default(),
        verb: act,
    }
}

fn config(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "data": {"a": "1"}})
}

fn perform(api: &LocalApi, call: ApiRequest) -> Result<ApiObject, ApiError> {
    let (tx, rx) = mpsc::channel();
    api.send(call, Box::new(move |result| tx.send(result).unwrap()));
    rx.try_recv().expect("the store in memory answers at once")
}

fn together(api: &LocalApi, calls: Vec<ApiRequest>) -> Vec<Result<ApiObject, ApiError>> {
    let (tx, rx) = mpsc::channel();
    api.send_transaction(calls, Box::new(move |result| tx.send(result).unwrap()));
    rx.try_recv().expect("the store in memory answers at once")
}

#[test]
fn preconditions_are_enforced() {
    let world = TestEngine::new();
    let api = LocalApi::new(world.engine.clone());
    let made = perform(&api, call("a", RequestVerb::Create(config("a")))).unwrap();
    let mut late = call("a", RequestVerb::MergePatch(tree!({"data": {"a": "2"}})));
    late.preconditions.revision = Some(made.revision - 1);
    assert!(matches!(perform(&api, late), Err(ApiError::Conflict(_))));
    let mut other = call("a", RequestVerb::Get);
    other.preconditions.uid = Some("someone-else".into());
    assert!(matches!(perform(&api, other), Err(ApiError::Conflict(_))));
    let uid = made.tree.text_at(&["metadata", "uid"]);
    let gone = ApiRequest::delete(
        "tester".into(),
        call("a", RequestVerb::Get).target,
        uid,
        DeletionPropagation::Background,
    );
    perform(&api, gone).unwrap();
    assert!(matches!(perform(&api, call("a", RequestVerb::Get)), Err(ApiError::NotFound(_))));
}

#[test]
fn transactions_are_atomic() {
    let world = TestEngine::new();
    let api = LocalApi::new(world.engine.clone());
    let before = world.engine.revision();
    let results = together(
        &api,
        vec![
            call("a", RequestVerb::Create(config("a"))),
            call("nope", RequestVerb::MergePatch(tree!({"data": {}}))),
        ],
    );
    assert!(
        matches!(results[0], Err(ApiError::Conflict(_))) && matches!(results[1], Err(ApiError::NotFound(_)))
    );
    assert_eq!(world.engine.revision(), before, "nothing was written");
    let results = together(
        &api,
        vec![call("a", RequestVerb::Create(config("a"))), call("b", RequestVerb::Create(config("b")))],
    );
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(world.engine.revision(), before + 2);
}

#[test]
fn a_watcher_starts_with_a_list_and_is_notified() {
    let world = TestEngine::new();
    let api = LocalApi::new(world.engine.clone());
    let mut follow = api.watch(&kind());
    let Some(WatchBatch::Restarted(all)) = follow.try_next() else { panic!("everything first") };
    assert_eq!(all.len(), 5, "one certificate for each namespace");
    assert_eq!(follow.try_next(), None);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    follow.notify_when_ready(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    perform(&api, call("a", RequestVerb::Create(config("a")))).unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let Some(WatchBatch::Changes(changes)) = follow.try_next() else { panic!("a change") };
    assert!(
        matches!(&changes[..], [WatchChange::Applied(object)] if object.tree.str_at(&["metadata", "name"]) == "a")
    );
    let mut unknown =
        api.watch(&Kind { group: "example.com".into(), version: "v1".into(), plural: "things".into() });
    assert_eq!(unknown.try_next(), Some(WatchBatch::Restarted(Vec::new())), "what is not served is empty");
    assert_eq!(unknown.try_next(), None);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    unknown.notify_when_ready(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(woken.load(Ordering::Relaxed), 0, "no notification without a change");
}

/// A change may be published between creating a listener and its first poll.
#[test]
fn changes_at_any_moment_notify_the_watcher() {
    const WRITES: u64 = 20_000;
    let world = TestEngine::new();
    let api = LocalApi::new(world.engine.clone());
    let first = perform(&api, call("a", RequestVerb::Create(config("a")))).unwrap().revision;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..WRITES {
                let data = turn.to_string();
                perform(&api, call("a", RequestVerb::MergePatch(tree!({"data": {"turn": data}})))).unwrap();
            }
        });
        let mut follow = api.watch(&kind());
        let mut seen = 0;
        while seen < first + WRITES {
            let (woken, wait) = mpsc::channel();
            follow.notify_when_ready(Box::new(move || {
                let _ = woken.send(());
            }));
            wait.recv_timeout(Duration::from_secs(60)).expect("a wake-up, for there is more to come");
            while let Some(batch) = follow.try_next() {
                let newest = match batch {
                    WatchBatch::Restarted(objects) => objects.iter().map(|object| object.revision).max(),
                    WatchBatch::Changes(changes) => {
                        let object =
                            |(WatchChange::Applied(object) | WatchChange::Deleted(object)): &WatchChange| {
                                object.revision
                            };
                        changes.iter().map(object).max()
                    }
                };
                seen = seen.max(newest.unwrap_or(0));
            }
        }
    });
}

#[test]
fn a_notification_is_not_passed_on_to_other_watchers() {
    let world = TestEngine::new();
    let api = LocalApi::new(world.engine.clone());
    let woken = Arc::new(AtomicUsize::new(0));
    let mut follows: Vec<Box<dyn Watcher>> = (0..3).map(|_| api.watch(&kind())).collect();
    let pull_all = |follows: &mut Vec<Box<dyn Watcher>>| {
        for follow in follows {
            while follow.try_next().is_some() {}
            let count = woken.clone();
            follow.notify_when_ready(Box::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }));
        }
    };
    pull_all(&mut follows);
    perform(&api, call("a", RequestVerb::Create(config("a")))).unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 3, "each is woken once");
    pull_all(&mut follows);
    pull_all(&mut follows);
    assert_eq!(woken.load(Ordering::Relaxed), 3, "no further notification without a change");
}
