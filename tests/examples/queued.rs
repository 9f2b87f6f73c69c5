//! Plays the scenarios of queues on the embedded plane, on a real one, or on the plane that is given, and prints what went wrong.
//!
//! `[OURS=kubeconfig | REAL=kubeconfig] queued [embedded|real] [part of a scenario's name]`; without a kubeconfig the plane is
//! started.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::Server;
use muster_tests::jobsets::Place;
use muster_tests::queued::{Playground, folder, judge, load};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let place = if words.iter().any(|it| it == "real") { Place::Real } else { Place::Embedded };
    let filter = words.iter().find(|it| !["real", "embedded"].contains(&it.as_str()));
    let variable = if place == Place::Real { "REAL" } else { "OURS" };
    let ground = match std::env::var_os(variable) {
        Some(file) => {
            let server = Server::of_kubeconfig(Path::new(&file)).expect("a kubeconfig can be read");
            Playground::given(server, place)
        }
        None if place == Place::Real => Playground::real().expect("a real plane starts"),
        None => Playground::embedded().expect("muster up is ready"),
    };
    let scenarios = load(&folder()).expect("scenarios can be read");
    let (count, wrong) = judge(&ground, &scenarios, filter.map(String::as_str).unwrap_or_default());
    wrong.iter().for_each(|why| println!("{why}\n"));
    println!("{} of {count} as they should be", count - wrong.len());
}
