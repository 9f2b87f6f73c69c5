//! Scenarios that print figures. No time is asserted: read them as ratios, release build.
//!
//! `cargo xtask bench` runs all, `cargo xtask bench api up` those named. `api`, `gangs`, `gangs-beside`,
//! `jobsets`, `operator`, `queues`, `queues-beside`, `trainjobs` and `trainjobs-beside` take `--quick`, `--etcd-no-fsync` and
//! `-o json`; `queues-beside` also `--only WORDS`, for those lines alone whose load or name has the words.

#![allow(clippy::print_stdout, reason = "printing is all it does")]
#![allow(clippy::print_stderr, reason = "progress and refusals")]
#![allow(clippy::disallowed_methods, reason = "a bench measures the real clock")]

mod api;
mod beside;
mod client;
mod containers;
mod gangs;
mod jobs;
mod jobsets;
mod measure;
mod operator;
mod queues;
mod queues_beside;
mod schedule;
mod schema;
mod store;
mod trainjobs;
mod trainjobs_beside;
mod up;

use std::process::ExitCode;

const BENCHES: [&str; 17] = [
    "schema",
    "store",
    "schedule",
    "gangs",
    "containers",
    "beside",
    "gangs-beside",
    "jobs",
    "large",
    "jobsets",
    "operator",
    "queues",
    "queues-beside",
    "trainjobs",
    "trainjobs-beside",
    "up",
    "api",
];

fn main() -> ExitCode {
    // Servers are measured from their start.
    muster_tests::real::never_reuse();
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [row, n] = &words[..]
        && row == "store-memory"
        && let Ok(n) = n.parse()
    {
        store::memory_row(n);
        return ExitCode::SUCCESS;
    }
    if let [row, set, others] = &words[..]
        && row == "queues-pods"
        && let Ok(others) = others.parse()
    {
        queues::pods_row(set, others);
        return ExitCode::SUCCESS;
    }
    let (wanted, flags): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| BENCHES.contains(word));
    let options = match api::Options::read(&flags) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n\nhint: the benches are {}", BENCHES.join(", "));
            return ExitCode::from(2);
        }
    };
    let mut held = true;
    for name in BENCHES.into_iter().filter(|name| wanted.is_empty() || wanted.contains(name)) {
        match name {
            "schema" => schema::run(),
            "store" => store::run(),
            "schedule" => schedule::run(),
            "gangs" => gangs::run(&options),
            "gangs-beside" => gangs::beside::run(&options),
            "containers" => containers::run(),
            "beside" => beside::run(options.disk),
            "jobs" => jobs::run(&options),
            "large" => jobs::run_large(),
            "jobsets" => jobsets::run(&options),
            "operator" => operator::run(&options),
            "queues" => queues::run(&options),
            "queues-beside" => queues_beside::run(&options),
            "trainjobs" => held &= trainjobs::run(&options),
            "trainjobs-beside" => trainjobs_beside::run(&options),
            "up" => up::run(),
            _ => api::run(&options),
        }
    }
    if held { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
