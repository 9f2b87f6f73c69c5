//! `cargo xtask coverage`: the line coverage of the TTL and deadline code by its unit tests.
//!
//! The unit tests are compiled with the compiler's instrumentation into a separate target directory and run; LLVM's tools
//! (downloaded if they are missing) report the executed lines. `cargo xtask test` does not run this task, which compiles the
//! crates and all their dependencies again. `docs/guides/trainjob-figures.md` has the last result.
//!
//! # Guarantees
//!
//! - Test code is not counted, in test files or in test modules.
//! - A source file with functions that is absent from the report is an error: code that is not built is not covered.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::process;

use crate::llvm;

/// Crate, source directory, prefix of its tests' names.
const PARTS: [(&str, &str, &str); 2] =
    [("trainer", "src/controller", "controller::"), ("control", "src/training", "training::")];
/// A skipped test: a memory growth test that takes longer than all others without optimization. Lines that only this test
/// executes count as not covered.
const SKIPPED_TEST: &str = "a_hundred_thousand_that_came_and_went_leave_nothing";
/// The task fails below this coverage.
const COVERAGE_PERCENT_MIN: f64 = 80.0;
/// Overrides of the dev profile for the shortest build.
const PROFILE: [&str; 4] = [
    "profile.dev.debug=false",
    "profile.dev.opt-level=0",
    "profile.dev.package.\"*\".opt-level=0",
    "profile.dev.incremental=false",
];

/// Lines with code, and how many of them the tests executed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LineCounts {
    all: usize,
    run: usize,
}

impl LineCounts {
    fn sum(of: impl Iterator<Item = LineCounts>) -> LineCounts {
        of.fold(LineCounts::default(), |sum, it| LineCounts { all: sum.all + it.all, run: sum.run + it.run })
    }

    fn percent(self) -> f64 {
        100.0 * self.run as f64 / self.all.max(1) as f64
    }
}

/// The task.
#[expect(clippy::print_stdout, reason = "the coverage is the result of this task")]
pub fn task(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("{unknown}: this task takes no arguments"));
    }
    let llvm = llvm::programs()?;
    let profiles_dir = process::target().join("coverage").join("profiles");
    let _ = std::fs::remove_dir_all(&profiles_dir);
    std::fs::create_dir_all(&profiles_dir).map_err(|e| format!("{}: {e}", profiles_dir.display()))?;
    let tests = build(&profiles_dir)?;
    let profiles = run(&tests, &profiles_dir)?;
    let merged = profiles_dir.join("merged");
    let mut merge = Command::new(llvm.join("llvm-profdata"));
    process::output(merge.args(["merge", "--sparse", "-o"]).arg(&merged).args(profiles))?;
    let lines = read(&export(&llvm, &tests, &merged)?);
    let mut files = BTreeMap::new();
    for (name, source, _) in PARTS {
        for path in sources(&package(name).join(source))? {
            files.insert(path.clone(), count(&path, lines.get(&path))?);
        }
    }
    let all = LineCounts::sum(files.values().copied());
    let parts = PARTS.map(|(name, source, _)| {
        let within = package(name).join(source);
        let part = LineCounts::sum(files.iter().filter(|it| it.0.starts_with(&within)).map(|it| *it.1));
        format!("{:.1} % of {} in crates/{name}/{source}", part.percent(), part.all)
    });
    println!("{:.1} % of {} lines ({})", all.percent(), all.all, parts.join(", "));
    if all.percent() > COVERAGE_PERCENT_MIN {
        return Ok(());
    }
    let each = files.iter().map(|(path, lines)| format!("{:>5.1} %  {}", lines.percent(), path.display()));
    Err(format!("below {COVERAGE_PERCENT_MIN} %\n{}", each.collect::<Vec<_>>().join("\n")))
}

fn package(name: &str) -> PathBuf {
    process::root().join("crates").join(name)
}

/// An instrumented test executable.
struct InstrumentedTests {
    executable: PathBuf,
    package: PathBuf,
    /// Only tests with this prefix run.
    filter: &'static str,
}

/// Builds the instrumented tests. Build scripts are instrumented too and write their profiles to `directory`.
fn build(directory: &Path) -> Result<Vec<InstrumentedTests>, String> {
    let mut cargo = process::cargo(["test", "--no-run", "--lib", "--test=main", "--locked", "--quiet"]);
    cargo.args(["--message-format=json", "--target-dir"]).arg(process::target().join("coverage"));
    cargo.args(PROFILE.iter().flat_map(|it| ["--config", it]));
    cargo.args(PARTS.iter().flat_map(|(name, ..)| ["--package".to_owned(), format!("muster-{name}")]));
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "-C instrument-coverage");
    let messages = process::output(cargo.env("LLVM_PROFILE_FILE", directory.join("built")))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| tests_of(&message)).collect())
}

/// Reads a message of cargo about a test executable.
fn tests_of(message: &Value) -> Option<InstrumentedTests> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let filter = PARTS.iter().find(|part| package.ends_with(part.0))?.2;
    Some(InstrumentedTests { executable, package, filter })
}

