//! Random clusters, filled by kube-scheduler and by ours: a case for each seed.

use std::sync::{Arc, Mutex, PoisonError};

use muster_scheduler::{Demand, Pod};

use super::planes::Shared;
use super::{Case, Stop, Suite, Summary, names};
use crate::limits::WHOLE_PLANE;
use crate::placements::{Cluster, Referee, Report};
use crate::real::{self, Real};

/// Clusters of every run; `cargo run --example placements FROM TO` plays others.
const CLUSTERS: u64 = 30;
/// Decisions of either kind below which the clusters show too little.
const EACH_KIND_MIN: usize = 100;

/// The plane has no other controllers and no nodes but those of the one cluster.
pub fn suites() -> Vec<Suite> {
    let plane = Shared::new("a plane of kube-scheduler", || {
        let plane = Real::with(&["gc", "namespace", "scheduler"])?;
        Referee::prepare(&plane.server)?;
        Ok(plane)
    });
    let all = Arc::new(Mutex::new(Report::default()));
    let mut cases: Vec<Case> = (0..CLUSTERS).map(|seed| case(&plane, &all, seed)).collect();
    let name = names::name(&["placements", "referee", "a scheduler that ignores requests is noticed"]);
    cases.push(Case::new(name, &WHOLE_PLANE, real::missing(), move |run| {
        let wrong = Referee::new(&plane.get(run)?.server)
            .with_blunder(|pod| Pod { demand: Demand::default(), ..pod });
        let mut report = Report::default();
        wrong.play(&Cluster::of(CLUSTERS), &mut report)?;
        if report.differences.is_empty() { Err("no difference was found".into()) } else { Ok(()) }
    }));
    vec![Suite {
        label: "placements".to_owned(),
        cases,
        finish: Box::new(move |summary| finish(&all.lock().unwrap_or_else(PoisonError::into_inner), summary)),
    }]
}

fn case(plane: &Arc<Shared<Real>>, all: &Arc<Mutex<Report>>, seed: u64) -> Case {
    let (plane, all) = (plane.clone(), all.clone());
    let name = names::name(&["placements", "clusters", &format!("seed {seed}")]);
    // With given servers, too, a plane of its own: nodes of others would take the pods.
    Case::new(name, &WHOLE_PLANE, real::missing(), move |run| {
        let mut report = Report::default();
        Referee::new(&plane.get(run)?.server).play(&Cluster::of(seed), &mut report)?;
        let differences = report.differences.join("\n");
        all.lock().unwrap_or_else(PoisonError::into_inner).add(report);
        if differences.is_empty() { Ok(()) } else { Err(Stop::Failed(differences)) }
    })
}

fn finish(report: &Report, summary: &Summary) -> Result<Vec<String>, String> {
    let Report { placed, same_node, refused, preempting, .. } = report;
    let few = *placed < EACH_KIND_MIN || *refused < EACH_KIND_MIN || *preempting == 0;
    if summary.is_whole() && few {
        return Err(format!("the clusters show too little: {report:?}"));
    }
    Ok(vec![format!(
        "{placed} pods placed by both ({same_node} on the same node), {refused} refused by both with the same words \
         ({preempting} with preemption)"
    )])
}
