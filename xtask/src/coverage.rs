//! `cargo xtask coverage`: how much of the code of TTL and deadline its unit tests run through.
//!
//! The unit tests of that code are compiled with the compiler's instrumentation into a target folder of their own and run;
//! LLVM's programs (provided if they are missing) read which lines were executed. It is no part of `cargo xtask test`: it
//! compiles the crates and all their dependencies once more. The last figure stands in
//! `docs/guides/trainjob-figures.md`.
//!
//! # Guarantees
//!
//! - Lines of tests do not count, neither in files of their own nor at the end of others.
//! - A source file with functions that is absent from the report is an error: what is not built is not covered.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xtask::process;

use crate::llvm;

/// The crates that have that code: where it is, and how the names of its tests begin.
const PARTS: [(&str, &str, &str); 2] =
    [("trainer", "src/life", "life::"), ("control", "src/training", "training::")];
/// A test of growth: without optimisation it takes longer than all the others. Lines that it alone comes through count as missed.
const LEFT_OUT: &str = "a_hundred_thousand_that_came_and_went_leave_nothing";
/// What must be covered of all lines, in percent.
const COVERED_MIN: f64 = 80.0;
/// Everything is built as fast as can be.
const PROFILE: [&str; 4] = [
    "profile.dev.debug=false",
    "profile.dev.opt-level=0",
    "profile.dev.package.\"*\".opt-level=0",
    "profile.dev.incremental=false",
];
/// Lines with code, and how many of them were run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Lines {
    all: usize,
    run: usize,
}

impl Lines {
    fn sum(of: impl Iterator<Item = Lines>) -> Lines {
        of.fold(Lines::default(), |sum, it| Lines { all: sum.all + it.all, run: sum.run + it.run })
    }

    fn percent(self) -> f64 {
        100.0 * self.run as f64 / self.all.max(1) as f64
    }
}

/// The task.
#[expect(clippy::print_stdout, reason = "the figure is the result of this task")]
pub fn task(args: &[String]) -> Result<(), String> {
    if let Some(unknown) = args.first() {
        return Err(format!("{unknown}: this task takes no arguments"));
    }
    let llvm = llvm::programs()?;
    let folder = process::target().join("coverage").join("profiles");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let tests = build(&folder)?;
    let profiles = run(&tests, &folder)?;
    let merged = folder.join("merged");
    let mut merge = Command::new(llvm.join("llvm-profdata"));
    process::output(merge.args(["merge", "--sparse", "-o"]).arg(&merged).args(profiles))?;
    let lines = read(&export(&llvm, &tests, &merged)?);
    let mut files = BTreeMap::new();
    for (name, source, _) in PARTS {
        for path in sources(&package(name).join(source))? {
            files.insert(path.clone(), count(&path, lines.get(&path))?);
        }
    }
    let all = Lines::sum(files.values().copied());
    let parts = PARTS.map(|(name, source, _)| {
        let within = package(name).join(source);
        let part = Lines::sum(files.iter().filter(|it| it.0.starts_with(&within)).map(|it| *it.1));
        format!("{:.1} % of {} in crates/{name}/{source}", part.percent(), part.all)
    });
    println!("{:.1} % of {} lines ({})", all.percent(), all.all, parts.join(", "));
    if all.percent() > COVERED_MIN {
        return Ok(());
    }
    let each = files.iter().map(|(path, lines)| format!("{:>5.1} %  {}", lines.percent(), path.display()));
    Err(format!("below {COVERED_MIN} %\n{}", each.collect::<Vec<_>>().join("\n")))
}

fn package(name: &str) -> PathBuf {
    process::root().join("crates").join(name)
}

/// A program with its tests, the package that they are of, and how the names of those begin that are wanted.
struct Tests {
    executable: PathBuf,
    package: PathBuf,
    wanted: &'static str,
}

/// Builds the instrumented tests; programs that run during the build are instrumented too and leave their profiles in
/// `folder`.
fn build(folder: &Path) -> Result<Vec<Tests>, String> {
    let mut cargo = process::cargo(["test", "--no-run", "--lib", "--test=main", "--locked", "--quiet"]);
    cargo.args(["--message-format=json", "--target-dir"]).arg(process::target().join("coverage"));
    cargo.args(PROFILE.iter().flat_map(|it| ["--config", it]));
    cargo.args(PARTS.iter().flat_map(|(name, ..)| ["--package".to_owned(), format!("muster-{name}")]));
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "-C instrument-coverage");
    let messages = process::output(cargo.env("LLVM_PROFILE_FILE", folder.join("built")))?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(messages.filter_map(|message| tests_of(&message)).collect())
}

