//! Sends random writes to both servers and prints each failing sequence as a scenario, shrunk as far as possible.
//!
//! `random FIRST_SEED [HOW_MANY [KIND]]`, with a new pair of servers, or those of the kubeconfigs in `OURS` and `REAL`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use muster_tests::random::{self, RandomComparison, kinds};
use muster_tests::server_pair::ServerPair;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, otherwise: u64| args.get(i).map_or(otherwise, |n| n.parse().expect("a number"));
    let (first, many) = (number(0, 0), number(1, 1));
    let kinds: Vec<_> = kinds(&random::folder()).expect("the kinds can be read");
    let wanted = |name: &str| args.get(2).is_none_or(|kind| kind == name);
    let kinds: Vec<_> = kinds.into_iter().filter(|kind| wanted(kind.name())).collect();
    let planes = ServerPair::existing_or_new().expect("two servers");
    random::create_crds(&planes.ours, &planes.real, &kinds).expect("both take the CRDs");
    let bench = RandomComparison::new(&planes.ours, &planes.real).expect("the known differences can be read");
    let seeds: Vec<u64> = (first..first + many).collect();
    let (problems, requests) = bench.run(&kinds, &seeds).expect("sequences can be run");
    println!("{}", problems.join("---\n"));
    println!("# {requests} requests compared, {} sequences differ", problems.len());
}
