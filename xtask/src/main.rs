//! The project's own tasks: `cargo xtask` lists them.

#![allow(clippy::disallowed_methods, reason = "the times that tasks print are those of the wall clock")]

mod bench;
mod clients;
mod coverage;
mod debian;
mod image;
mod kube;
mod llvm;
mod peers;
mod sim;
mod soak;
mod test;
mod torch;

use std::process::{Command, ExitCode};

use xtask::process;

/// What carries a task out.
enum Run {
    Here(fn(&[String]) -> Result<(), String>),
    /// The package `codegen`, which depends on crates of the product.
    Codegen,
}

/// A task: its name, what it does in one line, and what carries it out.
type Task = (&'static str, &'static str, Run);

/// Every task. `test` is what CI runs.
const TASKS: &[Task] = &[
    (
        "test",
        "format, lints, documentation and every test: what CI runs; --quick, or the tests that match NAME…",
        Run::Here(test::task),
    ),
    (
        "bench",
        "print what it costs: all benches, or those named (schema store schedule gangs gangs-beside jobs jobsets operator queues queues-beside trainjobs trainjobs-beside up api)",
        Run::Here(bench::task),
    ),
    (
        "kube",
        "build the programs of the pinned Kubernetes into the cache folder (needs Go)",
        Run::Here(kube::task),
    ),
    (
        "peers",
        "build the upstream controllers that benches compare with, and helm: jobset kueue trainer helm (needs Go)",
        Run::Here(peers::task),
    ),
    (
        "clients",
        "provide the programs that tests need besides ours, or those named (kubernetes kubectl jobset helm go kube-rs python kubeflow torch), and print their variables",
        Run::Here(clients::task),
    ),
    (
        "coverage",
        "print how much of the code of TTL and deadline its unit tests cover; fails below 80 %",
        Run::Here(coverage::task),
    ),
    (
        "requirements",
        "count the promises of docs/requirements that tests name, and list the others (-o json)",
        Run::Codegen,
    ),
    (
        "rights",
        "compare the roles of `muster install` with what operators requested, by the logs in FOLDER (MUSTER_TEST_AUDIT)",
        Run::Codegen,
    ),
    (
        "sim",
        "play 1,000 seeds of the simulated world under faults, or of its queues (queues), --seeds N, or one of them: --seed N [-v]",
        Run::Here(sim::task),
    ),
    (
        "soak",
        "at length: kills [N] of the server amid its writers, fleet [NODES JOBS PODS_PER_JOB], gangs [NODES SECONDS]",
        Run::Here(soak::task),
    ),
    ("chart", "make the Helm chart in deploy/chart from what `muster install` installs", Run::Codegen),
    ("image", "build the static binary of the image, as the Dockerfile does", Run::Here(image::task)),
    ("crds", "make the definitions of our kinds from our tables of their fields", Run::Codegen),
    ("schema", "make the schema table's data from the published Kubernetes files", Run::Codegen),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, _, run)) = args.first().and_then(|name| TASKS.iter().find(|task| task.0 == name)) else {
        eprintln!("usage: cargo xtask TASK\n");
        for (name, about, _) in TASKS {
            eprintln!("  {name:<12} {about}");
        }
        return ExitCode::from(2);
    };
    let done = match run {
        Run::Here(task) => task(&args[1..]),
        Run::Codegen => codegen(name).and_then(|mut codegen| process::run(codegen.args(&args[1..]))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// A task of the package `codegen`, which is built first, with the features that its dependencies have in the workspace: by
/// itself it would compile them again.
fn codegen(task: &str) -> Result<Command, String> {
    process::run(&mut process::linting_cargo([
        "build",
        "--quiet",
        "--locked",
        "--workspace",
        "--bin",
        "codegen",
    ]))?;
    let mut command = Command::new(process::target().join("debug").join("codegen"));
    command.current_dir(process::root()).arg(task);
    Ok(command)
}
