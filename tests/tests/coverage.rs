//! How much of the code of time to live and deadline its unit tests run through.
//!
//! The tests of that code, and no others, are built anew with the compiler's own instruments, in a target folder of their
//! own, and run; LLVM's programs (`cargo xtask clients llvm`) tell which lines they came through. Nothing is optimised and
//! nothing can be debugged: building is all that this costs.
//!
//! # Invariants
//!
//! - Lines of tests do not count, neither in files of their own nor at the end of others.
//! - A file with functions of which nothing is told is an error: what is not built is not covered.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use muster_tests::clients::{note, program};
use muster_tree::Tree;

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
/// What cargo told these very tests: build scripts that read it would run again whenever it changes.
const OF_THESE_TESTS: [&str; 2] = ["CARGO_PKG_", "CARGO_MANIFEST_"];

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

/// Shows: 2899-61.
#[test]
fn unit_tests_cover_time_to_live_and_deadline() {
    let Some(llvm) = program("MUSTER_TEST_LLVM", "unit_tests_cover_time_to_live_and_deadline") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let tests = build(folder.path());
    let profiles = run(&tests, folder.path());
    let merged = folder.path().join("merged");
    output(
        Command::new(llvm.join("llvm-profdata"))
            .args(["merge", "--sparse", "-o"])
            .arg(&merged)
            .args(profiles),
    );
    let told = read(&export(&llvm, &tests, &merged));
    let mut files = BTreeMap::new();
    for (name, source, _) in PARTS {
        for path in sources(&package(name).join(source)) {
            files.insert(path.clone(), count(&path, told.get(&path)));
        }
    }
    let all = Lines::sum(files.values().copied());
    let parts = PARTS.map(|(name, source, _)| {
        let within = package(name).join(source);
        let part = Lines::sum(files.iter().filter(|it| it.0.starts_with(&within)).map(|it| *it.1));
        format!("{:.1} % of {} in crates/{name}/{source}", part.percent(), part.all)
    });
    let figure = format!("{:.1} % of {} lines ({})", all.percent(), all.all, parts.join(", "));
    note(&format!("unit tests of time to live and deadline cover {figure}"));
    assert!(all.percent() > COVERED_MIN, "{figure}\n{files:#?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn package(name: &str) -> PathBuf {
    root().join("crates").join(name)
}

/// A program with its tests, the package that they are of, and how the names of those begin that are wanted.
struct Tests {
    executable: PathBuf,
    package: PathBuf,
    wanted: &'static str,
}

/// Builds the tests; programs that are run meanwhile have instruments as well, and leave what those tell in `folder`.
fn build(folder: &Path) -> Vec<Tests> {
    // Other tests wait for their servers beside this.
    let mut command = Command::new("nice");
    command.arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())).current_dir(root());
    command.args([
        "test",
        "--no-run",
        "--lib",
        "--test=main",
        "--locked",
        "--quiet",
        "--message-format=json",
        "--target-dir",
    ]);
    command.arg(root().join("target").join("coverage"));
    command.args(PROFILE.iter().flat_map(|it| ["--config", it]));
    command.args(PARTS.iter().flat_map(|(name, ..)| ["--package".to_owned(), format!("muster-{name}")]));
    command.env_remove("CARGO_ENCODED_RUSTFLAGS").env("RUSTFLAGS", "-C instrument-coverage");
    command.env("LLVM_PROFILE_FILE", folder.join("built"));
    let ours =
        |name: &OsStr| name.to_str().is_some_and(|it| OF_THESE_TESTS.iter().any(|of| it.starts_with(of)));
    for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    let told = output(&mut command);
    told.lines().filter_map(|line| tests_of(&Tree::parse(line.as_bytes()).unwrap())).collect()
}

/// What cargo says of a program with tests.
fn tests_of(message: &Tree) -> Option<Tests> {
    let executable = message.str_at(&["executable"]);
    let package = Path::new(message.str_at(&["manifest_path"])).parent()?.to_path_buf();
    let wanted = PARTS.iter().find(|part| package.ends_with(part.0))?.2;
    (!executable.is_empty()).then(|| Tests { executable: PathBuf::from(executable), package, wanted })
}

/// Runs them, which must go well; what their instruments told.
fn run(tests: &[Tests], folder: &Path) -> Vec<PathBuf> {
    let run = |(n, tests): (usize, &Tests)| {
        let profile = folder.join(format!("{n}.profraw"));
        let mut command = Command::new(&tests.executable);
        command.current_dir(&tests.package).env("LLVM_PROFILE_FILE", &profile);
        output(command.arg(tests.wanted).args(["--skip", LEFT_OUT]));
        profile
    };
    tests.iter().enumerate().map(run).collect()
}

/// What was run, in the words of lcov: for every file its lines.
fn export(llvm: &Path, tests: &[Tests], merged: &Path) -> String {
    let mut command = Command::new(llvm.join("llvm-cov"));
    command.args(["export", "--format=lcov", "--skip-functions", "--instr-profile"]).arg(merged);
    for tests in tests {
        command.arg("--object").arg(&tests.executable);
    }
    output(command.arg("--sources").args(PARTS.iter().map(|(name, source, _)| package(name).join(source))))
}

fn output(command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{err}");
    out.into_owned()
}

/// For every file the lines that have code, and how often each was run.
fn read(lcov: &str) -> BTreeMap<PathBuf, BTreeMap<usize, u64>> {
    let mut files: BTreeMap<PathBuf, BTreeMap<usize, u64>> = BTreeMap::new();
    let mut current = PathBuf::new();
    for line in lcov.lines() {
        match line.split_once(':') {
            Some(("SF", path)) => current = PathBuf::from(path),
            Some(("DA", told)) => {
                let mut numbers = told.split(',').map(|it| it.parse::<u64>().unwrap());
                let (line, times) = (numbers.next().unwrap(), numbers.next().unwrap());
                *files.entry(current.clone()).or_default().entry(line as usize).or_default() += times;
            }
            _ => {}
        }
    }
    files
}

/// The files with code below a folder, without those of tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem() == Some(OsStr::new("tests")) {
            continue;
        }
        match path.is_dir() {
            true => all.extend(sources(&path)),
            false => all.push(path),
        }
    }
    all
}

/// The lines of a file that count.
fn count(path: &Path, told: Option<&BTreeMap<usize, u64>>) -> Lines {
    let text = std::fs::read_to_string(path).unwrap();
    let of_tests = lines_of_tests(&text);
    let has_code = text.lines().enumerate().any(|(n, line)| !of_tests[n] && line.contains("fn "));
    assert!(told.is_some() || !has_code, "{}: it has functions, of which nothing is told", path.display());
    let counts: Vec<u64> =
        told.into_iter().flatten().filter(|it| !of_tests[it.0 - 1]).map(|it| *it.1).collect();
    Lines { all: counts.len(), run: counts.iter().filter(|it| **it > 0).count() }
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
