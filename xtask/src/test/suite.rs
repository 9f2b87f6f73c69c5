//! Runs one test executable and reads the outcome of each test.
//!
//! libtest's JSON events have the time of every test. The format is unstable, so libtest requires `RUSTC_BOOTSTRAP` at run
//! time; nothing is compiled with it. Executables on libtest-mimic print the same events without times and append those to
//! the file in `MUSTER_TEST_TIMES`. A libtest function that cannot run on this host returns early and appends the reason to
//! the file in `MUSTER_TEST_SKIPS`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::executables::TestExecutable;
use super::report::{TestCounts, TestOutcome, TestResult, TestStep};
use xtask::process;

/// The outcome of one executable.
pub struct SuiteResult {
    pub step: TestStep,
    pub tests: Vec<TestResult>,
}

/// How the tests of an executable are selected and started.
#[derive(Debug, Clone, Default)]
pub struct SuiteOptions {
    /// Only tests whose names contain one of these; all if empty.
    pub filters: Vec<String>,
    /// Tests whose names contain one of these run in another lane.
    pub skips: Vec<String>,
    /// The suffix of the executable's name in reports, where it runs in more than one lane.
    pub lane: &'static str,
    /// The number of concurrent tests; the executable decides if absent.
    pub threads: Option<usize>,
    pub variables: Vec<(String, String)>,
}

/// Runs the tests of an executable. A failure is printed when it happens, with the output of the test.
pub fn run(executable: &TestExecutable, options: &SuiteOptions) -> SuiteResult {
    let begun = Instant::now();
    let (mut tests, exit_ok) = match events(executable, options) {
        Ok(done) => done,
        Err(problem) => {
            eprintln!("{}: {problem}", executable.name());
            (Vec::new(), false)
        }
    };
    let mut times = read_times(&file(executable, options, "times"));
    for test in &mut tests {
        if let Some(time) = times.remove(&test.name) {
            test.time = time;
        }
    }
    let mut count = TestCounts::default();
    tests.iter().for_each(|test| count.add(counted(test.outcome)));
    if !exit_ok && count.failed == 0 {
        // A crash of the executable has no event.
        eprintln!("{}: exited with an error and reported no failed test", executable.name());
        count.failed = 1;
    }
    count_skips(executable, options, &mut count);
    let step = TestStep { name: executable.name() + options.lane, time: begun.elapsed(), count };
    let TestCounts { passed, failed, skipped } = count;
    eprintln!(
        "   {}: {passed} passed, {failed} failed, {skipped} skipped, {:.1} s",
        step.name,
        step.time.as_secs_f64()
    );
    SuiteResult { step, tests }
}

fn counted(outcome: TestOutcome) -> TestCounts {
    match outcome {
        TestOutcome::Passed => TestCounts::PASSED,
        TestOutcome::Failed => TestCounts::FAILED,
        TestOutcome::Skipped => TestCounts::SKIPPED,
    }
}

/// Prints the skipped tests with their reasons. libtest counts them as passed; scenarios report them as ignored.
fn count_skips(executable: &TestExecutable, options: &SuiteOptions, count: &mut TestCounts) {
    // Unit tests of the suite runner write skips of their own, as test data.
    if !executable.is_black_box() {
        return;
    }
    let lines = fs::read_to_string(file(executable, options, "skips")).unwrap_or_default();
    if executable.is_scenarios() {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, reason) in lines.lines().filter_map(|line| line.split_once(": ")) {
            *reasons.entry(reason).or_default() += 1;
        }
        reasons.iter().for_each(|(reason, count)| eprintln!("skipped {count} scenarios: {reason}"));
    } else {
        lines.lines().for_each(|line| eprintln!("skipped {line}"));
        let skipped = lines.lines().count().min(count.passed);
        count.passed -= skipped;
        count.skipped += skipped;
    }
}

/// Returns the file in which an executable reports what its events do not have.
fn file(executable: &TestExecutable, options: &SuiteOptions, what: &str) -> PathBuf {
    let name = executable.name() + options.lane;
    process::target().join(format!("{what}-of-{}", name.replace([' ', ','], "-")))
}

