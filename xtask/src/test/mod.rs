//! `cargo xtask test`: what CI runs. Format, lints, documentation and every test.
//!
//! Everything is compiled once, with clippy's driver as the compiler of the workspace: lints cost no second compilation.
//! Programs that the tests need are provided meanwhile. Then four lanes run side by side: what
//! needs the processor (documentation, unit tests), the black-box functions on real planes, the other black-box functions, and
//! the scenarios; the last three mostly wait for servers. A failure does not stop the run, so that one run shows everything.
//!
//! The last line counts; a step without tests of its own counts as one. The table above it has the seconds of each part.

mod executables;
mod report;
mod selection;
mod suite;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use self::executables::Executable;
use self::report::{Count, Report};
use self::selection::Selection;
use self::suite::Setup;
use crate::clients::{self, Provided};
use xtask::process;

const USAGE: &str = "usage: cargo xtask test [--quick | NAME…]

  no argument   everything: what CI runs
  --quick       between edits: format, lints, unit tests, fewer seeds of the simulator, scenarios without a real plane
  NAME…         what the names match: a crate (queue), a suite (units, blackbox, scenarios), scenarios (jobsets/failure), a
                module of the black-box tests (kubectl_get), or a part of the name of a test";

/// Crates whose documentation has readers outside of them.
const DOCUMENTED: [&str; 5] =
    ["muster-api", "muster-tree", "muster-schema", "muster-store", "muster-control"];
/// Black-box functions at the same time: they mostly wait.
const BLACK_BOX_THREADS: usize = 12;
/// Modules of black-box functions that use real planes. libtest runs functions in the order of their names, which puts the
/// longest of these last; in a lane of their own all of them begin at once and wait for a plane, the longest first
/// (`tests/src/real/slots.rs`).
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
/// Threads of that lane: more than it has functions that wait for a plane.
const REAL_THREADS: usize = 64;
/// Seeds of the simulator between edits.
const QUICK_SEEDS: &str = "8";
/// The programs of Kubernetes collect garbage less often: real planes are short of processor time, not of memory.
const GO_COLLECTS_RARELY: [&str; 2] = ["GOGC", "400"];
/// The variable with the reason why tests do without a real plane.
const WITHOUT_REAL: &str = "MUSTER_TEST_WITHOUT_REAL";

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    match args {
        [] => Run::new().everything(),
        [flag] if flag == "--quick" => Run::new().quick(),
        [flag, ..] if flag.starts_with('-') => Err(format!("{flag}: unknown\n{USAGE}")),
        names => Run::new().named(&Selection::of(names, &process::root())?),
    }
}

/// A run under way.
struct Run {
    begun: Instant,
    report: Mutex<Report>,
}

