//! `cargo xtask test`: runs formatting, lints, documentation and all tests, as CI does.
//!
//! The workspace is compiled once, with clippy's driver as the compiler: lints need no second compilation. The third-party
//! programs of the tests are provided in parallel. Then four lanes run in parallel: the CPU-bound steps (documentation, unit
//! tests), the black-box functions on real control planes, the other black-box functions, and the scenarios; the last three
//! mostly wait for servers. A failure does not stop the run, so that one run shows all failures.
//!
//! The last line has the totals, in which a step without tests counts as one. The table above it has the seconds of each step.

mod executables;
mod report;
mod selection;
mod suite;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use self::executables::TestExecutable;
use self::report::{TestCounts, TestReport};
use self::selection::TestSelection;
use self::suite::SuiteOptions;
use crate::clients::{self, ProvidedClients};
use xtask::process;

const USAGE: &str = "usage: cargo xtask test [--quick | NAME…]

  no argument   all steps and tests, as CI runs them
  --quick       between edits: formatting, lints, unit tests, fewer simulator seeds, scenarios without a real control plane
  NAME…         tests that match a name: a crate (queue), a suite (units, blackbox, scenarios), scenarios (jobsets/failure), a
                module of the black-box tests (kubectl_get), or a part of a test name";

/// Crates whose documentation must build without warnings: the ones with `missing_docs`.
const DOCUMENTED: [&str; 5] =
    ["muster-api", "muster-tree", "muster-schema", "muster-store", "muster-control"];
/// Threads for black-box functions, which mostly wait.
const BLACK_BOX_THREADS: usize = 12;
/// Modules of black-box functions that use real control planes. libtest starts functions in the order of their names, which
/// puts the longest of these last. In a separate lane all of them start at once and wait for a control plane, which
/// `tests/src/real/slots.rs` assigns to the longest first.
const REAL_MODULES: [&str; 21] = [
    "admission::",
    "certificates::",
    "failover::",
    "gang_cluster::",
    "image::",
    "install::",
    "local::",
    "node::",
    "operator::",
    "outages::",
    "port::",
    "queue_cluster::",
    "queue_scenarios::",
    "queue_visibility::",
    "real_planes::",
    "streams::",
    "takeover::",
    "tenants::",
    "train_cluster::",
    "train_reports::",
    "train_versions::",
];
/// Threads of that lane: more than it has functions that wait for a control plane.
const REAL_THREADS: usize = 64;
/// Simulator seeds with `--quick`.
const QUICK_SEEDS: &str = "8";
/// The Go programs collect garbage less often: real servers are short of CPU. A kube-apiserver that serves one test after the
/// other would grow to 3 GB that way, and 15 of them exhausted the memory of the host; near the limit it collects as often as needed.
const GO_GC: [[&str; 2]; 2] = [["GOGC", "400"], ["GOMEMLIMIT", "1GiB"]];
/// The variable with the reason for skipping tests on real control planes.
const WITHOUT_REAL: &str = "MUSTER_TEST_WITHOUT_REAL";

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    match args {
        [] => TestRun::new().everything(),
        [flag] if flag == "--quick" => TestRun::new().quick(),
        [flag, ..] if flag.starts_with('-') => Err(format!("{flag}: unknown\n{USAGE}")),
        names => TestRun::new().named(&TestSelection::of(names, &process::root())?),
    }
}

/// A test run in progress.
struct TestRun {
    begun: Instant,
    report: Mutex<TestReport>,
}

impl TestRun {
    fn new() -> TestRun {
        TestRun { begun: Instant::now(), report: Mutex::default() }
    }

