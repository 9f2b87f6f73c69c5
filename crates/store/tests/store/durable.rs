//! What a restart brings back.

use std::path::Path;
use std::sync::Arc;

use muster_store::{Durability, OpenError, Range, Store, StoreOptions, SyncMode, WriteError};

use crate::support::{Hand, create, delete, key, remove, set, update, value, write, write_as};

pub fn open(directory: &Path, options: StoreOptions) -> Store {
    Store::open(directory, options, Arc::new(Hand::default())).unwrap()
}

/// A snapshot after every few commits.
pub fn rolling() -> StoreOptions {
    StoreOptions { log_bytes_min: 1_000, ..StoreOptions::default() }
}

#[test]
fn a_restart_brings_everything_back() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b, c) = (key("pods", "n", "a"), key("pods", "n", "b"), key("nodes", "", "c"));
    {
        let store = open(directory.path(), StoreOptions::default());
        set(&store, &a, 1);
        set(&store, &a, 2);
        set(&store, &b, 3);
        remove(&store, &b);
        set(&store, &c, 5);
        store.meta_put("ca", b"secret").unwrap();
        assert_eq!(store.revision(), 5);
    }
    let store = open(directory.path(), StoreOptions::default());
    assert_eq!(store.revision(), 5);
    let a_now = store.get(&a).unwrap();
    assert_eq!((value(&a_now), a_now.revision, store.get(&b)), (2, 2, None));
    assert_eq!(value(&store.get(&c).unwrap()), 5);
    assert_eq!(store.meta_get("ca").as_deref(), Some(&b"secret"[..]));
    assert_eq!(store.meta_get("none"), None);
    assert_eq!(set(&store, &a, 6), 6, "revisions go on upward");
    assert!(a_now.tree.get("spec").unwrap().get("same").is_some());
}

#[test]
fn watches_and_exact_lists_resume_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let a = key("pods", "n", "a");
    {
        let store = open(directory.path(), StoreOptions::default());
        set(&store, &a, 1);
        set(&store, &a, 2);
        let seen = store.newest(&a).unwrap();
        write(&store, vec![delete(&a, seen.revision, 77)]).unwrap();
        set(&store, &a, 4);
    }
    let store = open(directory.path(), StoreOptions::default());
    let records = store.watch("pods", 1).unwrap().next(9).unwrap();
    let shown: Vec<_> = records.iter().map(|r| (r.revision, value(r.shown()), r.shown().revision)).collect();
    assert_eq!(shown, [(2, 2, 2), (3, 77, 3), (4, 4, 4)]);
    assert_eq!(value(records[1].before.as_ref().unwrap()), 2);
    let then = store.list("pods", &Range { revision: Some(2), ..Range::default() }).unwrap();
    assert_eq!(then.objects.iter().map(value).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_compaction_survives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let a = key("pods", "n", "a");
    {
        let store = open(directory.path(), StoreOptions::default());
        set(&store, &a, 1);
        set(&store, &a, 2);
        store.compact();
        set(&store, &a, 3);
    }
    let store = open(directory.path(), StoreOptions::default());
    assert_eq!(store.watch("pods", 1).err().unwrap().oldest, 2);
    assert_eq!(store.watch("pods", 2).unwrap().next(9).unwrap().len(), 1);
}

#[test]
fn rolling_snapshots_lose_nothing_and_shorten_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let name = |n: i64| key("pods", "n", &format!("p{:03}", n % 150));
    set(&open(directory.path(), rolling()), &key("quiet", "", "one"), 1);
    let mut sizes = Vec::new();
    for life in 0..4 {
        let store = open(directory.path(), rolling());
        for n in 0..400 {
            match (n + life) % 7 {
                0 if store.newest(&name(n)).is_some() => drop(remove(&store, &name(n))),
                _ => drop(set(&store, &name(n), life * 1_000 + n)),
            }
        }
        let listed = store.list("pods", &Range::default()).unwrap();
        let revision = store.revision();
        sizes.push(store.disk_bytes());
        drop(store);
        let again = open(directory.path(), rolling());
        assert_eq!(again.revision(), revision);
        assert_eq!(again.list("pods", &Range::default()).unwrap().objects, listed.objects);
        assert_eq!(
            again.watch("quiet", 1).unwrap().next(9).unwrap().len(),
            0,
            "a quiet kind is never too old"
        );
        assert!(again.watch("pods", 2).is_err(), "the log of long ago is gone");
        let newest = again.watch("pods", revision - 1).unwrap().next(9).unwrap();
        assert_eq!(newest.len(), 1);
    }
    assert!(sizes[3] < 2 * sizes[0], "the file does not grow with every life: {sizes:?}");
}

