//! Memory of an operator that has everything cached: ours that made the Jobs, ours started anew, and the upstream
//! controller, all on the same objects of one real API server.
//!
//! JobSets are suspended and no controller of Jobs runs: what is measured is what is known, not what is done.
//!
//! # Deliberately absent
//!
//! Verdicts. Resident memory depends on the allocator and on what came before; read it as a size.

use std::time::{Duration, Instant};

use muster_tests::real::RealCluster;
use muster_tests::upstream_jobset::{self, ClientLimits};
use muster_tree::Tree;
use tempfile::TempDir;

use crate::api::Options;
use crate::client::Target;
use crate::jobsets::jobset;
use crate::measure::{cpu_of, resident_of};
use crate::up;

const SETS: &str = "POST /apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets";
const JOBS: &str = "GET /apis/batch/v1/namespaces/default/jobs?limit=1";
const JOBS_EACH: usize = 4;
/// JobSets, in full and to see that it works.
const SETS_FULL: usize = 10_000;
const SETS_QUICK: usize = 500;
/// How long the Jobs may take to be made.
const MADE_MAX: Duration = Duration::from_secs(1200);
/// A controller is still when it uses no CPU worth speaking of for this long.
const STILL: Duration = Duration::from_secs(5);
const STILL_CPU: Duration = Duration::from_millis(150);
const STILL_MAX: Duration = Duration::from_secs(300);
const WORDS: [&str; 4] = ["--controllers", "jobset", "--admission", ""];

/// Runs it and prints it.
pub fn run(options: &Options) {
    let sets = if options.quick { SETS_QUICK } else { SETS_FULL };
    match measure(options, sets) {
        Ok(rows) => {
            println!("operator: resident memory with {sets} JobSets and {} Jobs cached", sets * JOBS_EACH);
            for (who, bytes) in rows {
                println!("  {who:<32} {:>8.1} MB", bytes as f64 / 1e6);
            }
        }
        Err(why) => eprintln!("operator: left out: {why}"),
    }
}

fn measure(options: &Options, sets: usize) -> Result<Vec<(&'static str, u64)>, String> {
    let folder = TempDir::new().map_err(|e| e.to_string())?;
    let mut real = RealCluster::start_without_controllers(options.disk)?;
    real.create_jobset_crd(&up::binary())?;
    let target = Target::of_token(real.server.base(), real.token());
    let mut rows = Vec::new();
    let ours = real.start_operator_as_admin(&up::binary(), &WORDS)?;
    make(&target, sets)?;
    rows.push(("muster operator, that made them", still(ours)));
    real.kill(ours)?;
    // The lease of the one that was killed has to run out first.
    let again = real.start_operator_as_admin(&up::binary(), &WORDS)?;
    rows.push(("muster operator, started anew", still(again)));
    real.kill(again)?;
    match upstream_jobset::start(&mut real, folder.path(), ClientLimits::Lifted) {
        Ok(upstream) => rows.push(("upstream, started on the same", still(upstream.pid))),
        Err(why) => eprintln!("  upstream left out: {why}"),
    }
    Ok(rows)
}

/// Creates suspended JobSets and waits for their Jobs.
fn make(target: &Target, sets: usize) -> Result<(), String> {
    let one = |n: usize| {
        let set = jobset(&format!("set-{n:05}"), "default", JOBS_EACH).with(&["spec", "suspend"], true);
        vec![(SETS.to_owned(), "application/json", set)]
    };
    let began = Instant::now();
    target.send_all(sets, one);
    eprintln!("  {sets} JobSets after {:.0?}", began.elapsed());
    while began.elapsed() < MADE_MAX {
        if jobs(target) == sets * JOBS_EACH {
            eprintln!("  {} Jobs after {:.0?}", sets * JOBS_EACH, began.elapsed());
            return Ok(());
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    Err(format!("{} Jobs after {MADE_MAX:?}", jobs(target)))
}

/// The number of Jobs: a first page and its `remainingItemCount`.
fn jobs(target: &Target) -> usize {
    let request = target.request(JOBS, "", b"");
    let mut connection = target.connect().expect("the server listens");
    let (_, body) = connection.send(&request).expect("the server answers");
    let list = Tree::parse(body).unwrap_or_default();
    let rest = list.int_at(&["metadata", "remainingItemCount"]).unwrap_or(0);
    list.items_at(&["items"]).len() + usize::try_from(rest).unwrap_or(0)
}

/// Resident memory of a controller that has nothing left to do.
fn still(pid: u32) -> u64 {
    let began = Instant::now();
    // What it has to do begins a moment after its start.
    std::thread::sleep(STILL);
    while began.elapsed() < STILL_MAX {
        let before = cpu_of(pid);
        std::thread::sleep(STILL);
        if cpu_of(pid) - before < STILL_CPU {
            break;
        }
    }
    resident_of(pid)
}
