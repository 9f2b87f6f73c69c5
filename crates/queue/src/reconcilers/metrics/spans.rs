//! Histograms of durations.

use std::time::Duration;

/// The upper bounds of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buckets {
    /// From 1 ms, doubling.
    Short,
    /// 1 s, 2.5 s, 5 s, then doubling up to nearly three hours.
    Long,
}

impl Buckets {
    pub const COUNT: usize = 14;

    #[must_use]
    pub fn all(self) -> [Duration; Buckets::COUNT] {
        match self {
            Buckets::Short => std::array::from_fn(|n| Duration::from_millis(1 << n)),
            Buckets::Long => std::array::from_fn(|n| match n {
                0 => Duration::from_secs(1),
                1 => Duration::from_millis(2500),
                _ => Duration::from_secs(5 << (n - 2)),
            }),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    pub bounds: Buckets,
    /// Counts per bucket, not cumulative; the last bucket is unbounded.
    pub counts: [u64; Buckets::COUNT + 1],
    pub sum: Duration,
}

impl Histogram {
    #[must_use]
    pub fn new(bounds: Buckets) -> Histogram {
        Histogram { bounds, counts: [0; Buckets::COUNT + 1], sum: Duration::ZERO }
    }

    pub fn add(&mut self, took: Duration) {
        let at = self.bounds.all().iter().position(|bound| took <= *bound).unwrap_or(Buckets::COUNT);
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
