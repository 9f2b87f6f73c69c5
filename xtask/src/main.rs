//! Development tasks of this workspace. `cargo xtask` lists them.

#![allow(clippy::disallowed_methods, reason = "tasks print wall-clock times")]

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
mod tidy;
mod torch;

use std::process::{Command, ExitCode};

use xtask::process;

/// Where a task is implemented.
enum TaskRunner {
    /// In this package.
    Here(fn(&[String]) -> Result<(), String>),
    /// The package `codegen`, which depends on crates of the product.
    Codegen,
}

/// Name, help line, implementation.
type TaskEntry = (&'static str, &'static str, TaskRunner);

const TASKS: &[TaskEntry] = &[
    (
        "test",
        "run formatting, lints, documentation and all tests, as CI does; --quick for a subset, NAME… for matching tests",
        TaskRunner::Here(test::task),
    ),
    (
        "tidy",
        "print the code style metrics; fails on homonymous public types and on wire constants outside crates/api (-o json)",
        TaskRunner::Here(tidy::task),
    ),
    (
        "bench",
        "run all benches, or those named, and print the results (schema store schedule gangs gangs-beside jobs jobsets operator queues queues-beside trainjobs trainjobs-beside up api)",
        TaskRunner::Here(bench::task),
    ),
    (
        "kube",
        "build the binaries of the pinned Kubernetes into the cache directory (needs Go)",
        TaskRunner::Here(kube::task),
    ),
    (
        "peers",
        "build the upstream controllers that benches compare with, and Helm: jobset kueue trainer helm (needs Go)",
        TaskRunner::Here(peers::task),
    ),
    (
        "clients",
        "provide the third-party programs of the tests, all or those named (kubernetes kubectl jobset helm go kube-rs python kubeflow torch), and print their environment variables",
        TaskRunner::Here(clients::task),
    ),
    (
        "coverage",
        "print the unit test coverage of the TTL and deadline code; fails below 80 %",
        TaskRunner::Here(coverage::task),
    ),
    (
        "requirements",
        "count the requirements in docs/requirements that tests cover, and list the others (-o json)",
        TaskRunner::Codegen,
    ),
    (
        "rights",
        "compare the RBAC roles of `muster install` with the requests in the audit logs in DIRECTORY (MUSTER_TEST_AUDIT)",
        TaskRunner::Codegen,
    ),
    (
        "sim",
        "run the simulator with faults for 1,000 seeds, --seeds N, or one: --seed N [-v]; queues or trained-queues for queueing",
        TaskRunner::Here(sim::task),
    ),
    (
        "soak",
        "run the long tests: kills [N] of the server during writes, fleet [NODES JOBS PODS_PER_JOB], gangs [NODES SECONDS]",
        TaskRunner::Here(soak::task),
    ),
    (
        "chart",
        "generate the Helm chart in deploy/chart from the objects that `muster install` applies",
        TaskRunner::Codegen,
    ),
    ("image", "build the static binary of the image, as the Dockerfile does", TaskRunner::Here(image::task)),
    ("crds", "generate the CRDs of our kinds from our field tables", TaskRunner::Codegen),
    ("schema", "generate the schema table from the published Kubernetes files", TaskRunner::Codegen),
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
        TaskRunner::Here(task) => task(&args[1..]),
        TaskRunner::Codegen => codegen(name).and_then(|mut codegen| process::run(codegen.args(&args[1..]))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{name}: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the package `codegen` and returns the command for one of its tasks. The whole workspace is named: built alone,
/// `codegen` would have other features of its dependencies, and cargo would compile those again.
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
