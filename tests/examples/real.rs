//! Starts a real Kubernetes on loopback and prints what it says of itself: a check that the judge can be had here.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use muster_tests::real::Real;

fn main() {
    let real = Real::start().expect("a real plane starts");
    let version = real.server.get("/version").expect("it answers");
    println!("{}", version.body);
}
