//! The store against a simple model: threads write, read, watch with a filter and compact, stores are closed and
//! reopened; afterwards all observations must fit one sequence of changes.

mod actors;
mod check;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use muster_store::{Key, Record, Store, StoreOptions, StoredObject, SyncMode};
use proptest::prelude::*;

use crate::support::Hand;

pub const RESOURCES: [&str; 3] = ["pods", "jobs.batch", "events"];
const WRITERS: u64 = 4;
const WATCHERS: usize = 4;
const WRITES_EACH: usize = 60;

/// One run of the model.
#[derive(Debug, Clone)]
struct Plan {
    seed: u64,
    lives: u64,
    on_disk: bool,
    options: StoreOptions,
}

fn any_plan() -> impl Strategy<Value = Plan> {
    let history = (prop_oneof![Just(2_usize), Just(200)], prop_oneof![Just(0_usize), Just(1 << 20)]);
    let relaxed = prop_oneof![3 => Just(SyncMode::EveryCommit), 1 => Just(SyncMode::Relaxed)];
    (any::<u64>(), 1..4_u64, any::<bool>(), history, 200..20_000_u64, relaxed).prop_map(
        |(seed, lives, on_disk, (history_entries_min, history_bytes_max), log_bytes_min, sync)| Plan {
            seed,
            lives: if on_disk { lives } else { 1 },
            on_disk,
            options: StoreOptions {
                history_entries_min,
                history_bytes_max,
                log_bytes_min,
                sync,
                ..StoreOptions::default()
            },
        },
    )
}

/// A small source of chance that every thread has for itself.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }
}

/// Counts moments: what ended before something else began has the smaller number.
#[derive(Default)]
pub struct Moments(AtomicU64);

impl Moments {
    pub fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

/// One acknowledged change, as its writer knows it.
pub struct Wrote {
    pub began: u64,
    pub ended: u64,
    pub key: Key,
    pub saw: Option<StoredObject>,
    /// The object as stored, with its revision.
    pub stored: StoredObject,
    pub deleted: bool,
}

/// One list, as its reader knows it.
pub struct Read {
    pub began: u64,
    pub resource: &'static str,
    pub revision: u64,
    pub exact: bool,
    pub objects: Vec<StoredObject>,
}

/// What a watcher saw without a gap.
pub struct Watched {
    pub resource: &'static str,
    /// Changes after this revision...
    pub from: u64,
    pub records: Vec<Record>,
    /// ...up to this one.
    pub to: u64,
}

/// All observations of all actors.
#[derive(Default)]
pub struct Seen {
    pub wrote: Vec<Wrote>,
    pub read: Vec<Read>,
    pub watched: Vec<Watched>,
}

impl Seen {
    fn add(&mut self, mut other: Seen) {
        self.wrote.append(&mut other.wrote);
        self.read.append(&mut other.read);
        self.watched.append(&mut other.watched);
    }
}

/// One life of the store; watchers go on where they were in the last one.
fn live(store: &Store, seed: u64, moments: &Moments, places: &mut [(u64, Vec<StoredObject>)]) -> Seen {
    let done = AtomicBool::new(false);
    let mut seen = Seen::default();
    thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|n| scope.spawn(move || actors::write(store, Dice::new(seed + n), WRITES_EACH, moments)))
            .collect();
        let reader = scope.spawn(|| actors::read(store, Dice::new(seed + 100), &done, moments));
        let watchers: Vec<_> = places
            .iter_mut()
            .enumerate()
            .map(|(n, place)| {
                let (done, resource) = (&done, RESOURCES[n % RESOURCES.len()]);
                scope.spawn(move || actors::watch(store, resource, place, Dice::new(seed + n as u64), done))
            })
            .collect();
        writers.into_iter().for_each(|writer| seen.add(writer.join().unwrap()));
        done.store(true, Ordering::SeqCst);
        seen.add(reader.join().unwrap());
        watchers.into_iter().for_each(|watcher| seen.add(watcher.join().unwrap()));
    });
    seen
}

fn run(plan: &Plan) {
    let directory = tempfile::tempdir().unwrap();
    let clock = Arc::new(Hand::default());
    let moments = Moments::default();
    let mut places = vec![(0, Vec::new()); WATCHERS];
    let mut seen = Seen::default();
    for life in 0..plan.lives {
        let store = if plan.on_disk {
            Store::open(directory.path(), plan.options.clone(), clock.clone()).unwrap()
        } else {
            Store::in_memory(plan.options.clone(), clock.clone())
        };
        seen.add(live(&store, plan.seed.wrapping_add(life * 1_000), &moments, &mut places));
    }
    check::all(seen, &places);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn everything_fits_one_sequence(plan in any_plan()) {
        run(&plan);
    }
}
