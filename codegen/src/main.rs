//! Tasks that depend on crates of the product; `cargo xtask TASK` starts them.
//!
//! They are a separate program so that `xtask`, which is built before every task, does not depend on those crates.

mod chart;
mod crds;
mod rbac;
mod requirements;
mod schema;

use std::process::ExitCode;

type Task = (&'static str, fn(&[String]) -> Result<(), String>);

/// `cargo xtask` lists these tasks with a line about each.
const TASKS: [Task; 5] = [
    ("requirements", requirements::task),
    ("rights", rbac::task),
    ("chart", chart::task),
    ("crds", crds::task),
    ("schema", schema::run),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, run)) = args.first().and_then(|name| TASKS.iter().find(|task| task.0 == name)) else {
        let names: Vec<&str> = TASKS.iter().map(|task| task.0).collect();
        eprintln!("usage: codegen {}", names.join(" | "));
        return ExitCode::from(2);
    };
    match run(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            ExitCode::FAILURE
        }
    }
}
