//! The actors of the model: their operations on the store and their observations.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use event_listener::Listener as _;
use muster_store::{Durability, Key, Range, Store, StoredObject, WriteError};

use super::{Dice, Moments, RESOURCES, Read, Seen, Watched, Wrote};
use crate::support::{create, delete, key, update, value, write_as};

/// Writes at random, one key or several at once, against whatever is the newest state.
pub fn write(store: &Store, mut dice: Dice, times: usize, moments: &Moments) -> Seen {
    let mut seen = Seen::default();
    while seen.wrote.len() < times {
        let keys = some_keys(&mut dice);
        let began = moments.now();
        let saw: Vec<Option<StoredObject>> = keys.iter().map(|key| store.newest(key)).collect();
        let to = i64::try_from(dice.below(1_000)).unwrap();
        let mut deletes = Vec::new();
        let writes = keys.iter().zip(&saw).map(|(key, saw)| match saw {
            None => (create(key, to), false),
            Some(old) if dice.below(3) == 0 => (delete(key, old.revision, value(old)), true),
            Some(old) => (update(key, old.revision, to), false),
        });
        let writes = writes
            .map(|(write, deleted)| {
                deletes.push(deleted);
                write
            })
            .collect();
        let how = if dice.below(4) == 0 { Durability::Relaxed } else { Durability::Wait };
        let stored = match write_as(store, writes, how) {
            Ok(stored) => stored,
            Err(WriteError::Conflict { .. }) => continue,
            Err(other) => panic!("{other}"),
        };
        // A relaxed reply comes before the change can be read: it has no end.
        let ended = if how == Durability::Wait { moments.now() } else { u64::MAX };
        for (((key, saw), stored), deleted) in keys.into_iter().zip(saw).zip(stored).zip(deletes) {
            seen.wrote.push(Wrote { began, ended, key, saw, stored, deleted });
        }
    }
    seen
}

fn some_keys(dice: &mut Dice) -> Vec<Key> {
    let mut keys: Vec<Key> = (0..=dice.below(3))
        .map(|_| {
            let resource = RESOURCES[usize::try_from(dice.below(3)).unwrap()];
            key(resource, ["a", "b"][usize::try_from(dice.below(2)).unwrap()], &format!("o{}", dice.below(6)))
        })
        .collect();
    keys.sort();
    keys.dedup();
    keys
}

/// Lists now and then, also of the past and in pages, and compacts rarely.
pub fn read(store: &Store, mut dice: Dice, done: &AtomicBool, moments: &Moments) -> Seen {
    let mut seen = Seen::default();
    while !done.load(Ordering::SeqCst) {
        let resource = RESOURCES[usize::try_from(dice.below(3)).unwrap()];
        let began = moments.now();
        let newest = store.revision();
        let exact = dice.below(2) == 0;
        let revision = exact.then(|| newest - dice.below(newest.min(30) + 1));
        if let Some((revision, objects)) = pages(store, resource, revision, 1 + dice.below(8)) {
            seen.read.push(Read { began, resource, revision, exact, objects });
        }
        if dice.below(100) == 0 {
            store.compact();
        }
        store.listen().wait_timeout(Duration::from_micros(200));
    }
    seen
}

/// A whole list in pages of one revision; `None` when it became too old on the way.
fn pages(
    store: &Store,
    resource: &str,
    revision: Option<u64>,
    limit: u64,
) -> Option<(u64, Vec<StoredObject>)> {
    let limit = Some(usize::try_from(limit).unwrap());
    let mut range = Range { revision, limit, ..Range::default() };
    let mut all: Vec<StoredObject> = Vec::new();
    let mut total = None;
    loop {
        let page = store.list(resource, &range).ok()?;
        let count = all.len() + page.objects.len() + page.remaining;
        assert_eq!(*total.get_or_insert(count), count, "every page knows how many are left");
        all.extend(page.objects);
        range.revision = Some(page.revision);
        range.after = Some(place(all.last()));
        if page.remaining == 0 {
            return Some((page.revision, all));
        }
    }
}

/// The place of a listed object.
fn place(last: Option<&StoredObject>) -> (muster_tree::Text, muster_tree::Text) {
    let meta = |field| last.map(|object| object.tree.text_at(&["metadata", field])).unwrap_or_default();
    (meta("namespace"), meta("name"))
}

/// Follows a resource from where it was, keeping a copy of the objects with an even number, as a client with a
/// selector does; lists again when it was overtaken.
pub fn watch(
    store: &Store,
    resource: &'static str,
    place: &mut (u64, Vec<StoredObject>),
    mut dice: Dice,
    done: &AtomicBool,
) -> Seen {
    let mut seen = Seen::default();
    let (mut at, mut copy) = std::mem::take(place);
    loop {
        // Before the look: whatever is published after it will be delivered.
        let last_look = done.load(Ordering::SeqCst);
        let target = store.revision();
        let (from, mut records) = (at, Vec::new());
        let overtaken = match store.watch(resource, at) {
            Ok(mut cursor) => loop {
                match cursor.next(1 + usize::try_from(dice.below(5)).unwrap()) {
                    Ok(more) => records.extend(more),
                    Err(_) => break true,
                }
                at = cursor.revision();
                if at >= target {
                    break false;
                }
            },
            Err(_) => true,
        };
        records.iter().for_each(|record| follow(&mut copy, record));
        seen.watched.push(Watched { resource, from, records, to: at });
        if overtaken {
            let page = store.list(resource, &Range::default()).unwrap();
            copy = page.objects.into_iter().filter(is_mine).collect();
            at = page.revision;
        } else if last_look && at >= store.revision() {
            *place = (at, copy);
            return seen;
        }
        store.listen().wait_timeout(Duration::from_millis(dice.below(3)));
    }
}

/// The selector of a filtered watch: objects with an even value.
pub fn is_mine(object: &StoredObject) -> bool {
    value(object) % 2 == 0
}

/// Applies a change to a copy that holds only what the selector picks.
fn follow(copy: &mut Vec<StoredObject>, record: &muster_store::Record) {
    if let Some(before) = record.before.as_ref().filter(|o| is_mine(o)) {
        let at = copy.iter().position(|o| o == before).expect("what leaves the selection was in it");
        copy.remove(at);
    }
    copy.extend(record.after.iter().filter(|o| is_mine(o)).cloned());
}
