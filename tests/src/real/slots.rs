//! How many real planes there are at the same time.
//!
//! A plane is an etcd, a kube-apiserver and controllers. Starting one keeps a core busy for seconds; afterwards it mostly waits
//! and holds memory. So few start at the same time, and as many run as memory allows.
//!
//! # Guarantees
//!
//! - A thread that already has a plane gets further ones without waiting: two tests that each hold one and wait for a second
//!   would wait for ever.

use std::cell::Cell;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Planes that start at the same time.
const STARTING_MAX: usize = 2;
/// The memory that one plane needs, with the processes that a test starts beside it.
const PLANE_KILOBYTES: usize = 1_200_000;
/// Planes that run at the same time on any machine: those that all tests of a process share, and one more.
const RUNNING_MIN: usize = 5;
/// More would only compete for the processor.
const RUNNING_MAX: usize = 12;

static RUNNING: Slots = Slots::new();
static STARTING: Slots = Slots::new();

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A count of taken slots.
struct Slots {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    const fn new() -> Slots {
        Slots { taken: Mutex::new(0), freed: Condvar::new() }
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until fewer than `max` are taken.
    fn take(&self, max: usize) {
        let taken = self.freed.wait_while(self.taken(), |taken| *taken >= max);
        *taken.unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn give_back(&self) {
        *self.taken() -= 1;
        self.freed.notify_one();
    }
}

/// The right to run a plane, given back with the value.
pub(super) struct Running;

impl Running {
    /// Waits until another plane may run.
    pub(super) fn take() -> Running {
        let has_one = HELD.replace(HELD.get() + 1) > 0;
        RUNNING.take(if has_one { usize::MAX } else { running_max() });
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
    STARTING.take(STARTING_MAX);
    let _started = Started;
    start()
}

fn running_max() -> usize {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes = total.and_then(|it| it.trim().split(' ').next()?.parse::<usize>().ok());
    planes_in(kilobytes.unwrap_or_default())
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
    fn memory_decides_how_many_run() {
        assert_eq!(planes_in(0), RUNNING_MIN);
        assert_eq!(planes_in(30_000_000), 8);
        assert_eq!(planes_in(1_000_000_000), RUNNING_MAX);
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
    fn a_thread_with_a_plane_does_not_wait_for_a_second() {
        let all: Vec<Running> = (0..RUNNING_MAX + 3).map(|_| Running::take()).collect();
        assert_eq!(all.len(), RUNNING_MAX + 3);
    }
}