fn events(executable: &TestExecutable, options: &SuiteOptions) -> Result<(Vec<TestResult>, bool), String> {
    let [times, skips] = ["times", "skips"].map(|what| file(executable, options, what));
    for earlier in [&times, &skips] {
        let _ = fs::remove_file(earlier);
    }
    let mut command = Command::new(&executable.path);
    command.current_dir(&executable.directory).args(&options.filters).args([
        "-Zunstable-options",
        "--format",
        "json",
    ]);
    if !executable.is_scenarios() {
        command.arg("--report-time");
    }
    command.args(options.skips.iter().flat_map(|it| ["--skip", it]));
    if let Some(threads) = options.threads {
        command.arg(format!("--test-threads={threads}"));
    }
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_MANIFEST_DIR", &executable.directory)
        .env("MUSTER_TEST_TIMES", &times)
        .env("MUSTER_TEST_SKIPS", &skips)
        .envs(options.variables.iter().cloned());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("starting {}: {e}", executable.path.display()))?;
    let output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut tests = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        match event(&line) {
            TestEvent::Finished { name, time, outcome, printed } => {
                if outcome == TestOutcome::Failed {
                    eprintln!("FAILED {} {name}\n{printed}", executable.name());
                }
                tests.push(TestResult { suite: executable.name(), name, time, outcome });
            }
            TestEvent::Other => {}
            TestEvent::Output => eprintln!("{line}"),
        }
    }
    let status = child.wait().map_err(|e| format!("waiting for {}: {e}", executable.path.display()))?;
    Ok((tests, status.success()))
}

/// A line of an executable's stdout.
#[derive(Debug, PartialEq)]
enum TestEvent {
    Finished {
        name: String,
        time: Duration,
        outcome: TestOutcome,
        printed: String,
    },
    /// The start of a test or suite, or the end of a suite.
    Other,
    /// Output that is no event.
    Output,
}

fn event(line: &str) -> TestEvent {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return TestEvent::Output };
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    if value["type"] != "test" {
        return if value["type"] == "suite" { TestEvent::Other } else { TestEvent::Output };
    }
    let outcome = match value["event"].as_str() {
        Some("ok") => TestOutcome::Passed,
        Some("failed") => TestOutcome::Failed,
        Some("ignored") => TestOutcome::Skipped,
        _ => return TestEvent::Other,
    };
    let time = Duration::from_secs_f64(value["exec_time"].as_f64().unwrap_or_default());
    let printed = [text("stdout"), text("message")].concat();
    TestEvent::Finished { name: text("name"), time, outcome, printed }
}

/// Reads the lines `{"name": …, "secs": …}` of an executable on libtest-mimic.
fn read_times(file: &std::path::Path) -> BTreeMap<String, Duration> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let time = |line: &Value| {
        let secs = line["secs"].as_f64().filter(|secs| *secs >= 0.0)?;
        Some((line["name"].as_str()?.to_owned(), Duration::from_secs_f64(secs)))
    };
    lines.filter_map(|line| time(&line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_libtest_are_read() {
        let finished = |line: &str| match event(line) {
            TestEvent::Finished { name, time, outcome, printed } => {
                (name, time.as_millis(), outcome, printed)
            }
            other => panic!("{line}: {other:?}"),
        };
        let (name, time, outcome, _) =
            finished(r#"{ "type": "test", "name": "a::b", "event": "ok", "exec_time": 0.25 }"#);
        assert_eq!((name.as_str(), time, outcome), ("a::b", 250, TestOutcome::Passed));
        let failed = finished(
            r#"{ "type": "test", "name": "c", "event": "failed", "exec_time": 1, "stdout": "why" }"#,
        );
        assert_eq!((failed.2, failed.3.as_str()), (TestOutcome::Failed, "why"));
        assert_eq!(
            finished(r#"{ "type": "test", "name": "d", "event": "ignored" }"#).2,
            TestOutcome::Skipped
        );
        for line in [
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            // libtest warns after a minute; the test continues.
            r#"{ "type": "test", "event": "timeout", "name": "a" }"#,
            r#"{ "type": "suite", "event": "started", "test_count": 2 }"#,
            r#"{ "type": "suite", "event": "ok", "passed": 2 }"#,
        ] {
            assert_eq!(event(line), TestEvent::Other, "{line}");
        }
        for line in ["a note", "{\"kind\": \"Pod\"}"] {
            assert_eq!(event(line), TestEvent::Output, "{line}");
        }
    }
}
