//! How many of something took how long.

use std::time::Duration;

/// Which bounds there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// For what takes milliseconds: from 1 ms, each twice the one before.
    Short,
    /// For what takes minutes: 1 s, 2.5 s, 5 s, and from there each twice the one before, to nearly three hours.
    Long,
}

impl Bounds {
    /// How many bounds there are.
    pub const COUNT: usize = 14;

    /// The bounds.
    #[must_use]
    pub fn all(self) -> [Duration; Bounds::COUNT] {
        match self {
            Bounds::Short => std::array::from_fn(|n| Duration::from_millis(1 << n)),
            Bounds::Long => std::array::from_fn(|n| match n {
                0 => Duration::from_secs(1),
                1 => Duration::from_millis(2500),
                _ => Duration::from_secs(5 << (n - 2)),
            }),
        }
    }
}

/// How many took how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// Which bounds.
    pub bounds: Bounds,
    /// How many were up to each bound and longer than the one before; the last has no bound.
    pub counts: [u64; Bounds::COUNT + 1],
    /// All together.
    pub sum: Duration,
}

impl Spans {
    /// None yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Spans {
        Spans { bounds, counts: [0; Bounds::COUNT + 1], sum: Duration::ZERO }
    }

    /// Counts one more.
    pub fn add(&mut self, took: Duration) {
        let at = self.bounds.all().iter().position(|bound| took <= *bound).unwrap_or(Bounds::COUNT);
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
