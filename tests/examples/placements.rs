//! Compares our scheduler with kube-scheduler on random clusters: `placements [FROM [TO]]` runs these seeds.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use muster_tests::placements::{PlacementComparison, PlacementReport, RandomCluster};
use muster_tests::real::RealCluster;

fn main() -> Result<(), String> {
    let mut seeds = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let from = seeds.next().unwrap_or(0);
    let to = seeds.next().unwrap_or(from + 1);
    let real = RealCluster::with(&["gc", "namespace", "scheduler"])?;
    PlacementComparison::prepare(&real.server)?;
    let referee = PlacementComparison::new(&real.server);
    let mut report = PlacementReport::default();
    for seed in from..to {
        let before = report.differences.len();
        referee.run(&RandomCluster::of(seed), &mut report)?;
        report.differences[before..].iter().for_each(|difference| println!("{difference}"));
    }
    println!(
        "{} bound, {} on the same node; {} rejected, {} with preemption; {} differences",
        report.placed,
        report.same_node,
        report.refused,
        report.preempting,
        report.differences.len()
    );
    Ok(())
}
