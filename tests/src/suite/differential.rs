//! The same requests to our server and to a real one.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::planes::Shared;
use super::{Case, Stop, Suite, Summary, names, real_missing};
use crate::differential::{Finding, Scenario, Tally, differences, load};
use crate::limits::{CLUSTER_SCOPED, Limit, REAL};
use crate::planes::Planes;
use crate::random;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios")
}

/// A pair with the controllers that write into no object that is compared, and the CRDs of [`random`]: created before any
/// scenario reads the discovery.
pub(super) fn pair() -> Arc<Shared<Planes>> {
    Shared::new("a pair of quiet planes", || {
        let planes = Planes::given_or_new()?;
        random::define(&planes.ours, &planes.real, &random::kinds(&random::folder())?)?;
        Ok(planes)
    })
}

pub(super) fn suite(pair: &Arc<Shared<Planes>>) -> Result<Suite, String> {
    let tally = Arc::new(Mutex::new(Tally::new(&folder())?));
    let cases = load(&folder())?.into_iter().map(|scenario| case(pair, &tally, scenario)).collect();
    let finish = move |summary: &Summary| {
        let report = tally.lock().unwrap_or_else(PoisonError::into_inner).report();
        if summary.is_whole() {
            report.verdict()?;
        }
        Ok(report.to_string().lines().last().map(str::to_owned).into_iter().collect())
    };
    Ok(Suite { label: "differential".to_owned(), cases, finish: Box::new(finish) })
}

fn case(pair: &Arc<Shared<Planes>>, tally: &Arc<Mutex<Tally>>, scenario: Scenario) -> Case {
    let (pair, tally) = (pair.clone(), tally.clone());
    let name = names::name(&["differential", &scenario.file, &scenario.name]);
    let limit: &'static Limit = if scenario.stays_inside() { &REAL } else { &CLUSTER_SCOPED };
    Case::new(name, limit, real_missing(), move |run| {
        let planes = pair.get(run)?;
        let found = differences(&planes.ours, &planes.real, &scenario)?;
        let new = tally.lock().unwrap_or_else(PoisonError::into_inner).add(&scenario, found);
        if new.is_empty() { Ok(()) } else { Err(Stop::Failed(shown(&new))) }
    })
}

fn shown(found: &[Finding]) -> String {
    let lines = found.iter().map(|it| format!("{}. {}\n    {}", it.step, it.call, it.difference));
    lines.collect::<Vec<_>>().join("\n  ")
}
