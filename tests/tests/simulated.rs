//! Scenarios on simulated planes, under virtual time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use muster_tests::clients::note;
use muster_tests::simulated::{Case, cases};

/// Plays some scenarios only, for people.
fn filter() -> String {
    std::env::var("MUSTER_TEST_SIMULATED").unwrap_or_default()
}

/// Plays the scenarios of a dialect on as many threads as the machine has processors.
fn play(dialect: &str, least: usize) {
    let mut all = cases().unwrap();
    all.retain(|case| case.dialect == dialect);
    assert!(all.len() >= least, "only {} scenarios", all.len());
    let chosen: Vec<&Case> = all.iter().filter(|case| case.name.contains(&filter())).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(case) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = case.play() {
                        wrong.lock().unwrap().push(format!("{}: {why}", case.name));
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), chosen.len(), wrong.join("\n\n"));
    note(&format!("{dialect}: {} scenarios as they should be under virtual time", chosen.len()));
}

#[test]
fn train_jobs_under_virtual_time() {
    play("trains", 200);
}

#[test]
fn queued_pods_under_virtual_time() {
    play("queues", 100);
}

#[test]
fn jobsets_under_virtual_time() {
    play("jobsets", 130);
}

#[test]
fn gangs_under_virtual_time() {
    play("gangs", 100);
}
