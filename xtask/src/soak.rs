//! `cargo xtask soak`: the tests that are short in CI, at length.
//!
//! Three parts, one after the other unless one is named: `kills [N]` kills the server amid its writers; `fleet [NODES JOBS
//! PODS_PER_JOB]` runs many Jobs on many simulated nodes in release and holds every count against the pods; `gangs [NODES
//! SECONDS]` has gangs come, end, be evicted and lose nodes, and looks for what they leave behind.

use std::process::Command;

use xtask::process;

/// How often the server is killed amid its writers.
const KILLS: &str = "50";
/// Nodes, Jobs, pods of each Job: 50,000 pods on 5,000 nodes.
const FLEET: [&str; 3] = ["5000", "2500", "20"];

/// Nodes, and seconds of churn.
const GANGS: [&str; 2] = ["5000", "600"];

const USAGE: &str =
    "usage: cargo xtask soak [kills [N] | fleet [NODES JOBS PODS_PER_JOB] | gangs [NODES SECONDS]]";

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [] => kills(KILLS).and_then(|()| fleet(FLEET)).and_then(|()| gangs(GANGS)),
        ["kills"] => kills(KILLS),
        ["kills", times] => kills(times),
        ["fleet"] => fleet(FLEET),
        ["fleet", nodes, jobs, pods] => fleet([nodes, jobs, pods]),
        ["gangs"] => gangs(GANGS),
        ["gangs", nodes, secs] => gangs([nodes, secs]),
        _ => Err(format!("{}: unknown\n{USAGE}", words.join(" "))),
    }
}

fn kills(times: &str) -> Result<(), String> {
    check_number(times)?;
    process::run(&mut process::linting_cargo(["build", "--quiet", "--workspace", "--bin", "muster"]))?;
    process::run(black_box("kill").env("MUSTER_KILLS", times))
}

fn fleet(size: [&str; 3]) -> Result<(), String> {
    size.into_iter().try_for_each(check_number)?;
    in_release("fleet::", "MUSTER_FLEET", &size.join(" "))
}

fn gangs(size: [&str; 2]) -> Result<(), String> {
    size.into_iter().try_for_each(check_number)?;
    in_release("gang_soak::", "MUSTER_GANG_SOAK", &size.join(" "))
}

/// Runs the tests of this module at this size. Only the server is built in release: the test merely watches.
fn in_release(module: &str, variable: &str, size: &str) -> Result<(), String> {
    process::run(&mut process::cargo(["build", "--quiet", "--release", "--workspace", "--bin", "muster"]))?;
    let binary = process::target().join("release").join("muster");
    process::run(black_box(module).env(variable, size).env("MUSTER_TEST_BINARY", binary))
}

/// The black-box tests whose names have this in them. The whole workspace: one package alone has other features of its
/// dependencies, which would all be built again.
fn black_box(words: &str) -> Command {
    process::linting_cargo(["test", "--workspace", "--test", "main", words, "--", "--nocapture"])
}

fn check_number(text: &str) -> Result<(), String> {
    text.parse::<u32>().map(drop).map_err(|e| format!("{text}: {e}\n{USAGE}"))
}
