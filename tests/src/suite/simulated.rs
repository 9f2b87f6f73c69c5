//! Scenarios of JobSets, queues, TrainJobs and gangs on simulated planes, under virtual time.

use super::{Case, Stop, Suite, names};
use crate::limits::VIRTUAL_TIME;
use crate::simulated::cases;

/// The dialects that are played there.
const DIALECTS: [&str; 4] = ["jobsets", "queues", "trains", "gangs"];

/// A suite for each dialect. Every scenario has a plane of its own.
pub fn suites() -> Result<Vec<Suite>, String> {
    let mut suites = DIALECTS.map(|dialect| Suite {
        label: format!("{dialect} under virtual time"),
        cases: Vec::new(),
        finish: Box::new(|_| Ok(Vec::new())),
    });
    for case in cases()? {
        let at = DIALECTS.iter().position(|it| *it == case.dialect);
        let at = at.ok_or_else(|| format!("{}: no suite has this dialect", case.dialect))?;
        let name = names::name(&[case.dialect, &case.file, "simulated", &case.name]);
        suites[at]
            .cases
            .push(Case::new(name, &VIRTUAL_TIME, None, move |_| case.play().map_err(Stop::Failed)));
    }
    Ok(suites.into())
}
