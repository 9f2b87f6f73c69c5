//! Starts a real Kubernetes control plane on loopback and prints its version: checks that the differential tests can run here.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use muster_tests::real::RealCluster;

fn main() {
    let real = RealCluster::start().expect("a real control plane starts");
    let version = real.server.get("/version").expect("it answers");
    println!("{}", version.body);
}
