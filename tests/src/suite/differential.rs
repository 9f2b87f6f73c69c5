//! The same requests to the embedded server and to a real one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::shared_environment::SharedEnvironment;
use super::{Case, CaseError, Suite, SuiteSummary, names, real_cluster_unavailable};
use crate::differential::{DifferenceTally, Finding, RequestScenario, differences, load};
use crate::limits::{CLUSTER_SCOPED, Limit, REAL};
use crate::random;
use crate::server_pair::ServerPair;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// A pair with controllers that do not write compared objects, and the CRDs of [`random`], which are created before any scenario reads
/// the discovery.
pub(super) fn pair() -> Arc<SharedEnvironment<ServerPair>> {
    SharedEnvironment::new("a pair of quiet planes", || {
        let planes = ServerPair::existing_or_new()?;
        random::create_crds(&planes.ours, &planes.real, &random::kinds(&random::folder())?)?;
        Ok(planes)
    })
}

pub(super) fn suite(pair: &Arc<SharedEnvironment<ServerPair>>) -> Result<Suite, String> {
    let tally = Arc::new(Mutex::new(DifferenceTally::new(&folder())?));
    let cases = load(&folder())?.into_iter().map(|scenario| case(pair, &tally, scenario)).collect();
    let finish = move |summary: &SuiteSummary| {
        let report = tally.lock().unwrap_or_else(PoisonError::into_inner).report();
        if summary.all_passed() {
            report.check()?;
        }
        Ok(report.to_string().lines().last().map(str::to_owned).into_iter().collect())
    };
    Ok(Suite { label: "differential".to_owned(), cases, finish: Box::new(finish) })
}

fn case(
    pair: &Arc<SharedEnvironment<ServerPair>>,
    tally: &Arc<Mutex<DifferenceTally>>,
    scenario: RequestScenario,
) -> Case {
    let (pair, tally) = (pair.clone(), tally.clone());
    let name = names::name(&["differential", &scenario.file, &scenario.name]);
    let limit: &'static Limit = if scenario.is_namespaced() { &REAL } else { &CLUSTER_SCOPED };
    Case::new(name, limit, real_cluster_unavailable(), move |run| {
        let planes = pair.get(run)?;
        let found = differences(&planes.ours, &planes.real, &scenario)?;
        let new = tally.lock().unwrap_or_else(PoisonError::into_inner).add(&scenario, found);
        if new.is_empty() { Ok(()) } else { Err(CaseError::Failed(shown(&new))) }
    })
}

fn shown(found: &[Finding]) -> String {
    let lines = found.iter().map(|it| format!("{}. {}\n    {}", it.step, it.call, it.difference));
    lines.collect::<Vec<_>>().join("\n  ")
}
