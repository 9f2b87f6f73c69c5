//! The project's own tasks: `cargo xtask` lists them.

mod bench;
mod chart;
mod clients;
mod crds;
mod debian;
mod image;
mod kube;
mod llvm;
mod peers;
mod process;
mod requirements;
mod rights;
mod schema;
mod sim;
mod soak;
mod test;
mod torch;

use std::process::ExitCode;

/// A task: its name, what it does in one line, and the function that does it.
type Task = (&'static str, &'static str, fn(&[String]) -> Result<(), String>);

/// Every task. `test` is what CI runs.
const TASKS: &[Task] = &[
    ("test", "format, lints, documentation and every test: what CI runs", test::task),
    (
        "bench",
        "print what it costs: all benches, or those named (schema store schedule gangs gangs-beside jobs jobsets operator queues queues-beside trainjobs trainjobs-beside up api)",
        bench::task,
    ),
    ("kube", "build the programs of the pinned Kubernetes into the cache folder (needs Go)", kube::task),
    (
        "peers",
        "build the upstream controllers that benches compare with, and helm: jobset kueue trainer helm (needs Go)",
        peers::task,
    ),
    (
        "clients",
        "provide the programs that tests need besides ours, or those named (kubectl go kube-rs python kubeflow torch llvm helm), and print their variables",
        clients::task,
    ),
    (
        "requirements",
        "count the promises of docs/requirements that tests name, and list the others (-o json)",
        requirements::task,
    ),
    (
        "rights",
        "compare the roles of `muster install` with what operators asked, by the logs in FOLDER (MUSTER_TEST_AUDIT)",
        rights::task,
    ),
    (
        "sim",
        "play 1,000 seeds of the simulated world under faults, or of its queues (queues), --seeds N, or one of them: --seed N [-v]",
        sim::task,
    ),
    (
        "soak",
        "at length: kills [N] of the server amid its writers, fleet [NODES JOBS PODS_PER_JOB], gangs [NODES SECONDS]",
        soak::task,
    ),
    ("chart", "make the Helm chart in deploy/chart from what `muster install` installs", chart::task),
    ("image", "build the static binary of the image, as the Dockerfile does", image::task),
    ("crds", "make the definitions of our kinds from our tables of their fields", crds::task),
    ("schema", "make the schema table's data from the published Kubernetes files", schema::run),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = args.first().and_then(|name| TASKS.iter().find(|task| task.0 == name)) else {
        eprintln!("usage: cargo xtask TASK\n");
        for (name, about, _) in TASKS {
            eprintln!("  {name:<12} {about}");
        }
        return ExitCode::from(2);
    };
    match (task.2)(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{}: {problem}", task.0);
            ExitCode::FAILURE
        }
    }
}
