//! Revisions, lists, cursors and the bounds of the history, without a disk.

use std::time::Duration;

use event_listener::Listener as _;
use muster_store::{Expired, Range, StoreOptions, WriteError};
use muster_tree::Text;

use crate::support::{create, delete, key, memory, remove, set, update, value, write};

fn small() -> StoreOptions {
    StoreOptions { history_entries_min: 2, ..StoreOptions::default() }
}

#[test]
fn revisions_start_at_one_and_count_objects() {
    let (store, _) = memory(StoreOptions::default());
    assert_eq!(store.revision(), 0);
    let (a, b) = (key("pods", "n", "a"), key("pods", "n", "b"));
    let made = write(&store, vec![create(&a, 1), create(&b, 2)]).unwrap();
    assert_eq!(made.iter().map(|o| o.revision).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(set(&store, &a, 3), 3);
    assert_eq!(remove(&store, &a), 4);
    assert_eq!(store.get(&a), None);
    assert_eq!(store.revision(), 4);
}

#[test]
fn a_conflicting_write_changes_nothing() {
    let (store, _) = memory(StoreOptions::default());
    let (a, b) = (key("pods", "n", "a"), key("pods", "n", "b"));
    set(&store, &a, 1);
    for (says, writes) in [
        ("it exists already", vec![create(&a, 2)]),
        ("it changed since", vec![update(&a, 9, 2)]),
        ("there is none", vec![update(&b, 1, 2)]),
        ("nothing to delete", vec![delete(&b, 1, 2)]),
        ("the second of two fails both", vec![create(&b, 1), create(&a, 2)]),
    ] {
        let error = write(&store, writes).unwrap_err();
        assert!(matches!(error, WriteError::Conflict { .. }), "{says}: {error}");
    }
    assert_eq!((store.revision(), store.get(&b)), (1, None));
}

#[test]
fn a_transaction_may_write_a_key_twice() {
    let (store, _) = memory(StoreOptions::default());
    let a = key("pods", "n", "a");
    write(&store, vec![create(&a, 1), update(&a, 1, 2), delete(&a, 2, 2), create(&a, 4)]).unwrap();
    assert_eq!(value(&store.get(&a).unwrap()), 4);
    assert_eq!(store.watch("pods", 0).unwrap().next(9).unwrap().len(), 4);
}

fn values(store: &muster_store::Store, range: &Range) -> Result<(Vec<i64>, usize), Expired> {
    let page = store.list("pods", range)?;
    Ok((page.objects.iter().map(value).collect(), page.remaining))
}

#[test]
fn lists_are_ordered_paged_and_of_any_kept_revision() {
    let (store, _) = memory(StoreOptions::default());
    for (at, (namespace, name)) in [("b", "a"), ("a", "z"), ("a", "b"), ("c", "x")].into_iter().enumerate() {
        set(&store, &key("pods", namespace, name), i64::try_from(at).unwrap());
    }
    set(&store, &key("jobs.batch", "a", "other"), 77);
    remove(&store, &key("pods", "a", "z"));
    set(&store, &key("pods", "c", "x"), 33);
    set(&store, &key("pods", "b", "new"), 44);
    let text = Text::from;
    let all = Range::default();
    for (says, range, want) in [
        ("now", all.clone(), (vec![2, 0, 44, 33], 0)),
        ("a page", Range { limit: Some(2), ..all.clone() }, (vec![2, 0], 2)),
        ("the rest", Range { after: Some((text("b"), text("a"))), ..all.clone() }, (vec![44, 33], 0)),
        ("a namespace", Range { namespace: Some(text("b")), ..all.clone() }, (vec![0, 44], 0)),
        (
            "a page of a namespace",
            Range { namespace: Some(text("b")), after: Some((text("b"), text("a"))), ..all.clone() },
            (vec![44], 0),
        ),
        (
            "names that begin alike",
            Range { namespace: Some(text("b")), beginning: text("n"), ..all.clone() },
            (vec![44], 0),
        ),
        (
            "names that begin alike, before they were there",
            Range { namespace: Some(text("b")), beginning: text("n"), revision: Some(6), ..all.clone() },
            (vec![], 0),
        ),
        (
            "a namespace after something before it",
            Range { namespace: Some(text("b")), after: Some((text("a"), text("z"))), ..all.clone() },
            (vec![0, 44], 0),
        ),
        ("before the changes", Range { revision: Some(5), ..all.clone() }, (vec![2, 1, 0, 3], 0)),
        ("between them", Range { revision: Some(6), ..all.clone() }, (vec![2, 0, 3], 0)),
        ("a page of then", Range { revision: Some(4), limit: Some(1), ..all.clone() }, (vec![2], 3)),
        ("before everything", Range { revision: Some(0), ..all.clone() }, (vec![], 0)),
    ] {
        assert_eq!(values(&store, &range).unwrap(), want, "{says}");
    }
    store.compact();
    assert_eq!(values(&store, &Range { revision: Some(5), ..all }), Err(Expired { wanted: 5, oldest: 8 }));
}

#[test]
fn a_cursor_delivers_its_resource_and_moves_past_others() {
    let (store, _) = memory(StoreOptions::default());
    let a = key("pods", "n", "a");
    set(&store, &a, 1);
    set(&store, &a, 2);
    set(&store, &key("jobs.batch", "n", "j"), 1);
    let mut cursor = store.watch("pods", 0).unwrap();
    let first = cursor.next(1).unwrap();
    assert_eq!((first[0].revision, cursor.revision()), (1, 1));
    let second = cursor.next(1).unwrap();
    assert_eq!(value(second[0].before.as_ref().unwrap()), 1);
    assert_eq!(cursor.revision(), 3, "nothing of pods is missing up to the published revision");
    assert!(cursor.next(1).unwrap().is_empty());
    remove(&store, &a);
    let gone = cursor.next(1).unwrap().remove(0);
    assert_eq!((gone.after.is_none(), gone.shown().revision, gone.before.unwrap().revision), (true, 4, 2));
}

#[test]
fn a_listener_wakes_when_something_is_published() {
    let (store, _) = memory(StoreOptions::default());
    assert!(store.listen().wait_timeout(Duration::ZERO).is_none(), "nothing was published");
    let listener = store.listen();
    set(&store, &key("pods", "n", "a"), 1);
    assert!(listener.wait_timeout(Duration::ZERO).is_some());
}

#[test]
fn only_a_dropped_change_of_its_own_resource_expires_a_cursor() {
    let (store, clock) = memory(small());
    set(&store, &key("jobs.batch", "n", "quiet"), 1);
    for n in 0..10 {
        set(&store, &key("pods", "n", "loud"), n);
        clock.forward(Duration::from_secs(100));
    }
    assert_eq!(store.watch("jobs.batch", 0).unwrap().next(9).unwrap().len(), 1);
    let expired = store.watch("pods", 1).err().unwrap();
    assert_eq!(expired.wanted, 1);
    assert_eq!(
        store.watch("pods", expired.oldest).unwrap().next(99).unwrap().len(),
        4,
        "five minutes are kept"
    );
    assert!(store.watch("pods", expired.oldest - 1).is_err());
}

#[test]
fn the_biggest_ring_gives_way_but_keeps_its_newest() {
    let options = StoreOptions { history_bytes_max: 40_000, ..small() };
    let (store, _) = memory(options);
    let quiet = key("jobs.batch", "n", "quiet");
    set(&store, &quiet, 1);
    for n in 0..1_000 {
        set(&store, &key("pods", "n", "loud"), n);
    }
    assert_eq!(store.watch("jobs.batch", 0).unwrap().next(9).unwrap().len(), 1);
    let oldest = store.watch("pods", 1).err().unwrap().oldest;
    let kept = store.watch("pods", oldest).unwrap().next(9_999).unwrap().len();
    assert!((2..200).contains(&kept), "{kept} entries kept");
    let (store, _) = memory(StoreOptions { history_bytes_max: 0, ..small() });
    for n in 0..10 {
        set(&store, &quiet, n);
    }
    assert_eq!(store.watch("jobs.batch", 8).unwrap().next(9).unwrap().len(), 2);
    assert!(store.watch("jobs.batch", 7).is_err());
}
