//! How many scenarios run at the same time: a counting semaphore for each group of them.
//!
//! The test harness has one number of threads. Scenarios of different groups need different numbers: those on real planes
//! share the processors with etcd and kube-apiserver, those on random clusters must have their plane for themselves.
//!
//! # Guarantees
//!
//! - A group never has more scenarios under way than it has slots.
//! - A slot is free again when its guard is dropped, also when the scenario panics.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A group of scenarios and its slots.
#[derive(Debug)]
pub struct Limit {
    slots: usize,
    /// Slots that no scenario has.
    free: Mutex<usize>,
    freed: Condvar,
    stream: Stream,
}

/// Limits of one stream are used one after the other, those of different streams at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    /// Scenarios on `muster up` alone.
    Embedded,
    /// Scenarios that need a real plane.
    Real,
    /// Scenarios of which few or one run at a time.
    Few,
    /// Scenarios under virtual time.
    Simulated,
}

/// On the embedded server alone. They mostly wait for controllers.
pub static EMBEDDED: Limit = Limit::new(16, Stream::Embedded);
/// On a real plane, or on one beside ours: etcd, kube-apiserver and the controller manager take their share of the machine.
pub static REAL: Limit = Limit::new(12, Stream::Real);
/// Scenarios that write cluster-scoped objects with fixed names.
pub static CLUSTER_SCOPED: Limit = Limit::new(1, Stream::Few);
/// Random clusters: kube-scheduler places pods on any node there is, so that only one cluster can be there.
pub static WHOLE_PLANE: Limit = Limit::new(1, Stream::Few);
/// Scenarios that keep both servers busy without a pause.
pub static BUSY: Limit = Limit::new(2, Stream::Few);
/// Scenarios under virtual time: they never wait, so that more than one would only take the processor from the others.
pub static VIRTUAL_TIME: Limit = Limit::new(1, Stream::Simulated);

/// All of them.
pub static ALL: [&Limit; 6] = [&EMBEDDED, &REAL, &CLUSTER_SCOPED, &WHOLE_PLANE, &BUSY, &VIRTUAL_TIME];

/// A taken slot; dropping it frees the slot.
#[derive(Debug)]
pub struct Slot<'a>(&'a Limit);

impl Limit {
    const fn new(slots: usize, stream: Stream) -> Limit {
        Limit { slots, free: Mutex::new(slots), freed: Condvar::new(), stream }
    }

    /// Waits for a free slot and takes it.
    pub fn take(&self) -> Slot<'_> {
        let mut free = self.lock();
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        Slot(self)
    }

    /// How many scenarios may be under way at once.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Which limits it waits for.
    #[must_use]
    pub fn stream(&self) -> Stream {
        self.stream
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        // The number is right even if a thread panicked while it had the lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
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
    fn no_more_than_the_slots_are_taken_and_all_get_one() {
        let limit = Limit::new(3, Stream::Few);
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
        let limit = Limit::new(1, Stream::Few);
        let panicked = std::panic::catch_unwind(|| {
            let _slot = limit.take();
            panic!("a scenario panics");
        });
        assert!(panicked.is_err());
        drop(limit.take());
    }
}
