//! Limits how many scenarios run in parallel: a counting semaphore per group.
//!
//! The test harness has one thread count, but groups need different limits: scenarios on real servers share the CPUs with etcd and
//! kube-apiserver, and a random cluster needs a control plane of its own.
//!
//! # Guarantees
//!
//! - A group never runs more scenarios than it has slots.
//! - Dropping the guard frees the slot, also when the scenario panics.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A group of scenarios with its slots.
#[derive(Debug)]
pub struct Limit {
    slots: usize,
    free: Mutex<usize>,
    freed: Condvar,
    stream: LimitStream,
}

/// Cases of one stream start in order; different streams advance in parallel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitStream {
    /// Scenarios on `muster up` alone.
    Embedded,
    /// Scenarios that need a real server.
    Real,
    /// Scenarios that run one or two at a time.
    Few,
    /// Scenarios under virtual time.
    Simulated,
}

/// Scenarios on the embedded server. They mostly wait for controllers.
pub static EMBEDDED: Limit = Limit::new(16, LimitStream::Embedded);
/// Scenarios on a real server: etcd, kube-apiserver and the controller manager need CPU as well.
pub static REAL: Limit = Limit::new(12, LimitStream::Real);
/// Scenarios that write cluster-scoped objects with fixed names.
pub static CLUSTER_SCOPED: Limit = Limit::new(1, LimitStream::Few);
/// Random clusters: kube-scheduler binds pods to any node, so only one cluster may exist.
pub static WHOLE_PLANE: Limit = Limit::new(1, LimitStream::Few);
/// Scenarios that load both servers continuously.
pub static BUSY: Limit = Limit::new(2, LimitStream::Few);
/// Scenarios under virtual time: they are CPU-bound, so more than one would only slow down the others.
pub static VIRTUAL_TIME: Limit = Limit::new(1, LimitStream::Simulated);

pub static ALL: [&Limit; 6] = [&EMBEDDED, &REAL, &CLUSTER_SCOPED, &WHOLE_PLANE, &BUSY, &VIRTUAL_TIME];

/// An acquired slot; dropping it frees the slot.
#[derive(Debug)]
pub struct ScenarioSlot<'a>(&'a Limit);

impl Limit {
    const fn new(slots: usize, stream: LimitStream) -> Limit {
        Limit { slots, free: Mutex::new(slots), freed: Condvar::new(), stream }
    }

    /// Waits for a free slot and takes it.
    pub fn take(&self) -> ScenarioSlot<'_> {
        let mut free = self.lock();
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        ScenarioSlot(self)
    }

    /// Returns the maximum number of running scenarios.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    #[must_use]
    pub fn stream(&self) -> LimitStream {
        self.stream
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // The number is right even if a thread panicked while it had the lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ScenarioSlot<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn at_most_the_limit_runs_and_all_get_a_slot() {
        let limit = Limit::new(3, LimitStream::Few);
        let (now, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..12 {
                scope.spawn(|| {
                    let _slot = limit.take();
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!(done.into_inner(), 12);
        assert!(most.into_inner() <= 3);
    }

    #[test]
    fn a_panic_frees_the_slot() {
        let limit = Limit::new(1, LimitStream::Few);
        let panicked = std::panic::catch_unwind(|| {
            let _slot = limit.take();
            panic!("a scenario panics");
        });
        assert!(panicked.is_err());
        drop(limit.take());
    }
}
