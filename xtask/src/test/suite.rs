//! Runs one executable with tests and reads the outcome of each.
//!
//! libtest's JSON events carry the time of every test. The format is unstable, so libtest requires `RUSTC_BOOTSTRAP` at run
//! time; nothing is compiled with it. Executables of libtest-mimic print the same events without times and append those to
//! the file in `MUSTER_TEST_TIMES`. A libtest function that cannot run here returns early
//! and appends the reason to the file in `MUSTER_TEST_SKIPS`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::executables::Executable;
use super::report::{Count, Outcome, Part, Test};
use xtask::process;

/// What one executable came to.
pub struct Ran {
    pub part: Part,
    pub tests: Vec<Test>,
}

/// How the tests of an executable are chosen and started.
#[derive(Debug, Clone, Default)]
pub struct Setup {
    /// Only tests whose names contain one of these; all when empty.
    pub filters: Vec<String>,
    /// Tests whose names contain one of these are left to another run of the executable.
    pub skips: Vec<String>,
    /// What is added to the name of the executable where it is run more than once.
    pub lane: &'static str,
    /// Tests at the same time; the executable's own choice when absent.
    pub threads: Option<usize>,
    pub variables: Vec<(String, String)>,
}

/// Runs the tests of an executable. Failures are printed when they happen, with what the test printed.
pub fn run(executable: &Executable, setup: &Setup) -> Ran {
    let begun = Instant::now();
    let (mut tests, ended_well) = match events(executable, setup) {
        Ok(done) => done,
        Err(problem) => {
            eprintln!("{}: {problem}", executable.name());
            (Vec::new(), false)
        }
    };
    let mut times = read_times(&file(executable, setup, "times"));
    for test in &mut tests {
        if let Some(time) = times.remove(&test.name) {
            test.time = time;
        }
    }
    let mut count = Count::default();
    tests.iter().for_each(|test| count.add(counted(test.outcome)));
    if !ended_well && count.failed == 0 {
        // An executable that died has no event for it.
        eprintln!("{}: ended badly without naming a failed test", executable.name());
        count.failed = 1;
    }
    count_skips(executable, setup, &mut count);
    let part = Part { name: executable.name() + setup.lane, time: begun.elapsed(), count };
    let Count { passed, failed, skipped } = count;
    eprintln!(
        "   {}: {passed} passed, {failed} failed, {skipped} skipped, {:.1} s",
        part.name,
        part.time.as_secs_f64()
    );
    Ran { part, tests }
}

fn counted(outcome: Outcome) -> Count {
    match outcome {
        Outcome::Passed => Count::PASSED,
        Outcome::Failed => Count::FAILED,
        Outcome::Skipped => Count::SKIPPED,
    }
}

/// Prints the skipped tests with their reasons. libtest counts them as passed; scenarios report them as ignored.
fn count_skips(executable: &Executable, setup: &Setup, count: &mut Count) {
    // Unit tests of the suite itself play cases that are skipped.
    if !executable.is_black_box() {
        return;
    }
    let lines = fs::read_to_string(file(executable, setup, "skips")).unwrap_or_default();
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

/// A file by which an executable reports what its events do not carry.
fn file(executable: &Executable, setup: &Setup, what: &str) -> PathBuf {
    let name = executable.name() + setup.lane;
    process::target().join(format!("{what}-of-{}", name.replace([' ', ','], "-")))
}

fn events(executable: &Executable, setup: &Setup) -> Result<(Vec<Test>, bool), String> {
    let [times, skips] = ["times", "skips"].map(|what| file(executable, setup, what));
    for earlier in [&times, &skips] {
        let _ = fs::remove_file(earlier);
    }
    let mut command = Command::new(&executable.path);
    command.current_dir(&executable.folder).args(&setup.filters).args([
        "-Zunstable-options",
        "--format",
        "json",
    ]);
    if !executable.is_scenarios() {
        command.arg("--report-time");
    }
    command.args(setup.skips.iter().flat_map(|it| ["--skip", it]));
    if let Some(threads) = setup.threads {
        command.arg(format!("--test-threads={threads}"));
    }
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_MANIFEST_DIR", &executable.folder)
        .env("MUSTER_TEST_TIMES", &times)
        .env("MUSTER_TEST_SKIPS", &skips)
        .envs(setup.variables.iter().cloned());
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("starting {}: {e}", executable.path.display()))?;
    let output = BufReader::new(child.stdout.take().expect("the output is piped"));
    let mut tests = Vec::new();
    for line in output.lines().map_while(Result::ok) {
        match event(&line) {
            Event::Ended { name, time, outcome, printed } => {
                if outcome == Outcome::Failed {
                    eprintln!("FAILED {} {name}\n{printed}", executable.name());
                }
                tests.push(Test { suite: executable.name(), name, time, outcome });
            }
            Event::Other => {}
            Event::Printed => eprintln!("{line}"),
        }
    }
    let status = child.wait().map_err(|e| format!("waiting for {}: {e}", executable.path.display()))?;
    Ok((tests, status.success()))
}

/// A line that an executable prints.
#[derive(Debug, PartialEq)]
enum Event {
    Ended {
        name: String,
        time: Duration,
        outcome: Outcome,
        printed: String,
    },
    /// That a suite or a test begins, or the end of the suite.
    Other,
    /// Something that is no event.
    Printed,
}

fn event(line: &str) -> Event {
    let Ok(value) = serde_json::from_str::<Value>(line) else { return Event::Printed };
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    if value["type"] != "test" {
        return if value["type"] == "suite" { Event::Other } else { Event::Printed };
    }
    let outcome = match value["event"].as_str() {
        Some("ok") => Outcome::Passed,
        Some("failed") => Outcome::Failed,
        Some("ignored") => Outcome::Skipped,
        _ => return Event::Other,
    };
    let time = Duration::from_secs_f64(value["exec_time"].as_f64().unwrap_or_default());
    let printed = [text("stdout"), text("message")].concat();
    Event::Ended { name: text("name"), time, outcome, printed }
}

/// The lines `{"name": …, "secs": …}` of an executable that measures its tests itself.
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
        let ended = |line: &str| match event(line) {
            Event::Ended { name, time, outcome, printed } => (name, time.as_millis(), outcome, printed),
            other => panic!("{line}: {other:?}"),
        };
        let (name, time, outcome, _) =
            ended(r#"{ "type": "test", "name": "a::b", "event": "ok", "exec_time": 0.25 }"#);
        assert_eq!((name.as_str(), time, outcome), ("a::b", 250, Outcome::Passed));
        let failed =
            ended(r#"{ "type": "test", "name": "c", "event": "failed", "exec_time": 1, "stdout": "why" }"#);
        assert_eq!((failed.2, failed.3.as_str()), (Outcome::Failed, "why"));
        assert_eq!(ended(r#"{ "type": "test", "name": "d", "event": "ignored" }"#).2, Outcome::Skipped);
        for line in [
            r#"{ "type": "test", "event": "started", "name": "a" }"#,
            // It has run for a minute and goes on.
            r#"{ "type": "test", "event": "timeout", "name": "a" }"#,
            r#"{ "type": "suite", "event": "started", "test_count": 2 }"#,
            r#"{ "type": "suite", "event": "ok", "passed": 2 }"#,
        ] {
            assert_eq!(event(line), Event::Other, "{line}");
        }
        for line in ["a note", "{\"kind\": \"Pod\"}"] {
            assert_eq!(event(line), Event::Printed, "{line}");
        }
    }
}
