//! Every scenario of the YAML folders as a test: `DIALECT/FILE/PLANE/sentence`.
//!
//! `cargo test -p muster-tests --test scenarios -- [FILTER…]` runs the scenarios whose names contain one of the filters;
//! `trains/real` matches `trains/ttl/real/…`. `--list`, `--exact`, `--skip` and `--test-threads` are those of every test.
//! `OURS`, `REAL` and, for JobSets, `OUTSIDE` and `GATES` name servers that are there already, by their kubeconfigs.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};
use muster_tests::limits;
use muster_tests::suite::names::{CaseFilters, filters};
use muster_tests::suite::{self, CaseOutcome, SelectedCase};

/// The exit code of a failed test run.
const FAILED: u8 = 101;

fn main() -> ExitCode {
    let (any, options) = filters(std::env::args());
    let mut args = Arguments::from_iter(options);
    let suites = match suite::all() {
        Ok(suites) => suites,
        Err(why) => {
            eprintln!("the scenarios cannot be read: {why}");
            return ExitCode::from(FAILED);
        }
    };
    let filters = CaseFilters { any, skip: std::mem::take(&mut args.skip), exact: args.exact };
    let (cases, problems) = suite::select(suites, |name| filters.matches(name));
    // Enough threads that every group can use all its slots: a thread that waits for a slot costs nothing.
    args.test_threads =
        args.test_threads.or_else(|| Some(limits::ALL.iter().map(|limit| limit.slots()).sum()));
    let conclusion = libtest_mimic::run(&args, cases.into_iter().map(trial).collect());
    let problems = problems.lock().map(|it| it.clone()).unwrap_or_default();
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    if problems.is_empty() { conclusion.exit_code() } else { ExitCode::from(FAILED) }
}

fn trial(case: SelectedCase) -> Trial {
    Trial::ignorable_test(case.name().to_owned(), move || match case.run() {
        CaseOutcome::Passed => Ok(Completion::Completed),
        CaseOutcome::Skipped(reason) => Ok(Completion::ignored_with(reason)),
        CaseOutcome::Failed(why) => Err(why.into()),
    })
}
