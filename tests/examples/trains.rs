//! Plays the scenarios of TrainJobs on the embedded plane, on a real one, or on the plane that is given, and prints what went wrong.
//!
//! `[OURS=kubeconfig | REAL=kubeconfig] trains [embedded|real] [part of a scenario's name]`; without a kubeconfig the plane is
//! started.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use muster_tests::played::asked_for;
use muster_tests::trains::{self, folder, judge, load};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (ground, filter) = asked_for(&words, trains::embedded, trains::real).expect("a plane starts");
    let scenarios = load(&folder()).expect("scenarios can be read");
    let (count, wrong) = judge(&ground, &scenarios, &filter);
    wrong.iter().for_each(|why| println!("{why}\n"));
    println!("{} of {count} as they should be", count - wrong.len());
}
