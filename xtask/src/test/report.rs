//! What a run came to: counts, seconds per part, seconds per test.
//!
//! The table and `target/test-times.json` are made from the same values. Times are printed, never asserted.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// How many of the slowest tests are printed.
const SLOWEST: usize = 25;

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// One test.
#[derive(Debug, Clone)]
pub struct Test {
    /// The executable it is in: `muster-queue lib`, `scenarios`.
    pub suite: String,
    pub name: String,
    pub time: Duration,
    pub outcome: Outcome,
}

/// One step of the run: a check, a compilation, one executable with tests.
#[derive(Debug, Clone, Default)]
pub struct Part {
    pub name: String,
    pub time: Duration,
    pub count: Count,
}

/// How many passed, failed and were skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl Count {
    pub const PASSED: Count = Count { passed: 1, failed: 0, skipped: 0 };
    pub const FAILED: Count = Count { passed: 0, failed: 1, skipped: 0 };
    pub const SKIPPED: Count = Count { passed: 0, failed: 0, skipped: 1 };

    /// Adds another count to this one.
    pub fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// A check without tests of its own counts as one.
    pub fn of(result: &Result<(), String>) -> Count {
        if result.is_ok() { Count::PASSED } else { Count::FAILED }
    }
}

/// Everything that is reported of a run.
#[derive(Debug, Default)]
pub struct Report {
    pub parts: Vec<Part>,
    pub tests: Vec<Test>,
    /// Lines that tests print although they passed.
    pub notes: String,
}

impl Report {
    /// Adds a part.
    pub fn part(&mut self, name: &str, time: Duration, count: Count) {
        self.parts.push(Part { name: name.to_owned(), time, count });
    }

    /// The sum over all parts.
    pub fn total(&self) -> Count {
        let mut total = Count::default();
        self.parts.iter().for_each(|part| total.add(part.count));
        total
    }

    /// The table of parts and the slowest tests.
    pub fn table(&self, elapsed: Duration) -> String {
        let mut text = format!("{:>8}  {:>6} {:>6} {:>7}  part\n", "seconds", "passed", "failed", "skipped");
        for Part { name, time, count } in &self.parts {
            let Count { passed, failed, skipped } = count;
            writeln!(text, "{:>8.1}  {passed:>6} {failed:>6} {skipped:>7}  {name}", time.as_secs_f64())
                .expect("writing to memory");
        }
        writeln!(text, "{:>8.1}  by the clock; parts run side by side", elapsed.as_secs_f64())
            .expect("writing to memory");
        if !self.tests.is_empty() {
            text += "\n seconds  slowest tests\n";
        }
        for test in self.slowest() {
            writeln!(text, "{:>8.1}  {} {}", test.time.as_secs_f64(), test.suite, test.name)
                .expect("writing to memory");
        }
        text
    }

    fn slowest(&self) -> Vec<&Test> {
        let mut all: Vec<&Test> = self.tests.iter().collect();
        all.sort_by_key(|test| std::cmp::Reverse(test.time));
        all.truncate(SLOWEST);
        all
    }

    /// The same for machines, with every test.
    pub fn json(&self, elapsed: Duration) -> Value {
        let parts = self.parts.iter().map(|Part { name, time, count }| {
            json!({"name": name, "seconds": seconds(*time), "passed": count.passed, "failed": count.failed, "skipped": count.skipped})
        });
        let tests = self.tests.iter().map(|test| {
            let outcome = match test.outcome {
                Outcome::Passed => "passed",
                Outcome::Failed => "failed",
                Outcome::Skipped => "skipped",
            };
            json!({"suite": test.suite, "name": test.name, "seconds": seconds(test.time), "outcome": outcome})
        });
        json!({"seconds": seconds(elapsed), "parts": parts.collect::<Vec<_>>(), "tests": tests.collect::<Vec<_>>()})
    }
}

/// Seconds with three digits behind the point.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, secs: u64) -> Test {
        let time = Duration::from_secs(secs);
        Test { suite: "s".to_owned(), name: name.to_owned(), time, outcome: Outcome::Passed }
    }

    #[test]
    fn the_table_has_every_part_and_the_slowest_tests_first() {
        let mut report = Report::default();
        report.part("format", Duration::from_millis(1500), Count::PASSED);
        report.part("muster-queue lib", Duration::from_secs(3), Count { passed: 7, failed: 1, skipped: 2 });
        report.tests = vec![test("quick", 1), test("slow", 9)];
        let table = report.table(Duration::from_secs(4));
        let lines: Vec<&str> = table.lines().map(str::trim).collect();
        assert_eq!(lines[1], "1.5       1      0       0  format");
        assert_eq!(lines[2], "3.0       7      1       2  muster-queue lib");
        assert_eq!(lines[3], "4.0  by the clock; parts run side by side");
        assert_eq!(lines[6..], ["9.0  s slow", "1.0  s quick"]);
        assert_eq!(report.total(), Count { passed: 8, failed: 1, skipped: 2 });
    }

    #[test]
    fn no_more_than_the_slowest_are_printed_and_all_are_kept() {
        let tests = (0..100).map(|n| test(&format!("t{n}"), n)).collect();
        let report = Report { tests, ..Report::default() };
        assert_eq!(report.slowest().len(), SLOWEST);
        assert_eq!(report.slowest()[0].name, "t99");
        assert_eq!(report.json(Duration::ZERO)["tests"].as_array().map(Vec::len), Some(100));
    }
}
