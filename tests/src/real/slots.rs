//! How many real planes there are at the same time.
//!
//! A plane is an etcd, a kube-apiserver and controllers. Starting one keeps a core busy for seconds; afterwards it mostly waits
//! and holds memory. So few start at the same time, and as many run as memory allows.
//!
//! Functions that take longest get theirs first: the last one to end should not be one that has just begun.
//!
//! # Guarantees
//!
//! - A thread that already has a plane gets further ones without waiting: two tests that each hold one and wait for a second
//!   would wait for ever.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Planes that start at the same time.
const STARTING_MAX: usize = 2;
/// The memory that one plane needs, with the processes that a test starts beside it.
const PLANE_KILOBYTES: usize = 1_200_000;
/// Planes that run at the same time on any machine: those that all tests of a process share, and one more.
const RUNNING_MIN: usize = 5;
/// More would only compete for the processor.
const RUNNING_MAX: usize = 12;
/// Planes that one core serves: even one that waits costs a fiftieth of a core.
const PLANES_PER_CORE: usize = 2;

/// The functions and modules of tests that take longest, the longest first.
const LONGEST: [&str; 12] = [
    "train_cluster::",
    "queue_cluster::queues_of_a_real_server_are_those_of_the_embedded_one",
    "certificates::certificates_are_renewed_while_jobsets_are_made",
    "outages::",
    "failover::",
    "takeover::",
    "train_versions::",
    "tenants::",
    "queue_cluster::",
    "queue_visibility::",
    "train_reports::",
    "gang_cluster::",
];

static RUNNING: Slots = Slots::new();
static STARTING: Slots = Slots::new();

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Slots that are taken, and how many threads of each place in the order wait for one.
struct Slots {
    state: Mutex<(usize, BTreeMap<usize, usize>)>,
    freed: Condvar,
}

impl Slots {
    const fn new() -> Slots {
        Slots { state: Mutex::new((0, BTreeMap::new())), freed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, (usize, BTreeMap<usize, usize>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `max` are taken and no thread before this place waits.
    fn take(&self, max: usize, place: usize) {
        let mut state = self.state();
        *state.1.entry(place).or_default() += 1;
        let is_blocked = |(taken, waiting): &mut (usize, BTreeMap<usize, usize>)| {
            *taken >= max || waiting.keys().next().is_some_and(|first| *first < place)
        };
        let mut state = self.freed.wait_while(state, is_blocked).unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        let left = state.1.get_mut(&place).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            state.1.remove(&place);
        }
        // The next in order may have waited for this one.
        self.freed.notify_all();
    }

    fn give_back(&self) {
        self.state().0 -= 1;
        self.freed.notify_all();
    }
}

/// The place of a test in the order; the test harness names threads after tests.
fn place(test: &str) -> usize {
    LONGEST.iter().position(|it| test.starts_with(it)).unwrap_or(LONGEST.len())
}

/// The right to run a plane, given back with the value.
pub(super) struct Running;

impl Running {
    /// Waits until another plane may run.
    pub(super) fn take() -> Running {
        let has_one = HELD.replace(HELD.get() + 1) > 0;
        // A thread that has one is before all others: they wait for it.
        let place = place(std::thread::current().name().unwrap_or_default()) + 1;
        RUNNING.take(if has_one { usize::MAX } else { running_max() }, if has_one { 0 } else { place });
        Running
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A plane may end in another thread than it began in.
        HELD.set(HELD.get().saturating_sub(1));
        RUNNING.give_back();
    }
}

/// Does something while at most [`STARTING_MAX`] planes do the same.
pub(super) fn starting<T>(start: impl FnOnce() -> T) -> T {
    struct Started;
    impl Drop for Started {
        fn drop(&mut self) {
            STARTING.give_back();
        }
    }
    STARTING.take(STARTING_MAX, 0);
    let _started = Started;
    start()
}

fn running_max() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|it| it.trim().split(' ').next()?.parse::<usize>().ok());
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    planes_in(kilobytes.unwrap_or_default()).min(planes_on(cores))
}

fn planes_on(cores: usize) -> usize {
    (cores * PLANES_PER_CORE).max(RUNNING_MIN)
}

/// As many planes as a third of the memory holds: two test processes run side by side, and servers of ours, compilers and the
/// page cache need the rest.
fn planes_in(kilobytes: usize) -> usize {
    (kilobytes / 3 / PLANE_KILOBYTES).clamp(RUNNING_MIN, RUNNING_MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn memory_and_cores_decide_how_many_run() {
        assert_eq!(planes_in(0), RUNNING_MIN);
        assert_eq!(planes_in(30_000_000), 8);
        assert_eq!(planes_in(1_000_000_000), RUNNING_MAX);
        assert_eq!((planes_on(2), planes_on(4)), (RUNNING_MIN, 8));
    }

    #[test]
    fn few_start_at_the_same_time() {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    starting(|| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
        });
        assert!(most.into_inner() <= STARTING_MAX);
    }

    #[test]
    fn the_longest_functions_get_theirs_first() {
        assert_eq!(place("train_cluster::any"), 0);
        assert!(
            place("queue_cluster::queues_of_a_real_server_are_those_of_the_embedded_one")
                < place("queue_cluster::x")
        );
        assert_eq!(place("a_scenario"), LONGEST.len());
        let (slots, order) = (Slots::new(), Mutex::new(Vec::new()));
        slots.take(1, 0);
        std::thread::scope(|scope| {
            for place in [3, 1, 2] {
                let (slots, order) = (&slots, &order);
                scope.spawn(move || {
                    slots.take(1, place);
                    order.lock().unwrap().push(place);
                    slots.give_back();
                });
            }
            while slots.state().1.len() < 3 {
                std::thread::yield_now();
            }
            slots.give_back();
        });
        assert_eq!(order.into_inner().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn a_thread_with_a_plane_does_not_wait_for_a_second() {
        let all: Vec<Running> = (0..RUNNING_MAX + 3).map(|_| Running::take()).collect();
        assert_eq!(all.len(), RUNNING_MAX + 3);
    }
}
