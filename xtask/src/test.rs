//! `cargo xtask test`: what CI runs. Format, lints, documentation and every test.
//!
//! All steps run even when one failed, so that one run tells everything. The last line counts: a step without tests of
//! its own counts as one.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{clients, process, rights};

/// What came out so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("{unknown}: this task takes no arguments"));
    }
    let mut tally = Tally::default();
    for (about, mut command) in checks() {
        eprintln!("== {about}");
        tally.add(&check(&mut command));
    }
    eprintln!("== programs for the tests");
    let variables = clients::provide();
    eprintln!("== tests");
    let (tests, mut notes) = tests(&variables)?;
    tally.add(&tests);
    eprintln!("== rights");
    tally.add(&compare_rights(&variables, &mut notes));
    println_summary(&notes, &tally);
    if tally.failed == 0 { Ok(()) } else { Err("not everything passed".to_owned()) }
}

/// The checks before the tests.
fn checks() -> [(&'static str, Command); 4] {
    let mut docs = process::cargo(["doc", "--workspace", "--no-deps", "--quiet"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    let foreign = process::cargo(["fmt", "--check", "--manifest-path", "tests/kube-rs/Cargo.toml"]);
    [
        ("format", process::cargo(["fmt", "--all", "--check"])),
        ("format of the foreign client", foreign),
        (
            "lints",
            process::cargo(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
        ),
        ("documentation", docs),
    ]
}

fn check(command: &mut Command) -> Tally {
    match process::run(command) {
        Ok(()) => Tally { passed: 1, ..Tally::default() },
        Err(problem) => {
            eprintln!("{problem}");
            Tally { failed: 1, ..Tally::default() }
        }
    }
}

/// Whether the operator has exactly the rights that it used while the tests ran.
fn compare_rights(variables: &[(String, String)], notes: &mut String) -> Tally {
    let missing =
        variables.iter().find(|(name, _)| name == clients::REAL_MISSING).map(|(_, why)| why.clone());
    let verdict = rights::check(&audit(), &binary(), missing)
        .unwrap_or_else(|problem| rights::Verdict { wrong: vec![problem], ..rights::Verdict::default() });
    verdict.wrong.iter().for_each(|line| eprintln!("rights: {line}"));
    if let Some(reason) = &verdict.skipped {
        eprintln!("skipped the comparison of rights: {reason}");
        return Tally { skipped: 1, ..Tally::default() };
    }
    if !verdict.note.is_empty() {
        notes.push_str(&verdict.note);
        notes.push('\n');
    }
    match verdict.wrong.len() {
        0 => Tally { passed: 1, ..Tally::default() },
        _ => Tally { failed: 1, ..Tally::default() },
    }
}

/// Where real servers write down what operators ask of them.
fn audit() -> PathBuf {
    process::root().join("target").join("audit-of-tests")
}

/// Runs every test of the workspace; the count, and what tests have to tell although they passed. Cargo builds the
/// binary for them, before the first one runs.
fn tests(variables: &[(String, String)]) -> Result<(Tally, String), String> {
    let list = |name: &str| process::root().join("target").join(name);
    let (skips, notes) = (list("skipped-tests.txt"), list("notes-of-tests.txt"));
    for file in [&skips, &notes] {
        // A list of an earlier run must not be counted again.
        let _ = fs::remove_file(file);
    }
    // Neither must what an operator of an earlier run has asked.
    let _ = fs::remove_dir_all(audit());
    fs::create_dir_all(audit()).map_err(|e| format!("{}: {e}", audit().display()))?;
    let mut command = process::cargo(["test", "--workspace", "--no-fail-fast"]);
    command
        .envs(variables.iter().cloned())
        .env("MUSTER_TEST_BINARY", binary())
        .env("MUSTER_TEST_AUDIT", audit())
        .env("MUSTER_TEST_SKIPS", &skips)
        .env("MUSTER_TEST_NOTES", &notes);
    let (mut tally, ended_well) = follow(&mut command)?;
    if !ended_well && tally.failed == 0 {
        // A test binary that did not compile or that died has no result line.
        tally.failed = 1;
    }
    let skipped = told_skips(&skips);
    tally.skipped += skipped;
    tally.passed -= skipped.min(tally.passed);
    Ok((tally, fs::read_to_string(&notes).unwrap_or_default()))
}

/// The binary that comes with the tests of its own package.
fn binary() -> PathBuf {
    process::target().join("debug").join("muster")
}

/// Runs the tests, shows all but the lines of tests that passed, and counts.
fn follow(command: &mut Command) -> Result<(Tally, bool), String> {
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| format!("starting cargo: {e}"))?;
    let mut tally = Tally::default();
    let lines = BufReader::new(child.stdout.take().expect("the output is piped")).lines();
    for line in lines.map_while(Result::ok) {
        if let Some(result) = read_result(&line) {
            tally.add(&result);
        }
        if is_worth_showing(&line) {
            eprintln!("{line}");
        }
    }
    let status = child.wait().map_err(|e| format!("waiting for cargo: {e}"))?;
    Ok((tally, status.success()))
}

fn is_worth_showing(line: &str) -> bool {
    let passed = line.starts_with("test ") && line.ends_with(" ... ok");
    let header = line.starts_with("running ") && line.ends_with(" tests");
    !(passed || header || line.is_empty() || line == "running 1 test")
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn read_result(line: &str) -> Option<Tally> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut tally = Tally::default();
    for part in counts.split("; ") {
        match part.split_once(' ') {
            Some((n, "passed")) => tally.passed = n.parse().ok()?,
            Some((n, "failed")) => tally.failed = n.parse().ok()?,
            Some((n, "ignored")) => tally.skipped = n.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

/// Shows the tests that were skipped, each with its reason; they tell by a line in this file.
fn told_skips(file: &Path) -> usize {
    let told = fs::read_to_string(file).unwrap_or_default();
    for line in told.lines() {
        eprintln!("skipped {line}");
    }
    told.lines().count()
}

#[expect(clippy::print_stdout, reason = "the summary is what this task is asked for")]
fn println_summary(notes: &str, tally: &Tally) {
    print!("{notes}");
    println!("{} passed, {} failed, {} skipped", tally.passed, tally.failed, tally.skipped);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_counted() {
        let line = "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        assert_eq!(read_result(line), Some(Tally { passed: 12, failed: 2, skipped: 1 }));
        assert_eq!(read_result("test a_result ... ok"), None);
    }

    #[test]
    fn only_what_passed_is_left_out() {
        assert!(!is_worth_showing("test a ... ok"));
        assert!(!is_worth_showing("running 3 tests"));
        assert!(is_worth_showing("test a ... FAILED"));
        assert!(is_worth_showing("test a ... ignored, needs a cluster"));
    }
}
