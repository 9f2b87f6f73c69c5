//! Plays the scenarios on both servers and prints what differs.
//!
//! `judge [part of a scenario's name]`, on a new pair of servers or on those whose kubeconfigs `OURS` and `REAL` name.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::differential::judge;
use muster_tests::planes::Planes;

fn main() {
    let planes = Planes::given_or_new().expect("two servers");
    let filter = std::env::args().nth(1).unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let report = judge(&planes.ours, &planes.real, &folder, &filter).expect("scenarios can be played");
    println!("{report}");
    for known in report.stale.iter().filter(|_| filter.is_empty()) {
        println!("listed in differences.yaml and differing no more: {} {}", known.scenario, known.path);
    }
}
