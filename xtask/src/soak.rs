//! `cargo xtask soak`: runs tests for longer than CI does.
//!
//! There are three parts; without an argument all run in turn. `kills [N]` kills the server during writes and checks that
//! acknowledged writes survive. `fleet [NODES JOBS PODS_PER_JOB]` runs Jobs on simulated nodes in release and compares every
//! status count with the pods. `gangs [NODES SECONDS]` creates, completes and evicts gangs, deletes nodes, and checks for
//! leaked reservations.

use std::process::Command;

use xtask::process;

/// How often the server is killed.
const KILLS: &str = "50";
/// Nodes, Jobs, pods per Job: 50,000 pods on 5,000 nodes.
const FLEET: [&str; 3] = ["5000", "2500", "20"];

/// Nodes, seconds of churn.
const GANGS: [&str; 2] = ["5000", "600"];

const USAGE: &str =
    "usage: cargo xtask soak [kills [N] | fleet [NODES JOBS PODS_PER_JOB] | gangs [NODES SECONDS]]";

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => kills(KILLS).and_then(|()| fleet(FLEET)).and_then(|()| gangs(GANGS)),
        ["kills"] => kills(KILLS),
        ["kills", times] => kills(times),
        ["fleet"] => fleet(FLEET),
        ["fleet", nodes, jobs, pods] => fleet([nodes, jobs, pods]),
        ["gangs"] => gangs(GANGS),
        ["gangs", nodes, secs] => gangs([nodes, secs]),
        _ => Err(format!("{}: unknown\n{USAGE}", args.join(" "))),
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

/// Runs the tests of a module with this size. Only the server is built in release: the tests only watch it.
fn in_release(module: &str, variable: &str, size: &str) -> Result<(), String> {
    process::run(&mut process::cargo(["build", "--quiet", "--release", "--workspace", "--bin", "muster"]))?;
    let binary = process::target().join("release").join("muster");
    process::run(black_box(module).env(variable, size).env("MUSTER_TEST_BINARY", binary))
}

/// Returns a command that runs the black-box tests that match the filter. The whole workspace is named: one package alone has
/// other features of its dependencies, and cargo would compile those again.
fn black_box(filter: &str) -> Command {
    process::linting_cargo(["test", "--workspace", "--test", "main", filter, "--", "--nocapture"])
}

fn check_number(text: &str) -> Result<(), String> {
    text.parse::<u32>().map(drop).map_err(|e| format!("{text}: {e}\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libtest runs no test and succeeds if a filter matches none.
    #[test]
    fn the_modules_with_soak_tests_exist() {
        for module in ["kill", "fleet", "gang_soak"] {
            let file = process::root().join("tests/tests").join(module).with_extension("rs");
            assert!(file.exists(), "{}", file.display());
        }
    }
}
