//! How many of something took how long.

use std::time::Duration;

/// Which bounds there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bounds {
    /// For what is to be done within seconds: the objective, 30 s, is one of them.
    Latency,
    /// For what takes minutes.
    Waiting,
    /// For what takes milliseconds.
    Work,
}

impl Bounds {
    /// The bounds, in milliseconds.
    #[must_use]
    pub fn millis(self) -> &'static [u64] {
        match self {
            Bounds::Latency => {
                &[50, 100, 250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000]
            }
            Bounds::Waiting => {
                &[1000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000]
            }
            Bounds::Work => &[1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000],
        }
    }
}

/// How many took how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// Which bounds.
    pub bounds: Bounds,
    /// How many were up to each bound and longer than the one before; the last has no bound.
    pub counts: Vec<u64>,
    /// All together.
    pub sum: Duration,
}

impl Spans {
    /// None yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Spans {
        Spans { bounds, counts: vec![0; bounds.millis().len() + 1], sum: Duration::ZERO }
    }

    /// Counts one more.
    pub fn add(&mut self, took: Duration) {
        let bounds = self.bounds.millis();
        let at = bounds.iter().position(|bound| took <= Duration::from_millis(*bound));
        self.counts[at.unwrap_or(bounds.len())] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
