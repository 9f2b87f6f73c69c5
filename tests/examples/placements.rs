//! For people: plays random clusters on kube-scheduler and ours. `placements [FROM [TO]]` plays these seeds.

#![expect(clippy::print_stdout, reason = "an example talks to a person")]

use muster_tests::placements::{Cluster, Referee, Report};
use muster_tests::real::Real;

fn main() -> Result<(), String> {
    let mut seeds = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let from = seeds.next().unwrap_or(0);
    let to = seeds.next().unwrap_or(from + 1);
    let real = Real::with(&["gc", "namespace", "scheduler"])?;
    Referee::prepare(&real.server)?;
    let referee = Referee::new(&real.server);
    let mut report = Report::default();
    for seed in from..to {
        let before = report.differences.len();
        referee.play(&Cluster::of(seed), &mut report)?;
        report.differences[before..].iter().for_each(|difference| println!("{difference}"));
    }
    println!(
        "{} placed, {} on the same node; {} refused, {} make room; {} differences",
        report.placed,
        report.same_node,
        report.refused,
        report.preempting,
        report.differences.len()
    );
    Ok(())
}
