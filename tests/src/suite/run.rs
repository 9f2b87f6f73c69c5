//! Runs one case and records its outcome and time.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use muster_tree::{Tree, tree};

use super::CaseFn;
use crate::clients::append;

/// Variable with the file for times: one JSON object per line, with `name`, `secs` and `outcome`.
const TIMES: &str = "MUSTER_TEST_TIMES";
/// Variable with the file to which skipped cases are appended.
const SKIPS: &str = "MUSTER_TEST_SKIPS";

/// Outcome of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseOutcome {
    Passed,
    Failed(String),
    /// A requirement is missing.
    Skipped(String),
}

/// Why a case stops early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseError {
    Failed(String),
    /// A requirement is missing.
    Skipped(String),
}

impl From<String> for CaseError {
    fn from(why: String) -> CaseError {
        CaseError::Failed(why)
    }
}

impl From<&str> for CaseError {
    fn from(why: &str) -> CaseError {
        CaseError::Failed(why.to_owned())
    }
}

#[derive(Debug)]
pub struct CaseRun {
    since: Cell<Instant>,
    retries: Cell<usize>,
}

impl CaseRun {
    fn begin() -> CaseRun {
        CaseRun { since: Cell::new(now()), retries: Cell::new(0) }
    }

    /// Restarts the timer: waiting for an environment is not time of the case.
    pub(super) fn restart_timer(&self) {
        self.since.set(now());
    }

    pub(super) fn count_retry(&self) {
        self.retries.set(self.retries.get() + 1);
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that a test takes is real time")]
fn now() -> Instant {
    Instant::now()
}

/// Runs a case; returns the outcome and the number of retries.
pub(super) fn run_case(name: &str, body: &CaseFn) -> (CaseOutcome, usize) {
    let run = CaseRun::begin();
    let outcome = match catch_unwind(AssertUnwindSafe(|| body(&run))) {
        Ok(Ok(())) => CaseOutcome::Passed,
        Ok(Err(CaseError::Failed(why))) => CaseOutcome::Failed(why),
        Ok(Err(CaseError::Skipped(why))) => CaseOutcome::Skipped(why),
        Err(panic) => CaseOutcome::Failed(format!("panicked: {}", panic_message(&*panic))),
    };
    write_time(name, run.since.get().elapsed(), &outcome);
    write_skip(name, &outcome);
    (outcome, run.retries.get())
}

/// Records a case that cannot run here.
pub(super) fn skipped(name: &str, reason: &str) -> CaseOutcome {
    let outcome = CaseOutcome::Skipped(reason.to_owned());
    write_time(name, Duration::ZERO, &outcome);
    write_skip(name, &outcome);
    outcome
}

/// Records the reason for `cargo xtask test`: the events of the harness have none.
fn write_skip(name: &str, outcome: &CaseOutcome) {
    if let CaseOutcome::Skipped(reason) = outcome {
        append(SKIPS, &format!("{name}: {reason}"));
    }
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn write_time(name: &str, time: Duration, outcome: &CaseOutcome) {
    append(TIMES, &time_line(name, time, outcome));
}

fn time_line(name: &str, time: Duration, outcome: &CaseOutcome) -> String {
    let word = match outcome {
        CaseOutcome::Passed => "ok",
        CaseOutcome::Failed(_) => "failed",
        CaseOutcome::Skipped(_) => "ignored",
    };
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    tree!({"name": name, "secs": Tree::from(millis as f64 / 1000.0), "outcome": word}).to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(what: impl Fn(&CaseRun) -> Result<(), CaseError> + Send + 'static) -> (CaseOutcome, usize) {
        run_case("a case", &(Box::new(what) as CaseFn))
    }

    #[test]
    fn errors_and_panics_are_outcomes() {
        assert_eq!(played(|_| Ok(())).0, CaseOutcome::Passed);
        assert_eq!(played(|_| Err("odd".into())).0, CaseOutcome::Failed("odd".to_owned()));
        assert_eq!(
            played(|_| Err(CaseError::Skipped("no Go".to_owned()))).0,
            CaseOutcome::Skipped("no Go".to_owned())
        );
        assert_eq!(played(|_| panic!("odd {}", 1)).0, CaseOutcome::Failed("panicked: odd 1".to_owned()));
    }

    #[test]
    fn retries_are_counted() {
        let (_, tries) = played(|run| {
            run.count_retry();
            Ok(())
        });
        assert_eq!(tries, 1);
    }

    #[test]
    fn times_are_lines_of_json() {
        let line = time_line("a/b", Duration::from_millis(1500), &CaseOutcome::Skipped(String::new()));
        assert_eq!(line, r#"{"name":"a/b","outcome":"ignored","secs":1.5}"#);
    }
}
