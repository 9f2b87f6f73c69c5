//! Plays the scenarios of JobSets on our plane, and on a real one if there is one, and prints what differs.
//!
//! `[OURS=kubeconfig [REAL=kubeconfig]] [GATES=default|all|claimless] jobsets [part of a scenario's name]`; without
//! kubeconfigs a pair is started.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::Server;
use muster_tests::jobsets::{self, Gates};
use muster_tests::planes::Planes;

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
        Some(ours) => jobsets::judge(&ours, given("REAL").as_ref(), &scenarios),
        None => {
            let planes = Planes::with_jobsets(gates.flag()).expect("both planes start");
            jobsets::judge(&planes.ours, Some(&planes.real), &scenarios)
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
