//! Plays the scenarios of JobSets over all makers of the port, or on the planes that are given, and prints what differs.
//!
//! `[OURS=kubeconfig [OUTSIDE=kubeconfig] [REAL=kubeconfig]] [GATES=default|all|claimless] jobsets [part of a scenario's
//! name]`; without kubeconfigs the planes are started.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::Server;
use muster_tests::jobsets::{self, Gates, Makers};
use muster_tests::planes::{Outside, Planes};

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("jobsets");
    let given = |name: &str| {
        std::env::var_os(name)
            .map(|file| Server::of_kubeconfig(Path::new(&file)).expect("a kubeconfig can be read"))
    };
    let gates = match std::env::var("GATES").as_deref() {
        Ok("all") => Gates::All,
        Ok("claimless") => Gates::Claimless,
        _ => Gates::Default,
    };
    let mut scenarios = jobsets::load(&folder).expect("scenarios can be read");
    scenarios.retain(|it| it.gates == gates && it.name.contains(&filter));
    let verdicts = match given("OURS") {
        Some(local) => {
            let (outside, real) = (given("OUTSIDE"), given("REAL"));
            let makers = Makers { local: &local, outside: outside.as_ref(), real: real.as_ref() };
            jobsets::judge(makers, &scenarios)
        }
        None => {
            let planes = Planes::with_jobsets(gates.flag()).expect("both planes start");
            let outside =
                Outside::with_jobsets(gates.flag()).expect("an operator beside our own server starts");
            let makers =
                Makers { local: &planes.ours, outside: Some(&outside.server), real: Some(&planes.real) };
            jobsets::judge(makers, &scenarios)
        }
    };
    let mut alike = 0;
    for (name, verdict) in verdicts {
        match verdict {
            Ok(differences) if differences.is_empty() => alike += 1,
            Ok(differences) => {
                println!("{name}");
                differences.iter().for_each(|difference| println!("  {difference}"));
            }
            Err(why) => println!("{name}\n  {why}"),
        }
    }
    println!("{alike} of {} alike", scenarios.len());
}
