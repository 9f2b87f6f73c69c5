//! `cargo xtask soak`: the tests that are short in CI, at length.
//!
//! Two parts, one after the other unless one is named: `kills [N]` kills the server amid its writers; `fleet [NODES JOBS
//! PODS_PER_JOB]` runs many Jobs on many simulated nodes in release and holds every count against the pods.

use crate::process;

/// How often the server is killed amid its writers.
const KILLS: &str = "50";
/// Nodes, Jobs, pods of each Job: 50,000 pods on 5,000 nodes.
const FLEET: [&str; 3] = ["5000", "2500", "20"];

const USAGE: &str = "usage: cargo xtask soak [kills [N] | fleet [NODES JOBS PODS_PER_JOB]]";

/// The task.
pub fn task(args: &[String]) -> Result<(), String> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        [] => kills(KILLS).and_then(|()| fleet(FLEET)),
        ["kills"] => kills(KILLS),
        ["kills", times] => kills(times),
        ["fleet"] => fleet(FLEET),
        ["fleet", nodes, jobs, pods] => fleet([nodes, jobs, pods]),
        _ => Err(format!("{}: unknown\n{USAGE}", words.join(" "))),
    }
}

fn kills(times: &str) -> Result<(), String> {
    check_number(times)?;
    process::run(&mut process::cargo(["build", "--quiet", "--package", "muster"]))?;
    let mut test = process::cargo(["test", "--package", "muster-tests", "--test", "main", "kill", "--"]);
    process::run(test.arg("--nocapture").env("MUSTER_KILLS", times))
}

/// Only the server is built in release: the test merely watches.
fn fleet(size: [&str; 3]) -> Result<(), String> {
    size.into_iter().try_for_each(check_number)?;
    process::run(&mut process::cargo(["build", "--quiet", "--release", "--package", "muster"]))?;
    let mut test = process::cargo(["test", "--package", "muster-tests", "--test", "main", "fleet::", "--"]);
    test.arg("--nocapture").env("MUSTER_FLEET", size.join(" "));
    process::run(test.env("MUSTER_TEST_BINARY", process::target().join("release").join("muster")))
}

fn check_number(text: &str) -> Result<(), String> {
    text.parse::<u32>().map(drop).map_err(|e| format!("{text}: {e}\n{USAGE}"))
}
