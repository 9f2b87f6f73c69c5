//! The in-process entrance.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use muster_api::port::{
    Act, Api, Batch, Call, Cascade, Change, Follow, Guard, Kind, Object, Part, Refusal, Target,
};
use muster_tree::{Tree, tree};

use super::World;
use crate::local::LocalApi;

fn kind() -> Kind {
    Kind { group: "".into(), version: "v1".into(), plural: "configmaps".into() }
}

fn call(name: &str, act: Act) -> Call {
    let on = Target { kind: kind(), namespace: "default".into(), name: name.into(), part: Part::Main };
    Call { by: "tester".into(), on, guard: Guard::default(), act }
}

fn config(name: &str) -> Tree {
    tree!({"metadata": {"name": name}, "data": {"a": "1"}})
}

fn perform(api: &LocalApi, call: Call) -> Result<Object, Refusal> {
    let (tx, rx) = mpsc::channel();
    api.call(call, Box::new(move |result| tx.send(result).unwrap()));
    rx.try_recv().expect("the store in memory answers at once")
}

fn together(api: &LocalApi, calls: Vec<Call>) -> Vec<Result<Object, Refusal>> {
    let (tx, rx) = mpsc::channel();
    api.together(calls, Box::new(move |result| tx.send(result).unwrap()));
    rx.try_recv().expect("the store in memory answers at once")
}

#[test]
fn guards_hold() {
    let world = World::new();
    let api = LocalApi::new(world.engine.clone());
    let made = perform(&api, call("a", Act::Create(config("a")))).unwrap();
    let mut late = call("a", Act::Merge(tree!({"data": {"a": "2"}})));
    late.guard.revision = Some(made.revision - 1);
    assert!(matches!(perform(&api, late), Err(Refusal::Conflict(_))));
    let mut other = call("a", Act::Get);
    other.guard.uid = Some("someone-else".into());
    assert!(matches!(perform(&api, other), Err(Refusal::Conflict(_))));
    let uid = made.tree.text_at(&["metadata", "uid"]);
    let gone = Call::delete("tester".into(), call("a", Act::Get).on, uid, Cascade::Background);
    perform(&api, gone).unwrap();
    assert!(matches!(perform(&api, call("a", Act::Get)), Err(Refusal::NotFound(_))));
}

#[test]
fn together_is_all_or_nothing() {
    let world = World::new();
    let api = LocalApi::new(world.engine.clone());
    let before = world.engine.revision();
    let results = together(
        &api,
        vec![call("a", Act::Create(config("a"))), call("nope", Act::Merge(tree!({"data": {}})))],
    );
    assert!(
        matches!(results[0], Err(Refusal::Conflict(_))) && matches!(results[1], Err(Refusal::NotFound(_)))
    );
    assert_eq!(world.engine.revision(), before, "nothing was written");
    let results =
        together(&api, vec![call("a", Act::Create(config("a"))), call("b", Act::Create(config("b")))]);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(world.engine.revision(), before + 2);
}

#[test]
fn following_begins_with_everything_and_wakes() {
    let world = World::new();
    let api = LocalApi::new(world.engine.clone());
    let mut follow = api.follow(&kind());
    let Some(Batch::Reset(all)) = follow.pull() else { panic!("everything first") };
    assert_eq!(all.len(), 5, "one certificate for each namespace");
    assert_eq!(follow.pull(), None);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    follow.wake_when_ready(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(woken.load(Ordering::Relaxed), 0);
    perform(&api, call("a", Act::Create(config("a")))).unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let Some(Batch::Changes(changes)) = follow.pull() else { panic!("a change") };
    assert!(
        matches!(&changes[..], [Change::Put(object)] if object.tree.str_at(&["metadata", "name"]) == "a")
    );
    let mut unknown =
        api.follow(&Kind { group: "example.com".into(), version: "v1".into(), plural: "things".into() });
    assert_eq!(unknown.pull(), Some(Batch::Reset(Vec::new())), "what is not served is empty");
    assert_eq!(unknown.pull(), None);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    unknown.wake_when_ready(Box::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert_eq!(woken.load(Ordering::Relaxed), 0, "nobody is woken for nothing");
}

/// A change may come between the making of a listener and its first question.
#[test]
fn changes_at_any_moment_wake() {
    const WRITES: u64 = 20_000;
    let world = World::new();
    let api = LocalApi::new(world.engine.clone());
    let first = perform(&api, call("a", Act::Create(config("a")))).unwrap().revision;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..WRITES {
                let data = turn.to_string();
                perform(&api, call("a", Act::Merge(tree!({"data": {"turn": data}})))).unwrap();
            }
        });
        let mut follow = api.follow(&kind());
        let mut seen = 0;
        while seen < first + WRITES {
            let (woken, wait) = mpsc::channel();
            follow.wake_when_ready(Box::new(move || {
                let _ = woken.send(());
            }));
            wait.recv_timeout(Duration::from_secs(60)).expect("a wake-up, for there is more to come");
            while let Some(batch) = follow.pull() {
                let newest = match batch {
                    Batch::Reset(objects) => objects.iter().map(|object| object.revision).max(),
                    Batch::Changes(changes) => {
                        let object = |(Change::Put(object) | Change::Gone(object)): &Change| object.revision;
                        changes.iter().map(object).max()
                    }
                };
                seen = seen.max(newest.unwrap_or(0));
            }
        }
    });
}

#[test]
fn a_wake_up_is_not_handed_round() {
    let world = World::new();
    let api = LocalApi::new(world.engine.clone());
    let woken = Arc::new(AtomicUsize::new(0));
    let mut follows: Vec<Box<dyn Follow>> = (0..3).map(|_| api.follow(&kind())).collect();
    let pull_all = |follows: &mut Vec<Box<dyn Follow>>| {
        for follow in follows {
            while follow.pull().is_some() {}
            let count = woken.clone();
            follow.wake_when_ready(Box::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
            }));
        }
    };
    pull_all(&mut follows);
    perform(&api, call("a", Act::Create(config("a")))).unwrap();
    assert_eq!(woken.load(Ordering::Relaxed), 3, "each is woken once");
    pull_all(&mut follows);
    pull_all(&mut follows);
    assert_eq!(woken.load(Ordering::Relaxed), 3, "and nobody again, for nothing more happened");
}
