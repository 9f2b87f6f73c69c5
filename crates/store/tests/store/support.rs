//! Builders, and a manual clock.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use muster_api::environment::Clock;
use muster_api::time::Time;
use muster_store::{
    Durability, ExpectedRevision, Key, Mutation, Store, StoreOptions, StoredObject, Write, WriteError,
};
use muster_tree::{Text, tree};

/// A clock moved by hand.
#[derive(Default)]
pub struct Hand(AtomicI64);

impl Hand {
    pub fn forward(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_micros()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}

pub fn memory(options: StoreOptions) -> (Store, Arc<Hand>) {
    let clock = Arc::new(Hand::default());
    (Store::in_memory(options, clock.clone()), clock)
}

pub fn key(resource: &str, namespace: &str, name: &str) -> Key {
    Key { resource: Text::from(resource), namespace: Text::from(namespace), name: Text::from(name) }
}

/// An object of which tests look at its name and one number.
pub fn object(key: &Key, value: i64) -> StoredObject {
    StoredObject::new(tree!({
        "kind": "Thing",
        "metadata": {"namespace": key.namespace.clone(), "name": key.name.clone()},
        "spec": {"value": value, "same": ["a", "b"]},
    }))
}

pub fn value(object: &StoredObject) -> i64 {
    object.tree.int_at(&["spec", "value"]).unwrap()
}

pub fn create(key: &Key, to: i64) -> Write {
    Write { key: key.clone(), expect: ExpectedRevision::Absent, change: Mutation::Put(object(key, to)) }
}

pub fn update(key: &Key, seen: u64, to: i64) -> Write {
    Write {
        key: key.clone(),
        expect: ExpectedRevision::Revision(seen),
        change: Mutation::Put(object(key, to)),
    }
}

pub fn delete(key: &Key, seen: u64, last: i64) -> Write {
    Write {
        key: key.clone(),
        expect: ExpectedRevision::Revision(seen),
        change: Mutation::Delete(object(key, last)),
    }
}

/// Writes and waits for the answer.
pub fn write(store: &Store, writes: Vec<Write>) -> Result<Vec<StoredObject>, WriteError> {
    write_as(store, writes, Durability::Wait)
}

pub fn write_as(store: &Store, writes: Vec<Write>, how: Durability) -> Result<Vec<StoredObject>, WriteError> {
    let (tell, told) = mpsc::channel();
    store.accept(writes, how, Box::new(move |done| tell.send(done).unwrap()));
    told.recv().expect("every write is answered")
}

/// Writes whatever is needed to make `key` hold `to`.
pub fn set(store: &Store, key: &Key, to: i64) -> u64 {
    let write_one = match store.newest(key) {
        Some(old) => update(key, old.revision, to),
        None => create(key, to),
    };
    write(store, vec![write_one]).unwrap()[0].revision
}

pub fn remove(store: &Store, key: &Key) -> u64 {
    let old = store.newest(key).unwrap();
    write(store, vec![delete(key, old.revision, value(&old))]).unwrap()[0].revision
}