    fn everything(&self) -> Result<(), String> {
        let (built, provided) = std::thread::scope(|scope| {
            let provided = scope.spawn(|| self.provide());
            self.check("format", &mut process::cargo(["fmt", "--all", "--check"]));
            let built = self.build("lints and compile tests", &mut every_test());
            (built, provided.join().expect("providing programs does not panic"))
        });
        let variables = prepare(&provided)?;
        let all = built.unwrap_or_default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                self.check("documentation", &mut documentation());
                let options = SuiteOptions { variables: variables.clone(), ..SuiteOptions::default() };
                all.iter().filter(|it| !it.is_black_box()).for_each(|it| self.run(it, &options));
            });
            for executable in all.iter().filter(|it| it.is_black_box()) {
                for lane in lanes(executable) {
                    let options = SuiteOptions { variables: variables.clone(), ..lane };
                    scope.spawn(move || self.run(executable, &options));
                }
            }
        });
        self.check_rbac(&provided);
        self.finish()
    }

    fn quick(&self) -> Result<(), String> {
        self.check("format", &mut process::cargo(["fmt", "--all", "--check"]));
        let all = self.build("lints and compile tests", &mut every_test()).unwrap_or_default();
        let mut variables = prepare(&ProvidedClients::default())?;
        variables.push(("MUSTER_SEEDS".to_owned(), QUICK_SEEDS.to_owned()));
        variables.push((WITHOUT_REAL.to_owned(), "skipped by --quick".to_owned()));
        let wanted = |it: &&TestExecutable| !it.is_black_box() || it.is_scenarios();
        std::thread::scope(|scope| {
            for executable in all.iter().filter(wanted).filter(|it| it.is_black_box()) {
                let options = SuiteOptions { variables: variables.clone(), ..black_box(executable) };
                scope.spawn(move || self.run(executable, &options));
            }
            let options = SuiteOptions { variables: variables.clone(), ..SuiteOptions::default() };
            all.iter().filter(|it| !it.is_black_box()).for_each(|it| self.run(it, &options));
        });
        self.finish()
    }

    fn named(&self, wanted: &TestSelection) -> Result<(), String> {
        let provided = match (&wanted.black_box, &wanted.scenarios) {
            (Some(_), _) => self.provide(),
            (None, Some(_)) => self.provide_only(clients::kubernetes),
            (None, None) => ProvidedClients::default(),
        };
        let variables = prepare(&provided)?;
        for (package, filters) in &wanted.packages {
            let mut cargo = process::linting_cargo(["test", "--locked", "--package", package]);
            if package == selection::BLACK_BOX_PACKAGE {
                cargo.arg("--lib");
            }
            for executable in self.build(&format!("compile {package}"), &mut cargo).unwrap_or_default() {
                let options = SuiteOptions {
                    filters: filters.clone(),
                    variables: variables.clone(),
                    ..SuiteOptions::default()
                };
                self.run(&executable, &options);
            }
        }
        for (target, filters) in [("main", &wanted.black_box), ("scenarios", &wanted.scenarios)] {
            let Some(filters) = filters else { continue };
            let built = self.build(&format!("compile {target}"), &mut black_box_tests(target));
            for executable in built.unwrap_or_default().iter().filter(|it| it.is_black_box()) {
                let options = SuiteOptions {
                    filters: filters.clone(),
                    variables: variables.clone(),
                    ..black_box(executable)
                };
                self.run(executable, &options);
            }
        }
        let ran = self.lock().tests.len();
        self.finish()?;
        if ran == 0 { Err("no test matches".to_owned()) } else { Ok(()) }
    }

    fn provide(&self) -> ProvidedClients {
        self.provide_only(clients::provide)
    }

    fn provide_only(&self, provide: impl Fn() -> ProvidedClients) -> ProvidedClients {
        let begun = Instant::now();
        let provided = provide();
        let count = if provided.unexpected().is_empty() { TestCounts::PASSED } else { TestCounts::FAILED };
        for (name, reason) in provided.unexpected() {
            eprintln!(
                "FAILED programs for the tests: {name} cannot be provided, and CI requires it: {reason}"
            );
        }
        self.lock().step("programs for the tests", begun.elapsed(), count);
        provided
    }

    /// Runs a step without tests.
    fn check(&self, name: &str, command: &mut Command) {
        eprintln!("== {name}");
        let begun = Instant::now();
        let result = process::run(command);
        if let Err(problem) = &result {
            eprintln!("FAILED {name}: {problem}");
        }
        self.lock().step(name, begun.elapsed(), TestCounts::of(&result));
    }

    /// Compiles tests. The step counts only if it fails: successful builds are counted by their tests.
    fn build(&self, name: &str, command: &mut Command) -> Option<Vec<TestExecutable>> {
        eprintln!("== {name}");
        let begun = Instant::now();
        let built = executables::build(command).map_err(|problem| eprintln!("FAILED {name}: {problem}"));
        let count = if built.is_ok() { TestCounts::default() } else { TestCounts::FAILED };
        self.lock().step(name, begun.elapsed(), count);
        built.ok()
    }

    fn run(&self, executable: &TestExecutable, options: &SuiteOptions) {
        let ran = suite::run(executable, options);
        // A crate without tests gets no line in the table.
        if ran.step.count == TestCounts::default() {
            return;
        }
        let mut report = self.lock();
        report.steps.push(ran.step);
        report.tests.extend(ran.tests);
    }

    /// Compares the RBAC roles of `muster install` with the requests that operators sent during the tests.
    fn check_rbac(&self, provided: &ProvidedClients) {
        let logged = fs::read_dir(audit_dir()).is_ok_and(|mut entries| entries.next().is_some());
        match provided.missing(clients::KUBERNETES) {
            Some(reason) if !logged => {
                eprintln!("skipped the comparison of RBAC roles: {reason}");
                self.lock().step("rights", Duration::ZERO, TestCounts::SKIPPED);
            }
            _ => match crate::codegen("rights") {
                Ok(mut codegen) => self.check("rights", codegen.arg(audit_dir()).arg(binary())),
                Err(problem) => {
                    eprintln!("FAILED rights: {problem}");
                    self.lock().step("rights", Duration::ZERO, TestCounts::FAILED);
                }
            },
        }
    }

    #[expect(clippy::print_stdout, reason = "the summary is the result of this task")]
    fn finish(&self) -> Result<(), String> {
        let mut report = self.lock();
        report.notes = fs::read_to_string(target_file("notes-of-tests.txt")).unwrap_or_default();
        let (elapsed, total) = (self.begun.elapsed(), report.total());
        let file = target_file("test-times.json");
        fs::write(&file, format!("{:#}\n", report.json(elapsed)))
            .map_err(|e| format!("{}: {e}", file.display()))?;
        print!("{}\n{}", report.notes, report.table(elapsed));
        println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
        if total.failed == 0 { Ok(()) } else { Err("tests failed".to_owned()) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TestReport> {
        self.report.lock().expect("no lane panics while it holds the report")
    }
}

/// Builds all test executables, the programs that tests start, and the examples, which are only linted.
fn every_test() -> Command {
    process::linting_cargo(["test", "--workspace", "--locked", "--lib", "--bins", "--tests", "--examples"])
}

/// Builds one target of the black-box tests and the programs that its tests start. The whole workspace is named: one package
/// alone would be built with other features of its dependencies.
fn black_box_tests(target: &str) -> Command {
    // `up` is a test of the package `muster`: for it cargo builds the binary that the black-box tests start.
    process::linting_cargo(["test", "--workspace", "--locked", "--test", "up", "--test", target])
}

fn documentation() -> Command {
    let mut docs = process::cargo(["doc", "--locked", "--no-deps", "--quiet"]);
    docs.args(DOCUMENTED.iter().flat_map(|name| ["--package", name])).env("RUSTDOCFLAGS", "-D warnings");
    docs
}

/// Returns the options of an executable. Scenarios have no thread limit here: they choose their concurrency by what each
/// needs.
fn black_box(executable: &TestExecutable) -> SuiteOptions {
    SuiteOptions {
        threads: (!executable.is_scenarios()).then_some(BLACK_BOX_THREADS),
        ..SuiteOptions::default()
    }
}

/// Returns the options of the parallel runs of one executable with black-box tests.
fn lanes(executable: &TestExecutable) -> Vec<SuiteOptions> {
    if executable.is_scenarios() {
        return vec![black_box(executable)];
    }
    let real: Vec<String> = REAL_MODULES.map(str::to_owned).into();
    vec![
        SuiteOptions {
            filters: real.clone(),
            threads: Some(REAL_THREADS),
            lane: ", real planes",
            ..SuiteOptions::default()
        },
        SuiteOptions { skips: real, ..black_box(executable) },
    ]
}

/// Removes the files of an earlier run and returns the environment variables for the tests.
fn prepare(provided: &ProvidedClients) -> Result<Vec<(String, String)>, String> {
    let notes = target_file("notes-of-tests.txt");
    let _ = fs::remove_file(&notes);
    let _ = fs::remove_dir_all(audit_dir());
    fs::create_dir_all(audit_dir()).map_err(|e| format!("{}: {e}", audit_dir().display()))?;
    let paths =
        [("MUSTER_TEST_BINARY", binary()), ("MUSTER_TEST_AUDIT", audit_dir()), ("MUSTER_TEST_NOTES", notes)];
    let paths = paths.into_iter().map(|(name, path)| (name.to_owned(), path.display().to_string()));
    Ok(provided
        .variables()
        .into_iter()
        .chain(paths)
        .chain(GO_GC.map(|[name, value]| (name.to_owned(), value.to_owned())))
        .collect())
}

/// Returns the directory of the audit logs of real API servers.
fn audit_dir() -> PathBuf {
    target_file("audit-of-tests")
}

fn target_file(name: &str) -> PathBuf {
    process::target().join(name)
}

/// Returns the binary that cargo builds with the tests of its package.
fn binary() -> PathBuf {
    process::target().join("debug").join("muster")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the other lane such a module would run last and start control planes of its own.
    #[test]
    fn modules_with_real_control_planes_are_in_their_lane() {
        const MARKERS: [&str; 4] = [
            "real::missing()",
            "QueueFixture::real(",
            "ServerPair::admitting_jobsets(",
            "TenantNamespace::new(",
        ];
        let directory = process::root().join("tests/tests");
        let mut found = Vec::new();
        for entry in fs::read_dir(&directory).expect("a directory with tests") {
            let path = entry.expect("a directory entry").path();
            let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // A module may be a file, a directory, or both.
            let files = if path.is_dir() {
                fs::read_dir(&path).expect("a directory").flatten().map(|it| it.path()).collect()
            } else {
                vec![path]
            };
            let text: String = files.iter().filter_map(|it| fs::read_to_string(it).ok()).collect();
            if MARKERS.iter().any(|marker| text.contains(marker)) {
                found.push(format!("{module}::"));
            }
        }
        found.sort();
        found.dedup();
        assert_eq!(found, REAL_MODULES);
    }
}
