//! Ours and kube-scheduler decide alike about random clusters.

use muster_scheduler::{Demand, Pod};
use muster_tests::clients::{note, skip};
use muster_tests::placements::{Cluster, Referee, Report};
use muster_tests::real::{self, Real};

/// Clusters that every run plays; `cargo run --example placements FROM TO` plays others.
const CLUSTERS: u64 = 30;
/// Decisions of either kind below which the clusters show too little.
const EACH_KIND_MIN: usize = 100;

#[test]
fn random_clusters_are_filled_as_by_kube_scheduler() {
    if let Some(reason) = real::missing() {
        return skip("random_clusters_are_filled_as_by_kube_scheduler", &reason);
    }
    let real = Real::with(&["gc", "namespace", "scheduler"]).unwrap();
    let referee = Referee::new(&real.server).unwrap();
    let mut report = Report::default();
    for seed in 0..CLUSTERS {
        referee.play(&Cluster::of(seed), &mut report).unwrap();
    }
    assert!(report.differences.is_empty(), "{}", report.differences.join("\n"));
    let kinds = [report.placed, report.refused];
    assert!(kinds.iter().all(|count| *count >= EACH_KIND_MIN), "{report:?}");
    assert!(report.preempting > 0, "nobody made room");
    note(&format!(
        "placements: {CLUSTERS} random clusters, {} pods placed by both ({} on the same node), {} refused by both with the \
         same words ({} with room being made), 0 differences",
        report.placed, report.same_node, report.refused, report.preempting
    ));
    // A scheduler that does not hear what pods ask for is caught.
    let deaf = referee.with_blunder(|pod| Pod { demand: Demand::default(), ..pod });
    let mut report = Report::default();
    deaf.play(&Cluster::of(CLUSTERS), &mut report).unwrap();
    assert!(!report.differences.is_empty(), "nothing was noticed");
}
