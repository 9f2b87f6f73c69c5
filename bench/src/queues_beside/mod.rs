//! Queues on a real API server, kept by our operator and by upstream's Kueue: how fast Workloads that arrive over time
//! are admitted, and how long each class waits.
//!
//! Each has a fresh server with the same queues; Workloads are made directly and nothing runs but a simulation of their
//! jobs, the same for all, so that only queueing is measured. Upstream runs under the limits on its requests with which
//! its figures are published, under those of its installation, and without any.
//!
//! # Deliberately absent
//!
//! Verdicts. The machine may be busy; the ratios of one run are what can be compared.

mod kueue;
mod lives;
mod load;
mod planes;
mod play;
mod table;

use self::load::Load;
use self::planes::Who;
use crate::api::Options;

/// Runs all and prints them.
pub fn run(options: &Options) {
    let fewer = if options.quick { 10 } else { 1 };
    let mut rows = Vec::new();
    for load in [Load::of("as published", fewer, 1), Load::of("ten times as fast", fewer, 10)] {
        let wanted = |who: &Who| format!("{}: {}", load.name, who.name()).contains(&options.only);
        for who in Who::ALL.into_iter().filter(wanted) {
            eprintln!("{}: {}", load.name, who.name());
            match who.start(options.disk, &load) {
                Ok(plane) => {
                    rows.push(play::play(&plane, &load));
                    // Rows are printed as they come, so that an interrupted run shows them.
                    eprintln!("{}", table::newest(&rows));
                }
                Err(why) => eprintln!("  left out: {why}"),
            }
        }
    }
    if options.json {
        println!("{}", table::json(&rows));
    } else {
        println!("{}", table::text(&rows, options.disk));
    }
}
