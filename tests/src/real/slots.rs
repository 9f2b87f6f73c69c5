//! Limits how many real control planes run in parallel.
//!
//! Starting etcd, kube-apiserver and controllers keeps a core busy for seconds; afterwards they mostly wait and use memory. So few start
//! in parallel, and as many run as memory allows.
//!
//! The longest tests get a slot first, so that none of them starts last.
//!
//! # Guarantees
//!
//! - A thread that has a control plane gets further ones without waiting; otherwise two tests that each hold one and wait for a second
//!   would deadlock.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Control planes that start in parallel.
const STARTING_MAX: usize = 2;
/// Memory per control plane, including the processes that a test starts.
const PLANE_KILOBYTES: usize = 1_200_000;
/// Minimum on any host: the control planes that all tests of a process share, and one more.
const RUNNING_MIN: usize = 5;
/// Maximum: more would only compete for CPU.
const RUNNING_MAX: usize = 12;
/// Control planes per core: an idle one uses 2 % of a core.
const PLANES_PER_CORE: usize = 2;

/// Tests and modules of tests with the longest run time, longest first.
const LONGEST_TESTS: [&str; 12] = [
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

static RUNNING: PrioritySemaphore = PrioritySemaphore::new();
static STARTING: PrioritySemaphore = PrioritySemaphore::new();

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Acquired slots, and the number of waiting threads by priority.
struct PrioritySemaphore {
    state: Mutex<(usize, BTreeMap<usize, usize>)>,
    freed: Condvar,
}

impl PrioritySemaphore {
    const fn new() -> PrioritySemaphore {
        PrioritySemaphore { state: Mutex::new((0, BTreeMap::new())), freed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, (usize, BTreeMap<usize, usize>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `max` slots are acquired and no thread of higher priority waits.
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
        // A thread of lower priority may have waited for this one.
        self.freed.notify_all();
    }

    fn release(&self) {
        self.state().0 -= 1;
        self.freed.notify_all();
    }
}

/// Returns the priority of a test; the test harness names threads after tests.
fn place(test: &str) -> usize {
    LONGEST_TESTS.iter().position(|it| test.starts_with(it)).unwrap_or(LONGEST_TESTS.len())
}

/// A slot for a running control plane, released on drop.
pub(super) struct ClusterSlot;

impl ClusterSlot {
    /// Waits for a slot.
    pub(super) fn take() -> ClusterSlot {
        let has_one = HELD.replace(HELD.get() + 1) > 0;
        // A thread that holds a slot has the highest priority: others wait for it.
        let place = place(std::thread::current().name().unwrap_or_default()) + 1;
        RUNNING.take(if has_one { usize::MAX } else { running_max() }, if has_one { 0 } else { place });
        ClusterSlot
    }
}

impl Drop for ClusterSlot {
    fn drop(&mut self) {
        // The value may be dropped in another thread.
        HELD.set(HELD.get().saturating_sub(1));
        RUNNING.release();
    }
}

/// Runs `start` while at most [`STARTING_MAX`] control planes start.
pub(super) fn starting<T>(start: impl FnOnce() -> T) -> T {
    struct Started;
    impl Drop for Started {
        fn drop(&mut self) {
            STARTING.release();
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

/// Uses a third of the memory: two test processes run in parallel, and our servers, compilers and the page cache need the rest.
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
    fn the_longest_tests_have_priority() {
        assert_eq!(place("train_cluster::any"), 0);
        assert!(
            place("queue_cluster::queues_of_a_real_server_are_those_of_the_embedded_one")
                < place("queue_cluster::x")
        );
        assert_eq!(place("a_scenario"), LONGEST_TESTS.len());
        let (slots, order) = (PrioritySemaphore::new(), Mutex::new(Vec::new()));
        slots.take(1, 0);
        std::thread::scope(|scope| {
            for place in [3, 1, 2] {
                let (slots, order) = (&slots, &order);
                scope.spawn(move || {
                    slots.take(1, place);
                    order.lock().unwrap().push(place);
                    slots.release();
                });
            }
            while slots.state().1.len() < 3 {
                std::thread::yield_now();
            }
            slots.release();
        });
        assert_eq!(order.into_inner().unwrap(), [1, 2, 3]);
    }

    #[test]
    fn a_thread_with_a_slot_does_not_wait_for_another() {
        let all: Vec<ClusterSlot> = (0..RUNNING_MAX + 3).map(|_| ClusterSlot::take()).collect();
        assert_eq!(all.len(), RUNNING_MAX + 3);
    }
}