impl Run {
    fn new() -> Run {
        Run { begun: Instant::now(), report: Mutex::default() }
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
                let setup = Setup { variables: variables.clone(), ..Setup::default() };
                all.iter().filter(|it| !it.is_black_box()).for_each(|it| self.run(it, &setup));
            });
            for executable in all.iter().filter(|it| it.is_black_box()) {
                for lane in lanes(executable) {
                    let setup = Setup { variables: variables.clone(), ..lane };
                    scope.spawn(move || self.run(executable, &setup));
                }
            }
        });
        self.rights(&provided);
        self.finish()
    }

    fn quick(&self) -> Result<(), String> {
        self.check("format", &mut process::cargo(["fmt", "--all", "--check"]));
        let all = self.build("lints and compile tests", &mut every_test()).unwrap_or_default();
        let mut variables = prepare(&Provided::default())?;
        variables.push(("MUSTER_SEEDS".to_owned(), QUICK_SEEDS.to_owned()));
        variables.push((WITHOUT_REAL.to_owned(), "left out by --quick".to_owned()));
        let wanted = |it: &&Executable| !it.is_black_box() || it.is_scenarios();
        std::thread::scope(|scope| {
            for executable in all.iter().filter(wanted).filter(|it| it.is_black_box()) {
                let setup = Setup { variables: variables.clone(), ..black_box(executable) };
                scope.spawn(move || self.run(executable, &setup));
            }
            let setup = Setup { variables: variables.clone(), ..Setup::default() };
            all.iter().filter(|it| !it.is_black_box()).for_each(|it| self.run(it, &setup));
        });
        self.finish()
    }

    fn named(&self, wanted: &Selection) -> Result<(), String> {
        let provided = match (&wanted.black_box, &wanted.scenarios) {
            (Some(_), _) => self.provide(),
            (None, Some(_)) => self.provide_only(clients::kubernetes),
            (None, None) => Provided::default(),
        };
        let variables = prepare(&provided)?;
        for (package, filters) in &wanted.packages {
            let mut cargo = process::linting_cargo(["test", "--locked", "--package", package]);
            if package == selection::BLACK_BOX_PACKAGE {
                cargo.arg("--lib");
            }
            for executable in self.build(&format!("compile {package}"), &mut cargo).unwrap_or_default() {
                let setup =
                    Setup { filters: filters.clone(), variables: variables.clone(), ..Setup::default() };
                self.run(&executable, &setup);
            }
        }
        for (target, filters) in [("main", &wanted.black_box), ("scenarios", &wanted.scenarios)] {
            let Some(filters) = filters else { continue };
            let built = self.build(&format!("compile {target}"), &mut black_box_tests(target));
            for executable in built.unwrap_or_default().iter().filter(|it| it.is_black_box()) {
                let setup =
                    Setup { filters: filters.clone(), variables: variables.clone(), ..black_box(executable) };
                self.run(executable, &setup);
            }
        }
        let ran = self.lock().tests.len();
        self.finish()?;
        if ran == 0 { Err("no test has such a name".to_owned()) } else { Ok(()) }
    }

    fn provide(&self) -> Provided {
        self.provide_only(clients::provide)
    }

    fn provide_only(&self, provide: impl Fn() -> Provided) -> Provided {
        let begun = Instant::now();
        let provided = provide();
        let count = if provided.unexpected().is_empty() { Count::PASSED } else { Count::FAILED };
        for (name, reason) in provided.unexpected() {
            eprintln!("FAILED programs for the tests: {name} cannot be provided, and CI needs it: {reason}");
        }
        self.lock().part("programs for the tests", begun.elapsed(), count);
        provided
    }

    /// A step without tests of its own.
    fn check(&self, name: &str, command: &mut Command) {
        eprintln!("== {name}");
        let begun = Instant::now();
        let result = process::run(command);
        if let Err(problem) = &result {
            eprintln!("FAILED {name}: {problem}");
        }
        self.lock().part(name, begun.elapsed(), Count::of(&result));
    }

    /// Compiles, which counts only if it fails: what compiles is counted by its tests.
    fn build(&self, name: &str, command: &mut Command) -> Option<Vec<Executable>> {
        eprintln!("== {name}");
        let begun = Instant::now();
        let built = executables::build(command).map_err(|problem| eprintln!("FAILED {name}: {problem}"));
        let count = if built.is_ok() { Count::default() } else { Count::FAILED };
        self.lock().part(name, begun.elapsed(), count);
        built.ok()
    }

    fn run(&self, executable: &Executable, setup: &Setup) {
        let ran = suite::run(executable, setup);
        // Crates without tests would only lengthen the table.
        if ran.part.count == Count::default() {
            return;
        }
        let mut report = self.lock();
        report.parts.push(ran.part);
        report.tests.extend(ran.tests);
    }

    /// Compares the roles of `muster install` with the requests that operators sent while the tests ran.
    fn rights(&self, provided: &Provided) {
        let logged = fs::read_dir(audit()).is_ok_and(|mut entries| entries.next().is_some());
        match provided.missing(clients::KUBERNETES) {
            Some(reason) if !logged => {
                eprintln!("skipped the comparison of rights: {reason}");
                self.lock().part("rights", Duration::ZERO, Count::SKIPPED);
            }
            _ => match crate::codegen("rights") {
                Ok(mut codegen) => self.check("rights", codegen.arg(audit()).arg(binary())),
                Err(problem) => {
                    eprintln!("FAILED rights: {problem}");
                    self.lock().part("rights", Duration::ZERO, Count::FAILED);
                }
            },
        }
    }

    #[expect(clippy::print_stdout, reason = "the summary is the result of this task")]
    fn finish(&self) -> Result<(), String> {
        let mut report = self.lock();
        report.notes = fs::read_to_string(list("notes-of-tests.txt")).unwrap_or_default();
        let (elapsed, total) = (self.begun.elapsed(), report.total());
        let file = list("test-times.json");
        fs::write(&file, format!("{:#}\n", report.json(elapsed)))
            .map_err(|e| format!("{}: {e}", file.display()))?;
        print!("{}\n{}", report.notes, report.table(elapsed));
        println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
        if total.failed == 0 { Ok(()) } else { Err("not everything passed".to_owned()) }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().expect("no lane panics while it holds the report")
    }
}

