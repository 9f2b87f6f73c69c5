//! Plays the scenarios against two running servers and prints what differs.
//!
//! `OURS=kubeconfig REAL=kubeconfig judge [part of a scenario's name]`

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::{Server, judge};

fn main() {
    let server = |name: &str| {
        let file = std::env::var_os(name).unwrap_or_else(|| panic!("set {name} to a kubeconfig"));
        Server::of_kubeconfig(Path::new(&file)).expect("a kubeconfig can be read")
    };
    let (ours, real) = (server("OURS"), server("REAL"));
    let filter = std::env::args().nth(1).unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let report = judge(&ours, &real, &folder, &filter).expect("scenarios can be played");
    println!("{report}");
}
