//! TrainJobs with a time to live and a deadline in our own plane: what many that wait cost, how soon they go when their
//! time is over, how exactly deadlines are kept, and whether what went leaves anything behind.
//!
//! Most scenes run nothing: TrainJobs become JobSets and snapshots of their runtime, and the bench writes how the
//! JobSets ended, at the time it wants them to have ended. What is deleted then is all that the trainer makes. Two scenes
//! have the whole plane with simulated pods.
//!
//! # Deliberately absent
//!
//! Verdicts about times. What is counted and has to hold is checked: a world that stands still writes nothing, and
//! nothing is left of what went.

mod churn;
mod deadlines;
mod expiry;
pub mod lives;
pub mod numbers;
pub mod objects;
mod pending;
mod plane;
mod report;
mod whole;

use std::time::Duration;

pub use self::expiry::gone;
use self::report::Report;
use crate::api::Options;
use crate::client::IN_FLIGHT;
use crate::measure::busy;

/// How long anything in a scene may take.
const SCENE_MAX: Duration = Duration::from_secs(600);

/// Runs all scenes and prints them; whether all held that can be counted.
pub fn run(options: &Options) -> bool {
    let mut report = Report::new(options.json);
    report.say(&format!(
        "trainjobs: our own plane, requests over HTTPS, {IN_FLIGHT} at once; load average of the machine {}",
        busy()
    ));
    pending::run(options.quick, &mut report);
    expiry::run(options.quick, &mut report);
    deadlines::run(options.quick, &mut report);
    whole::run(options.quick, &mut report);
    churn::run(options.quick, &mut report);
    report.end()
}
