//! One case: its outcome, and the time it took.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use muster_tree::{Tree, tree};

use super::Play;
use crate::clients::append;

/// The file for times: one JSON object a line, with `name`, `secs` and `outcome`.
const TIMES: &str = "MUSTER_TEST_TIMES";
/// The variable with the file to which skipped cases are appended.
const SKIPS: &str = "MUSTER_TEST_SKIPS";

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// All is as the scenario says.
    Passed,
    /// Something is not.
    Failed(String),
    /// It cannot run here.
    Skipped(String),
}

/// Why a case ends before its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// Something is not as the scenario says.
    Failed(String),
    /// What it needs is missing here.
    Skipped(String),
}

impl From<String> for Stop {
    fn from(why: String) -> Stop {
        Stop::Failed(why)
    }
}

impl From<&str> for Stop {
    fn from(why: &str) -> Stop {
        Stop::Failed(why.to_owned())
    }
}

/// A case that runs.
#[derive(Debug)]
pub struct Run {
    since: Cell<Instant>,
    second_tries: Cell<usize>,
}

impl Run {
    fn begin() -> Run {
        Run { since: Cell::new(now()), second_tries: Cell::new(0) }
    }

    /// Its time begins now: what it waited for before is no time of its own.
    pub(super) fn begin_again(&self) {
        self.since.set(now());
    }

    /// It tries once more.
    pub(super) fn count_second_try(&self) {
        self.second_tries.set(self.second_tries.get() + 1);
    }
}

#[expect(clippy::disallowed_methods, reason = "the time that a test takes is real time")]
fn now() -> Instant {
    Instant::now()
}

/// Runs a case; how it ended, and how many second tries it needed.
pub(super) fn play(name: &str, play: &Play) -> (Outcome, usize) {
    let run = Run::begin();
    let outcome = match catch_unwind(AssertUnwindSafe(|| play(&run))) {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(Stop::Failed(why))) => Outcome::Failed(why),
        Ok(Err(Stop::Skipped(why))) => Outcome::Skipped(why),
        Err(panic) => Outcome::Failed(format!("panicked: {}", words(&*panic))),
    };
    write_time(name, run.since.get().elapsed(), &outcome);
    write_skip(name, &outcome);
    (outcome, run.second_tries.get())
}

/// A case that cannot run here.
pub(super) fn skipped(name: &str, reason: &str) -> Outcome {
    let outcome = Outcome::Skipped(reason.to_owned());
    write_time(name, Duration::ZERO, &outcome);
    write_skip(name, &outcome);
    outcome
}

/// `cargo xtask test` prints the reasons: the events of the harness carry none.
fn write_skip(name: &str, outcome: &Outcome) {
    if let Outcome::Skipped(reason) = outcome {
        append(SKIPS, &format!("{name}: {reason}"));
    }
}

pub(super) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

fn write_time(name: &str, time: Duration, outcome: &Outcome) {
    append(TIMES, &time_line(name, time, outcome));
}

fn time_line(name: &str, time: Duration, outcome: &Outcome) -> String {
    let word = match outcome {
        Outcome::Passed => "ok",
        Outcome::Failed(_) => "failed",
        Outcome::Skipped(_) => "ignored",
    };
    let millis = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
    tree!({"name": name, "secs": Tree::from(millis as f64 / 1000.0), "outcome": word}).to_json()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(what: impl Fn(&Run) -> Result<(), Stop> + Send + 'static) -> (Outcome, usize) {
        play("a case", &(Box::new(what) as Play))
    }

    #[test]
    fn every_end_is_an_outcome() {
        assert_eq!(played(|_| Ok(())).0, Outcome::Passed);
        assert_eq!(played(|_| Err("odd".into())).0, Outcome::Failed("odd".to_owned()));
        assert_eq!(
            played(|_| Err(Stop::Skipped("no Go".to_owned()))).0,
            Outcome::Skipped("no Go".to_owned())
        );
        assert_eq!(played(|_| panic!("odd {}", 1)).0, Outcome::Failed("panicked: odd 1".to_owned()));
    }

    #[test]
    fn second_tries_are_counted() {
        let (_, tries) = played(|run| {
            run.count_second_try();
            Ok(())
        });
        assert_eq!(tries, 1);
    }

    #[test]
    fn times_are_lines_of_json() {
        let line = time_line("a/b", Duration::from_millis(1500), &Outcome::Skipped(String::new()));
        assert_eq!(line, r#"{"name":"a/b","outcome":"ignored","secs":1.5}"#);
    }
}
