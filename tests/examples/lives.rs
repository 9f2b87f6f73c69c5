//! Plays the lives of Jobs on two planes and prints what differs.
//!
//! `[OURS=kubeconfig REAL=kubeconfig] lives [part of a life's name]`; without kubeconfigs a pair is started.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::Server;
use muster_tests::lives;
use muster_tests::planes::Planes;

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("lives");
    let given = |name: &str| {
        std::env::var_os(name)
            .map(|file| Server::of_kubeconfig(Path::new(&file)).expect("a kubeconfig can be read"))
    };
    let verdicts = match (given("OURS"), given("REAL")) {
        (Some(ours), Some(real)) => lives::judge(&ours, &real, &folder, &filter),
        _ => {
            let planes = Planes::work().expect("both planes start");
            lives::judge(&planes.ours, &planes.real, &folder, &filter)
        }
    };
    let mut alike = 0;
    for (name, verdict) in verdicts.expect("lives can be read") {
        match verdict {
            Ok(differences) if differences.is_empty() => alike += 1,
            Ok(differences) => {
                println!("{name}");
                differences.iter().for_each(|difference| println!("  {difference}"));
            }
            Err(why) => println!("{name}\n  {why}"),
        }
    }
    println!("{alike} alike");
}
