//! Request counts and latencies of the webhooks, for metrics and the debug dump.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_control::metrics::DurationHistogram;

/// Counters of one webhook path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookCount {
    /// Reviews that allowed the write.
    pub allowed: u64,
    /// Reviews that denied it.
    pub refused: u64,
    /// Requests without a review: malformed, too large or too slow.
    pub failed: u64,
    /// Latencies of all of them.
    pub times: DurationHistogram,
}

/// Counters by webhook path.
pub type WebhookCounts = BTreeMap<&'static str, WebhookCount>;

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewOutcome {
    Allowed,
    Refused,
    /// No review was returned.
    Failed,
}

/// Counters of all paths; bounded by the number of webhooks.
#[derive(Debug, Default)]
pub struct WebhookMetrics(Mutex<WebhookCounts>);

impl WebhookMetrics {
    pub fn observe(&self, path: &'static str, outcome: ReviewOutcome, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = all.entry(path).or_default();
        match outcome {
            ReviewOutcome::Allowed => one.allowed += 1,
            ReviewOutcome::Refused => one.refused += 1,
            ReviewOutcome::Failed => one.failed += 1,
        }
        one.times.observe(took);
    }

    pub fn counts(&self) -> WebhookCounts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
