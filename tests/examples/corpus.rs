//! Plays the corpus against two servers and prints what differs. Definitions of an earlier run are deleted
//! first, and those of this run last.
//!
//! `[OURS=kubeconfig REAL=kubeconfig] corpus [kind]`

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use std::path::Path;

use muster_tests::corpus::{Pair, crds, load};
use muster_tests::planes::Planes;

fn main() {
    let planes = Planes::given_or_new().expect("two servers");
    let filter = std::env::args().nth(1).unwrap_or_default();
    let groups = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")).expect("cases can be read");
    let mut pair = Pair::new(&planes.ours, &planes.real).expect("both servers answer");
    let crds = crds().expect("Go has the modules");
    for crd in crds.iter().filter(|crd| filter.is_empty() || crd.kind() == filter) {
        pair.forget(crd).expect("definitions can be deleted");
        pair.play_all(crd, &groups).expect("cases can be played");
        pair.forget(crd).expect("definitions can be deleted");
    }
    println!("{}", pair.report);
}
