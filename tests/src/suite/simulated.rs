//! Scenarios of JobSets, queues, TrainJobs and gangs under virtual time.

use super::{Case, CaseError, Suite, names};
use crate::limits::VIRTUAL_TIME;
use crate::simulated::cases;

/// Dialects that run under virtual time.
const DIALECTS: [&str; 4] = ["jobsets", "queues", "trains", "gangs"];

/// A suite per dialect. Every scenario has its own control plane.
pub fn suites() -> Result<Vec<Suite>, String> {
    let mut suites = DIALECTS.map(|dialect| Suite {
        label: format!("{dialect} under virtual time"),
        cases: Vec::new(),
        finish: Box::new(|_| Ok(Vec::new())),
    });
    for case in cases()? {
        let at = DIALECTS.iter().position(|it| *it == case.dialect);
        let at = at.ok_or_else(|| format!("{}: unknown dialect", case.dialect))?;
        let name = names::name(&[case.dialect, &case.file, "simulated", &case.name]);
        suites[at]
            .cases
            .push(Case::new(name, &VIRTUAL_TIME, None, move |_| case.run().map_err(CaseError::Failed)));
    }
    Ok(suites.into())
}
