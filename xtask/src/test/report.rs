//! The result of a test run: counts, seconds of each step, seconds of each test.
//!
//! The table and `target/test-times.json` have the same values. Times are reported, never asserted.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

/// The number of slowest tests in the table.
const SLOWEST_MAX: usize = 25;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestOutcome {
    Passed,
    Failed,
    Skipped,
}

#[derive(Debug, Clone)]
pub struct TestResult {
    /// The executable, such as `muster-queue lib`.
    pub suite: String,
    pub name: String,
    pub time: Duration,
    pub outcome: TestOutcome,
}

/// A check, a compilation, or one run of a test executable.
#[derive(Debug, Clone, Default)]
pub struct TestStep {
    pub name: String,
    pub time: Duration,
    pub count: TestCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TestCounts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl TestCounts {
    pub const PASSED: TestCounts = TestCounts { passed: 1, failed: 0, skipped: 0 };
    pub const FAILED: TestCounts = TestCounts { passed: 0, failed: 1, skipped: 0 };
    pub const SKIPPED: TestCounts = TestCounts { passed: 0, failed: 0, skipped: 1 };

    /// Adds other counts to these.
    pub fn add(&mut self, other: TestCounts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Counts a step without tests as one.
    pub fn of(result: &Result<(), String>) -> TestCounts {
        if result.is_ok() { TestCounts::PASSED } else { TestCounts::FAILED }
    }
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct TestReport {
    pub steps: Vec<TestStep>,
    pub tests: Vec<TestResult>,
    /// Lines that passed tests reported.
    pub notes: String,
}

impl TestReport {
    /// Adds a step.
    pub fn step(&mut self, name: &str, time: Duration, count: TestCounts) {
        self.steps.push(TestStep { name: name.to_owned(), time, count });
    }

    /// Returns the sum over all steps.
    pub fn total(&self) -> TestCounts {
        let mut total = TestCounts::default();
        self.steps.iter().for_each(|step| total.add(step.count));
        total
    }

    /// Renders the table of steps and the slowest tests.
    pub fn table(&self, elapsed: Duration) -> String {
        let mut text = format!("{:>8}  {:>6} {:>6} {:>7}  step\n", "seconds", "passed", "failed", "skipped");
        for TestStep { name, time, count } in &self.steps {
            let TestCounts { passed, failed, skipped } = count;
            writeln!(text, "{:>8.1}  {passed:>6} {failed:>6} {skipped:>7}  {name}", time.as_secs_f64())
                .expect("writing to memory");
        }
        writeln!(text, "{:>8.1}  wall-clock time; steps run in parallel", elapsed.as_secs_f64())
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

    fn slowest(&self) -> Vec<&TestResult> {
        let mut all: Vec<&TestResult> = self.tests.iter().collect();
        all.sort_by_key(|test| std::cmp::Reverse(test.time));
        all.truncate(SLOWEST_MAX);
        all
    }

    /// Returns the result as JSON, with every test.
    pub fn json(&self, elapsed: Duration) -> Value {
        let parts = self.steps.iter().map(|TestStep { name, time, count }| {
            json!({"name": name, "seconds": seconds(*time), "passed": count.passed, "failed": count.failed, "skipped": count.skipped})
        });
        let tests = self.tests.iter().map(|test| {
            let outcome = match test.outcome {
                TestOutcome::Passed => "passed",
                TestOutcome::Failed => "failed",
                TestOutcome::Skipped => "skipped",
            };
            json!({"suite": test.suite, "name": test.name, "seconds": seconds(test.time), "outcome": outcome})
        });
        json!({"seconds": seconds(elapsed), "parts": parts.collect::<Vec<_>>(), "tests": tests.collect::<Vec<_>>()})
    }
}

/// Seconds, rounded to milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, secs: u64) -> TestResult {
        let time = Duration::from_secs(secs);
        TestResult { suite: "s".to_owned(), name: name.to_owned(), time, outcome: TestOutcome::Passed }
    }

    #[test]
    fn the_table_has_every_step_and_the_slowest_tests_first() {
        let mut report = TestReport::default();
        report.step("format", Duration::from_millis(1500), TestCounts::PASSED);
        report.step(
            "muster-queue lib",
            Duration::from_secs(3),
            TestCounts { passed: 7, failed: 1, skipped: 2 },
        );
        report.tests = vec![test("quick", 1), test("slow", 9)];
        let table = report.table(Duration::from_secs(4));
        let lines: Vec<&str> = table.lines().map(str::trim).collect();
        assert_eq!(lines[1], "1.5       1      0       0  format");
        assert_eq!(lines[2], "3.0       7      1       2  muster-queue lib");
        assert_eq!(lines[3], "4.0  wall-clock time; steps run in parallel");
        assert_eq!(lines[6..], ["9.0  s slow", "1.0  s quick"]);
        assert_eq!(report.total(), TestCounts { passed: 8, failed: 1, skipped: 2 });
    }

    #[test]
    fn the_table_has_the_slowest_tests_and_the_json_all() {
        let tests = (0..100).map(|n| test(&format!("t{n}"), n)).collect();
        let report = TestReport { tests, ..TestReport::default() };
        assert_eq!(report.slowest().len(), SLOWEST_MAX);
        assert_eq!(report.slowest()[0].name, "t99");
        assert_eq!(report.json(Duration::ZERO)["tests"].as_array().map(Vec::len), Some(100));
    }
}