#[test]
fn a_directory_in_use_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), StoreOptions::default());
    let refused = Store::open(directory.path(), StoreOptions::default(), Arc::new(Hand::default()));
    let error = refused.err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }));
    assert!(error.to_string().contains(&format!("(pid {})", std::process::id())), "{error}");
    store.close();
    assert!(matches!(write(&store, vec![create(&key("a", "", "b"), 1)]), Err(WriteError::Disk(_))));
    drop(open(directory.path(), StoreOptions::default()));
}

#[test]
fn the_pid_of_a_dead_holder_does_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("lock"), "1").unwrap();
    drop(open(directory.path(), StoreOptions::default()));
}

#[test]
fn accepted_writes_are_committed_when_the_last_handle_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let a = key("events", "n", "a");
    {
        let store = open(directory.path(), StoreOptions::default());
        let done = write_as(&store, vec![create(&a, 1)], Durability::Relaxed).unwrap();
        assert_eq!(done[0].revision, 1);
        assert_eq!(value(&store.newest(&a).unwrap()), 1, "writers see it at once");
        write_as(&store, vec![update(&a, 1, 2)], Durability::Relaxed).unwrap();
    }
    assert_eq!(value(&open(directory.path(), StoreOptions::default()).get(&a).unwrap()), 2);
}

#[test]
fn relaxed_commits_are_forced_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { sync: SyncMode::Relaxed, ..rolling() };
    for round in 1..=50 {
        let store = open(directory.path(), options.clone());
        assert_eq!(set(&store, &key("pods", "n", "a"), round as i64), round);
    }
}

#[test]
fn a_full_store_takes_deletes_only() {
    let directory = tempfile::tempdir().unwrap();
    let options = StoreOptions { store_bytes_max: 1_000, ..StoreOptions::default() };
    let store = open(directory.path(), options);
    let mut n = 0;
    let full = loop {
        match write(&store, vec![create(&key("pods", "n", &format!("p{n}")), n)]) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, WriteError::Full { max: 1_000, .. }), "{full}");
    assert_eq!(store.list("pods", &Range::default()).unwrap().objects.len(), usize::try_from(n).unwrap());
    remove(&store, &key("pods", "n", "p0"));
    assert_eq!(store.get(&key("pods", "n", "p0")), None);
}

#[test]
fn a_reply_may_drop_the_last_handle_and_write_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), StoreOptions::default());
    let again = store.clone();
    let (tell, told) = std::sync::mpsc::channel();
    store.accept(
        vec![create(&key("pods", "n", "a"), 1)],
        Durability::Wait,
        Box::new(move |_| {
            again.accept(
                vec![create(&key("pods", "n", "b"), 2)],
                Durability::Wait,
                Box::new(move |done| tell.send(done).unwrap()),
            );
            drop(again);
        }),
    );
    drop(store);
    assert!(matches!(told.recv().unwrap(), Ok(_) | Err(WriteError::Disk(_))));
}

#[test]
fn a_newer_format_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), StoreOptions::default()));
    {
        let db = redb::Database::open(directory.path().join("store.redb")).unwrap();
        let write = db.begin_write().unwrap();
        let meta: redb::TableDefinition<&str, &[u8]> = redb::TableDefinition::new("meta");
        write.open_table(meta).unwrap().insert("format", &99_u32.to_le_bytes()[..]).unwrap();
        write.commit().unwrap();
    }
    let refused = Store::open(directory.path(), StoreOptions::default(), Arc::new(Hand::default()));
    let error = refused.err().unwrap();
    assert!(matches!(error, OpenError::Format { found: 99, .. }), "{error}");
}

/// A gang is bound by one transaction, which may be larger than the batch limit of a commit: readers see all of it or
/// nothing, also after the store is reopened.
#[test]
fn a_transaction_larger_than_a_commit_is_seen_whole() {
    const COUNT: u64 = 2_500;
    let directory = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..COUNT).map(|n| key("pods", "n", &format!("p{n:04}"))).collect();
    {
        let store = open(directory.path(), rolling());
        let (first, whole) = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                let count = || store.list("pods", &Range::default()).unwrap().objects.len() as u64;
                let seen = std::iter::repeat_with(count).find(|count| *count > 0);
                seen.unwrap()
            });
            let written = write(&store, names.iter().map(|name| create(name, 1)).collect()).unwrap();
            (written, looks.join().unwrap())
        });
        assert_eq!(whole, COUNT, "the first look that shows any shows all");
        let revisions: Vec<u64> = first.iter().map(|object| object.revision).collect();
        assert_eq!(revisions, (1..=COUNT).collect::<Vec<_>>(), "one after the other");
        let records = store.watch("pods", 0).unwrap().next(usize::MAX).unwrap();
        assert_eq!(records.len() as u64, COUNT, "a watch gets them in one go");
    }
    let store = open(directory.path(), rolling());
    assert_eq!(store.list("pods", &Range::default()).unwrap().objects.len() as u64, COUNT);
}
