//! Lifecycle scenarios on the embedded server and on a real one; with `objects` also under our scheduler on a real server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::retries::RetryBudget;
use super::shared_environment::SharedEnvironment;
use super::{Case, Suite, names, real_cluster_unavailable};
use crate::lifecycle::{ScenarioPair, compare, load};
use crate::limits::REAL;
use crate::muster_process::until;
use crate::real::RealCluster;
use crate::server_pair::ServerPair;

/// Scheduler name of pods on the real server.
const SCHEDULER: &str = "muster-scheduler";
/// Lease of the operator: its holder schedules.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lives")
}

pub fn suites() -> Result<Vec<Suite>, String> {
    let lives = load(&folder())?;
    let planes = SharedEnvironment::new("the servers of workloads", ServerPair::with_workload_controllers);
    let under = planes.clone();
    // A separate control plane: kube-scheduler runs on the other one.
    let operated =
        SharedEnvironment::new("the real server under our scheduler", move || start_operated(&under));

    let tries = RetryBudget::default();
    let cases = lives.iter().enumerate().map(|(n, scenario)| {
        let (planes, tries, pair) = (planes.clone(), tries.clone(), (scenario.clone(), scenario.clone()));
        let name = names::name(&["lives", &scenario.file, &scenario.name]);
        Case::new(name, &REAL, real_cluster_unavailable(), move |run| {
            let planes = planes.get(run)?;
            let space = |number: u32| space("life", n, number);
            tries.run(run, &pair.0.name, |it| compare(&planes.ours, &planes.real, &pair, &space(it)))?;
            Ok(())
        })
    });
    let both =
        Suite { label: "lives".to_owned(), cases: cases.collect(), finish: Box::new(|_| Ok(Vec::new())) };

    let tries = RetryBudget::default();
    let objects = lives.iter().filter(|scenario| !scenario.objects.is_empty()).enumerate();
    let cases = objects.map(|(n, scenario)| {
        let pair: ScenarioPair = (scenario.scheduled_by(SCHEDULER), scenario.clone());
        let (planes, operated, tries) = (planes.clone(), operated.clone(), tries.clone());
        let name = names::name(&["lives", &scenario.file, "operator", &scenario.name]);
        Case::new(name, &REAL, real_cluster_unavailable(), move |run| {
            // In this order: the second environment needs the first.
            let (planes, operated) = (planes.get(run)?, operated.get(run)?);
            let space = |number: u32| space("scheduled", n, number);
            tries.run(run, &pair.1.name, |it| compare(&operated.server, &planes.real, &pair, &space(it)))?;
            Ok(())
        })
    });
    let label = "lives under muster operator".to_owned();
    let operator = Suite { label, cases: cases.collect(), finish: Box::new(|_| Ok(Vec::new())) };
    Ok(vec![both, operator])
}

fn space(begin: &str, n: usize, number: u32) -> String {
    let end = if number == 0 { "" } else { "-again" };
    format!("{begin}-{n}-{}{end}", std::process::id())
}

/// Starts another real control plane and waits until its operator is leader.
fn start_operated(planes: &Arc<SharedEnvironment<ServerPair>>) -> Result<RealCluster, String> {
    let planes = planes.if_started().ok_or("the pair of servers is not started")?;
    let operated = planes.start_operated_cluster()?;
    until(&operated.server, LEASE, "the operator is leader", |lease| {
        (!lease.str_at(&["spec", "holderIdentity"]).is_empty()).then_some(())
    });
    Ok(operated)
}
