//! A seeded random number generator, and a clock that only the simulation advances.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use muster_api::environment::{Clock, Entropy};
use muster_api::time::Time;

/// SplitMix64: small, and the same sequence on every platform.
#[derive(Debug)]
pub struct SeededRng(AtomicU64);

impl SeededRng {
    #[must_use]
    pub fn new(seed: u64) -> SeededRng {
        SeededRng(AtomicU64::new(seed))
    }

    pub fn next(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub fn below(&self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("below a usize")
    }

    /// True with probability `1/n`; never if `n` is 0.
    pub fn one_in(&self, n: usize) -> bool {
        n > 0 && self.below(n) == 0
    }
}

impl Entropy for SeededRng {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

/// A clock that is advanced explicitly.
#[derive(Debug)]
pub struct VirtualClock(AtomicI64);

impl VirtualClock {
    #[must_use]
    pub fn new() -> VirtualClock {
        let begin = Time::parse("2026-01-01T00:00:00Z").expect("a date");
        VirtualClock(AtomicI64::new(begin.0))
    }

    /// Advances to `time`; never goes back.
    pub fn advance_to(&self, time: Time) {
        self.0.fetch_max(time.0, Ordering::Relaxed);
    }
}

impl Default for VirtualClock {
    fn default() -> Self {
        VirtualClock::new()
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }
}
