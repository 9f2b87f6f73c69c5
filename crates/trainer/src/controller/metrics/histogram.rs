//! Histograms of durations, with fixed buckets.

use std::time::Duration;

/// The buckets of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistogramBuckets {
    /// Up to minutes; the objective of 30 s is one of the bounds.
    Latency,
    /// Seconds to one hour.
    Waiting,
    /// Milliseconds to five seconds.
    Work,
}

impl HistogramBuckets {
    /// The inclusive upper bounds, in milliseconds.
    #[must_use]
    pub fn millis(self) -> &'static [u64] {
        match self {
            HistogramBuckets::Latency => {
                &[50, 100, 250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000]
            }
            HistogramBuckets::Waiting => {
                &[1000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000]
            }
            HistogramBuckets::Work => &[1, 5, 10, 25, 50, 100, 250, 500, 1000, 5000],
        }
    }
}

/// A histogram of durations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrainJobHistogram {
    pub bounds: HistogramBuckets,
    /// Observations per bucket, not cumulative; the last bucket has no upper bound.
    pub counts: Vec<u64>,
    pub sum: Duration,
}

impl TrainJobHistogram {
    #[must_use]
    pub fn new(bounds: HistogramBuckets) -> TrainJobHistogram {
        TrainJobHistogram { bounds, counts: vec![0; bounds.millis().len() + 1], sum: Duration::ZERO }
    }

    pub fn add(&mut self, took: Duration) {
        let bounds = self.bounds.millis();
        let at = bounds.iter().position(|bound| took <= Duration::from_millis(*bound));
        self.counts[at.unwrap_or(bounds.len())] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// The number of observations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}