/// Every executable with tests, the programs that tests start, and the examples, which are only linted.
fn every_test() -> Command {
    process::linting_cargo(["test", "--workspace", "--locked", "--lib", "--bins", "--tests", "--examples"])
}

/// The black-box tests of this target and what they start. The whole workspace is named: one package alone would be built
/// with other features of its dependencies.
fn black_box_tests(target: &str) -> Command {
    // `up` is a test of the package `muster`: with it cargo builds the binary that the tests start.
    process::linting_cargo(["test", "--workspace", "--locked", "--test", "up", "--test", target])
}

fn documentation() -> Command {
    let mut docs = process::cargo(["doc", "--locked", "--no-deps", "--quiet"]);
    docs.args(DOCUMENTED.iter().flat_map(|name| ["--package", name])).env("RUSTDOCFLAGS", "-D warnings");
    docs
}

/// Scenarios choose how many run at the same time by what each needs.
fn black_box(executable: &Executable) -> Setup {
    Setup { threads: (!executable.is_scenarios()).then_some(BLACK_BOX_THREADS), ..Setup::default() }
}

/// The runs of an executable with black-box tests that go on side by side.
fn lanes(executable: &Executable) -> Vec<Setup> {
    if executable.is_scenarios() {
        return vec![black_box(executable)];
    }
    let real: Vec<String> = REAL_MODULES.map(str::to_owned).into();
    vec![
        Setup {
            filters: real.clone(),
            threads: Some(REAL_THREADS),
            lane: ", real planes",
            ..Setup::default()
        },
        Setup { skips: real, ..black_box(executable) },
    ]
}

/// Removes what an earlier run has left; the variables that the tests get.
fn prepare(provided: &Provided) -> Result<Vec<(String, String)>, String> {
    let notes = list("notes-of-tests.txt");
    let _ = fs::remove_file(&notes);
    let _ = fs::remove_dir_all(audit());
    fs::create_dir_all(audit()).map_err(|e| format!("{}: {e}", audit().display()))?;
    let paths =
        [("MUSTER_TEST_BINARY", binary()), ("MUSTER_TEST_AUDIT", audit()), ("MUSTER_TEST_NOTES", notes)];
    let paths = paths.into_iter().map(|(name, path)| (name.to_owned(), path.display().to_string()));
    Ok(provided
        .variables()
        .into_iter()
        .chain(paths)
        .chain([GO_COLLECTS_RARELY.map(str::to_owned).into()])
        .collect())
}

/// Where real servers log what operators request of them.
fn audit() -> PathBuf {
    list("audit-of-tests")
}

fn list(name: &str) -> PathBuf {
    process::target().join(name)
}

/// The binary that comes with the tests of its own package.
fn binary() -> PathBuf {
    process::target().join("debug").join("muster")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that uses a real plane in the other lane would run last and start planes of its own.
    #[test]
    fn the_modules_with_real_planes_are_in_their_lane() {
        const WORDS: [&str; 4] = ["real::missing()", "Stage::real(", "Planes::jobsets(", "Space::new("];
        let folder = process::root().join("tests/tests");
        let mut found = Vec::new();
        for entry in fs::read_dir(&folder).expect("a folder with tests") {
            let path = entry.expect("an entry").path();
            let module = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            // A module may be a file, a folder, or both.
            let files = if path.is_dir() {
                fs::read_dir(&path).expect("a folder").flatten().map(|it| it.path()).collect()
            } else {
                vec![path]
            };
            let text: String = files.iter().filter_map(|it| fs::read_to_string(it).ok()).collect();
            if WORDS.iter().any(|word| text.contains(word)) {
                found.push(format!("{module}::"));
            }
        }
        found.sort();
        found.dedup();
        assert_eq!(found, REAL_MODULES);
    }
}
