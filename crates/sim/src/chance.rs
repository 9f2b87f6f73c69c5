//! Seeded dice and a clock that stands still until it is moved.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use muster_api::ports::{Clock, Entropy};
use muster_api::time::Time;

/// SplitMix64: small, fast, the same everywhere.
#[derive(Debug)]
pub struct Dice(AtomicU64);

impl Dice {
    /// Dice that fall as the seed says.
    #[must_use]
    pub fn new(seed: u64) -> Dice {
        Dice(AtomicU64::new(seed))
    }

    /// The next number.
    pub fn next(&self) -> u64 {
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let mut z = self.0.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).expect("below a usize")
    }

    /// Whether something happens that happens once in `n` times; never when `n` is 0.
    pub fn once_in(&self, n: usize) -> bool {
        n > 0 && self.below(n) == 0
    }
}

impl Entropy for Dice {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
    }
}

/// A clock that is moved by hand.
#[derive(Debug)]
pub struct VirtualClock(AtomicI64);

impl VirtualClock {
    /// Begins at the first of January 2026.
    #[must_use]
    pub fn new() -> VirtualClock {
        let begin = Time::parse("2026-01-01T00:00:00Z").expect("a date");
        VirtualClock(AtomicI64::new(begin.0))
    }

    /// Moves forward to `time`; never back.
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
