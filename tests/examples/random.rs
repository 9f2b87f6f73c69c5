//! Plays random writes on both servers and prints each sequence that differs as a scenario, made as short as possible.
//!
//! `random FIRST_SEED [HOW_MANY [KIND]]`, on a new pair of servers or on those whose kubeconfigs `OURS` and `REAL` name.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use muster_tests::planes::Planes;
use muster_tests::random::{self, Bench, kinds};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize, otherwise: u64| args.get(i).map_or(otherwise, |n| n.parse().expect("a number"));
    let (first, many) = (number(0, 0), number(1, 1));
    let kinds: Vec<_> = kinds(&random::folder()).expect("the kinds can be read");
    let wanted = |name: &str| args.get(2).is_none_or(|kind| kind == name);
    let kinds: Vec<_> = kinds.into_iter().filter(|kind| wanted(kind.name())).collect();
    let planes = Planes::given_or_new().expect("two servers");
    random::define(&planes.ours, &planes.real, &kinds).expect("both take the CRDs");
    let bench = Bench::new(&planes.ours, &planes.real).expect("the known differences can be read");
    let seeds: Vec<u64> = (first..first + many).collect();
    let (problems, requests) = bench.run(&kinds, &seeds).expect("sequences can be played");
    println!("{}", problems.join("---\n"));
    println!("# {requests} requests compared, {} sequences differ", problems.len());
}
