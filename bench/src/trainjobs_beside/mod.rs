//! TrainJobs on a real API server, kept by our operator and by upstream's Trainer: how soon a TrainJob has its JobSet, how
//! soon its status says what happened, and what that costs.
//!
//! Each has a fresh server with a garbage collector and without anything that runs JobSets: the bench writes how they
//! ended. Both have their webhooks asked, under the configuration of their installation; upstream also without limits
//! on its requests, where its configuration can lift them. Ours has a time to live in addition.
//!
//! # Deliberately absent
//!
//! Verdicts. The machine may be busy; the ratios of one run are what can be compared.

mod planes;
mod play;
mod table;
mod upstream;

use self::planes::Who;
use crate::api::Options;

/// TrainJobs, in full and to see that it works.
const FULL: usize = 1_000;
const QUICK: usize = 100;

/// Runs all and prints them.
pub fn run(options: &Options) {
    let count = if options.quick { QUICK } else { FULL };
    let mut rows = Vec::new();
    for who in Who::ALL {
        eprintln!("{count} TrainJobs: {}", who.name());
        match who.start(options.disk) {
            Ok(plane) => {
                let new = play::play(&plane, count);
                // Rows are printed as they come, so that an interrupted run shows them.
                new.iter().for_each(|row| eprintln!("{}", table::lines(row)));
                rows.extend(new);
            }
            Err(why) => eprintln!("  left out: {why}"),
        }
    }
    if options.json {
        println!("{}", table::json(&rows));
    } else {
        println!("{}", table::text(&rows, options.disk));
    }
}
