//! What the hooks were asked, and what they answered: for metrics and the debug dump.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use muster_control::counters::Waits;

/// What one hook was asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Count {
    /// Reviews that let a write pass.
    pub allowed: u64,
    /// Reviews that refused one.
    pub refused: u64,
    /// Questions without a review: not understood, too large, too slow.
    pub failed: u64,
    /// How long they took.
    pub times: Waits,
}

/// By the path of the hook.
pub type Counts = BTreeMap<&'static str, Count>;

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The write may pass.
    Allowed,
    /// It may not.
    Refused,
    /// There is no review.
    Failed,
}

/// Counts; there are as many as there are hooks.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

impl Tally {
    /// The hook of this path has answered.
    pub fn answered(&self, path: &'static str, outcome: Outcome, took: Duration) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let one = all.entry(path).or_default();
        match outcome {
            Outcome::Allowed => one.allowed += 1,
            Outcome::Refused => one.refused += 1,
            Outcome::Failed => one.failed += 1,
        }
        one.times.add(took);
    }

    /// All of them.
    pub fn counts(&self) -> Counts {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
