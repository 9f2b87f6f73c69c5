//! Retries: on an overloaded host a comparison may fail once by timing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::CaseRun;
use crate::clients::note;
use crate::differential::Difference;

/// Maximum number of retries per suite: if more cases differ, timing is not the cause.
const MAX: usize = 8;

/// The remaining retries of a suite.
#[derive(Debug, Clone)]
pub struct RetryBudget(Arc<AtomicUsize>);

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget(Arc::new(AtomicUsize::new(MAX)))
    }
}

impl RetryBudget {
    /// Runs a comparison, and once more if it differs; returns whether the retry was needed. `compare` gets the number of the attempt, from
    /// 0.
    pub fn run(
        &self,
        run: &CaseRun,
        name: &str,
        compare: impl Fn(u32) -> Result<Vec<Difference>, String>,
    ) -> Result<bool, String> {
        let first = match require_no_differences(compare(0)) {
            Ok(()) => return Ok(false),
            Err(why) => why,
        };
        if !self.take() {
            return Err(first);
        }
        run.count_retry();
        require_no_differences(compare(1))?;
        note(&format!("equal only after a retry: {name:?}: {first}"));
        Ok(true)
    }

    /// Takes a retry if one is left.
    pub fn take(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

fn require_no_differences(played: Result<Vec<Difference>, String>) -> Result<(), String> {
    let found = played?;
    if found.is_empty() { Ok(()) } else { Err(format_differences(&found)) }
}

/// Formats differences, one per line.
pub fn format_differences(found: &[Difference]) -> String {
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n  ")
}