/// Runs the tests and returns the paths of their profiles. A failed test is an error.
fn run(tests: &[InstrumentedTests], directory: &Path) -> Result<Vec<PathBuf>, String> {
    let run = |(n, tests): (usize, &InstrumentedTests)| {
        let profile = directory.join(format!("{n}.profraw"));
        let mut command = Command::new(&tests.executable);
        command.current_dir(&tests.package).env("LLVM_PROFILE_FILE", &profile);
        process::output(command.arg(tests.filter).args(["--skip", SKIPPED_TEST]))?;
        Ok(profile)
    };
    tests.iter().enumerate().map(run).collect()
}

/// Exports the executed lines as lcov.
fn export(llvm: &Path, tests: &[InstrumentedTests], merged: &Path) -> Result<String, String> {
    let mut command = Command::new(llvm.join("llvm-cov"));
    command.args(["export", "--format=lcov", "--skip-functions", "--instr-profile"]).arg(merged);
    for tests in tests {
        command.arg("--object").arg(&tests.executable);
    }
    command.arg("--sources").args(PARTS.iter().map(|(name, source, _)| package(name).join(source)));
    process::output(&mut command)
}

/// Reads lcov: for every file the execution count of each line with code.
fn read(lcov: &str) -> BTreeMap<PathBuf, BTreeMap<usize, u64>> {
    let mut files: BTreeMap<PathBuf, BTreeMap<usize, u64>> = BTreeMap::new();
    let mut current = PathBuf::new();
    for line in lcov.lines() {
        match line.split_once(':') {
            Some(("SF", path)) => current = PathBuf::from(path),
            Some(("DA", numbers)) => {
                let Some((line, times)) = numbers.split_once(',') else { continue };
                if let (Ok(line), Ok(times)) = (line.parse::<usize>(), times.parse::<u64>()) {
                    *files.entry(current.clone()).or_default().entry(line).or_default() += times;
                }
            }
            _ => {}
        }
    }
    files
}

/// Returns the source files below a directory, without test files.
fn sources(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", directory.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        match path.is_dir() {
            _ if path.file_stem() == Some(OsStr::new("tests")) => {}
            true => all.extend(sources(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

/// Counts the lines of a file, without test code.
fn count(path: &Path, executed: Option<&BTreeMap<usize, u64>>) -> Result<LineCounts, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let is_test = test_lines(&text);
    let has_code = text.lines().enumerate().any(|(n, line)| !is_test[n] && line.contains("fn "));
    if executed.is_none() && has_code {
        return Err(format!("{}: file with functions is absent from the coverage report", path.display()));
    }
    let counts: Vec<u64> =
        executed.into_iter().flatten().filter(|it| !is_test[it.0 - 1]).map(|it| *it.1).collect();
    Ok(LineCounts { all: counts.len(), run: counts.iter().filter(|it| **it > 0).count() })
}

/// Returns for each line whether it is below `#[cfg(test)]`. The source is formatted, so an item ends at the first line of the
/// attribute's indentation that ends with `;` or `}`.
fn test_lines(text: &str) -> Vec<bool> {
    let mut end = None;
    let mark = |line: &str| {
        let depth = line.len() - line.trim_start().len();
        if line.trim() == "#[cfg(test)]" {
            end = Some(depth);
            return true;
        }
        let is_test = end.is_some();
        if end == Some(depth) && (line.ends_with(';') || line.ends_with('}')) {
            end = None;
        }
        is_test
    };
    text.lines().map(mark).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_do_not_count() {
        let text = "use a;\n#[cfg(test)]\nmod tests;\nfn b() {}\nimpl C {\n    #[cfg(test)]\n    fn d() {\n        e();\n    }\n\
            \x20   fn f() {}\n}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let counted: Vec<&str> =
            text.lines().zip(test_lines(text)).filter(|it| !it.1).map(|it| it.0.trim()).collect();
        assert_eq!(counted, ["use a;", "fn b() {}", "impl C {", "fn f() {}", "}"]);
    }

    /// `--skip` with a name that no test has is silently ignored.
    #[test]
    fn sources_and_the_skipped_test_exist() {
        let exists = |(name, source, _): &(&str, &str, _)| package(name).join(source).exists();
        assert!(PARTS.iter().all(exists), "{PARTS:?}");
        let files = PARTS.iter().flat_map(|(name, source, _)| files(&package(name).join(source)));
        let skipped = format!("fn {SKIPPED_TEST}()");
        let has = |path: PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.contains(&skipped));
        assert!(files.into_iter().any(has), "no test {SKIPPED_TEST}");
    }

    fn files(directory: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|it| it.path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn lcov_is_read_per_file() {
        let read = read("SF:/a.rs\nDA:3,0\nDA:4,7\nLH:1\nend_of_record\nSF:/b.rs\nDA:3,1\nend_of_record\n");
        let want = [("/a.rs", vec![(3, 0), (4, 7)]), ("/b.rs", vec![(3, 1)])];
        let want = want.map(|(path, lines)| (PathBuf::from(path), BTreeMap::from_iter(lines)));
        assert_eq!(read, BTreeMap::from(want));
    }
}
