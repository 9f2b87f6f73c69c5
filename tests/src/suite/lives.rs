//! Jobs and other objects on our plane and on a real one; objects with pods also under our scheduler on a real server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::planes::Shared;
use super::second::SecondTries;
use super::{Case, Suite, names, real_missing};
use crate::beside::until;
use crate::limits::REAL;
use crate::lives::{Pair, compare, load};
use crate::planes::Planes;
use crate::real::Real;

/// The scheduler that pods name beside a real server.
const SCHEDULER: &str = "muster-scheduler";
/// The lease of the operator: its holder schedules.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-operator";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("lives")
}

pub fn suites() -> Result<Vec<Suite>, String> {
    let lives = load(&folder())?;
    let planes = Shared::new("a pair of planes on which work runs", Planes::work);
    let under = planes.clone();
    // A plane of its own: on the other real one kube-scheduler decides.
    let operated = Shared::new("a real plane under our scheduler", move || start_operated(&under));

    let tries = SecondTries::default();
    let cases = lives.iter().enumerate().map(|(n, life)| {
        let (planes, tries, pair) = (planes.clone(), tries.clone(), (life.clone(), life.clone()));
        let name = names::name(&["lives", &life.file, &life.name]);
        Case::new(name, &REAL, real_missing(), move |run| {
            let planes = planes.get(run)?;
            let space = |number: u32| space("life", n, number);
            tries.play(run, &pair.0.name, |it| compare(&planes.ours, &planes.real, &pair, &space(it)))?;
            Ok(())
        })
    });
    let both =
        Suite { label: "lives".to_owned(), cases: cases.collect(), finish: Box::new(|_| Ok(Vec::new())) };

    let tries = SecondTries::default();
    let objects = lives.iter().filter(|life| !life.objects.is_empty()).enumerate();
    let cases = objects.map(|(n, life)| {
        let pair: Pair = (life.scheduled_by(SCHEDULER), life.clone());
        let (planes, operated, tries) = (planes.clone(), operated.clone(), tries.clone());
        let name = names::name(&["lives", &life.file, "operator", &life.name]);
        Case::new(name, &REAL, real_missing(), move |run| {
            // In this order: the second is started beside the first.
            let (planes, operated) = (planes.get(run)?, operated.get(run)?);
            let space = |number: u32| space("scheduled", n, number);
            tries.play(run, &pair.1.name, |it| compare(&operated.server, &planes.real, &pair, &space(it)))?;
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

/// A further real plane, whose operator is the leader.
fn start_operated(planes: &Arc<Shared<Planes>>) -> Result<Real, String> {
    let planes = planes.if_started().ok_or("the pair of planes is not there")?;
    let operated = planes.operated()?;
    until(&operated.server, LEASE, "an operator in charge", |lease| {
        (!lease.str_at(&["spec", "holderIdentity"]).is_empty()).then_some(())
    });
    Ok(operated)
}
