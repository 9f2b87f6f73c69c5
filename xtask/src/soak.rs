//! `cargo xtask soak`: the tests that are short in CI, at length.

use crate::process;

/// How often the server is killed amid its writers.
const KILLS: &str = "50";

/// The task. A number as argument replaces the count of kills.
pub fn task(args: &[String]) -> Result<(), String> {
    let kills = args.first().map_or(KILLS, String::as_str);
    kills.parse::<u32>().map_err(|e| format!("{kills}: {e}"))?;
    process::run(&mut process::cargo(["build", "--quiet", "--package", "muster"]))?;
    let mut test = process::cargo(["test", "--package", "muster-tests", "--test", "main", "kill", "--"]);
    process::run(test.arg("--nocapture").env("MUSTER_KILLS", kills))
}
