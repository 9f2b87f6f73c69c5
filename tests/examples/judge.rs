//! Plays the scenarios against two running servers and prints what differs.
//!
//! `OURS=https://127.0.0.1:6443 OURS_TOKEN=… REAL=https://… REAL_TOKEN=… judge [part of a scenario's name]`

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::{Server, judge};

fn main() {
    let var = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("set {name}"));
    let ours = Server::new(&var("OURS"), &var("OURS_TOKEN"));
    let real = Server::new(&var("REAL"), &var("REAL_TOKEN"));
    let filter = std::env::args().nth(1).unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let report = judge(&ours, &real, &folder, &filter).expect("scenarios can be played");
    println!("{report}");
}