/// Reads a message of cargo about an executable with tests.
fn tests_of(message: &Value) -> Option<Tests> {
    let executable = PathBuf::from(message["executable"].as_str()?);
    let package = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let wanted = PARTS.iter().find(|part| package.ends_with(part.0))?.2;
    Some(Tests { executable, package, wanted })
}

/// Runs the tests, which must pass; the profiles that they leave.
fn run(tests: &[Tests], folder: &Path) -> Result<Vec<PathBuf>, String> {
    let run = |(n, tests): (usize, &Tests)| {
        let profile = folder.join(format!("{n}.profraw"));
        let mut command = Command::new(&tests.executable);
        command.current_dir(&tests.package).env("LLVM_PROFILE_FILE", &profile);
        process::output(command.arg(tests.wanted).args(["--skip", LEFT_OUT]))?;
        Ok(profile)
    };
    tests.iter().enumerate().map(run).collect()
}

/// Which lines were executed, in lcov's format.
fn export(llvm: &Path, tests: &[Tests], merged: &Path) -> Result<String, String> {
    let mut command = Command::new(llvm.join("llvm-cov"));
    command.args(["export", "--format=lcov", "--skip-functions", "--instr-profile"]).arg(merged);
    for tests in tests {
        command.arg("--object").arg(&tests.executable);
    }
    command.arg("--sources").args(PARTS.iter().map(|(name, source, _)| package(name).join(source)));
    process::output(&mut command)
}

/// For every file the lines that have code, and how often each was run.
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

/// The source files below a folder, without those of tests.
fn sources(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", folder.display());
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        match path.is_dir() {
            _ if path.file_stem() == Some(OsStr::new("tests")) => {}
            true => all.extend(sources(&path)?),
            false => all.push(path),
        }
    }
    Ok(all)
}

/// The lines of a file that count.
fn count(path: &Path, executed: Option<&BTreeMap<usize, u64>>) -> Result<Lines, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let of_tests = lines_of_tests(&text);
    let has_code = text.lines().enumerate().any(|(n, line)| !of_tests[n] && line.contains("fn "));
    if executed.is_none() && has_code {
        return Err(format!("{}: it has functions and is absent from the report", path.display()));
    }
    let counts: Vec<u64> =
        executed.into_iter().flatten().filter(|it| !of_tests[it.0 - 1]).map(|it| *it.1).collect();
    Ok(Lines { all: counts.len(), run: counts.iter().filter(|it| **it > 0).count() })
}

/// Which lines are only there for tests: what `#[cfg(test)]` is said of, as the formatter leaves it: up to the end of the
/// statement, or to the brace below that of its beginning.
fn lines_of_tests(text: &str) -> Vec<bool> {
    let mut end = None;
    let mark = |line: &str| {
        let depth = line.len() - line.trim_start().len();
        if line.trim() == "#[cfg(test)]" {
            end = Some(depth);
            return true;
        }
        let of_tests = end.is_some();
        if end == Some(depth) && (line.ends_with(';') || line.ends_with('}')) {
            end = None;
        }
        of_tests
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
            text.lines().zip(lines_of_tests(text)).filter(|it| !it.1).map(|it| it.0.trim()).collect();
        assert_eq!(counted, ["use a;", "fn b() {}", "impl C {", "fn f() {}", "}"]);
    }

    #[test]
    fn lines_are_read_file_by_file() {
        let read = read("SF:/a.rs\nDA:3,0\nDA:4,7\nLH:1\nend_of_record\nSF:/b.rs\nDA:3,1\nend_of_record\n");
        let want = [("/a.rs", vec![(3, 0), (4, 7)]), ("/b.rs", vec![(3, 1)])];
        let want = want.map(|(path, lines)| (PathBuf::from(path), BTreeMap::from_iter(lines)));
        assert_eq!(read, BTreeMap::from(want));
    }
}
