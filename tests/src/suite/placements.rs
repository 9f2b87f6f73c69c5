//! Random clusters, scheduled by kube-scheduler and by ours: a case for each seed.

use std::sync::{Arc, Mutex, PoisonError};

use muster_scheduler::{Pod, SchedulingRequirements};

use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, Suite, SuiteSummary, names};
use crate::limits::WHOLE_PLANE;
use crate::placements::{PlacementComparison, PlacementReport, RandomCluster};
use crate::real::{self, RealCluster};

/// Clusters of every run; `cargo run --example placements FROM TO` runs others.
const CLUSTERS: u64 = 30;
/// Minimum number of bound and of rejected pods; fewer prove too little.
const EACH_KIND_MIN: usize = 100;

/// The control plane has no other controllers, and only the nodes of the current cluster.
pub fn suites() -> Vec<Suite> {
    let plane = SharedEnvironment::new("the control plane of kube-scheduler", || {
        let plane = RealCluster::with(&["gc", "namespace", "scheduler"])?;
        PlacementComparison::prepare(&plane.server)?;
        Ok(plane)
    });
    let all = Arc::new(Mutex::new(PlacementReport::default()));
    let mut cases: Vec<Case> = (0..CLUSTERS).map(|seed| case(&plane, &all, seed)).collect();
    let name = names::name(&["placements", "referee", "a scheduler that ignores requests is noticed"]);
    cases.push(Case::new(name, &WHOLE_PLANE, real::missing(), move |run| {
        let wrong = PlacementComparison::new(&plane.get(run)?.server)
            .with_mutation(|pod| Pod { requirements: SchedulingRequirements::default(), ..pod });
        let mut report = PlacementReport::default();
        wrong.run(&RandomCluster::of(CLUSTERS), &mut report)?;
        if report.differences.is_empty() { Err("no difference was found".into()) } else { Ok(()) }
    }));
    vec![Suite {
        label: "placements".to_owned(),
        cases,
        finish: Box::new(move |summary| finish(&all.lock().unwrap_or_else(PoisonError::into_inner), summary)),
    }]
}

fn case(plane: &Arc<SharedEnvironment<RealCluster>>, all: &Arc<Mutex<PlacementReport>>, seed: u64) -> Case {
    let (plane, all) = (plane.clone(), all.clone());
    let name = names::name(&["placements", "clusters", &format!("seed {seed}")]);
    // Existing servers are not used: pods would be bound to their nodes.
    Case::new(name, &WHOLE_PLANE, real::missing(), move |run| {
        let mut report = PlacementReport::default();
        PlacementComparison::new(&plane.get(run)?.server).run(&RandomCluster::of(seed), &mut report)?;
        let differences = report.differences.join("\n");
        all.lock().unwrap_or_else(PoisonError::into_inner).add(report);
        if differences.is_empty() { Ok(()) } else { Err(CaseError::Failed(differences)) }
    })
}

fn finish(report: &PlacementReport, summary: &SuiteSummary) -> Result<Vec<String>, String> {
    let PlacementReport { placed, same_node, refused, preempting, .. } = report;
    let few = *placed < EACH_KIND_MIN || *refused < EACH_KIND_MIN || *preempting == 0;
    if summary.all_passed() && few {
        return Err(format!("too few decisions: {report:?}"));
    }
    Ok(vec![format!(
        "{placed} pods bound by both ({same_node} on the same node), {refused} rejected by both with the same message \
         ({preempting} with preemption)"
    )])
}
