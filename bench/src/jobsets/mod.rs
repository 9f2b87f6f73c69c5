//! JobSets to Jobs, restarted, suspended and resumed: our controller and the upstream one on the same real API server,
//! and ours inside its own.
//!
//! Every controller meets every load on a fresh plane with a garbage collector and without a Job controller: nothing
//! but the two under comparison writes Jobs. A failed Job is failed by us, as its controller would fail it.
//!
//! # Deliberately absent
//!
//! Verdicts. The machine may be busy; the ratios of one run are what can be compared.

pub mod calls;
mod follow;
mod load;
mod planes;
mod table;

use std::time::Instant;

pub use self::load::jobset;
use self::load::{Load, Row};
use self::planes::Who;
use crate::api::Options;

/// Runs it and prints it.
pub fn run(options: &Options) {
    let began = Instant::now();
    let loads = if options.quick { Load::QUICK } else { Load::FULL };
    let mut rows: Vec<Row> = Vec::new();
    for load in loads {
        for who in Who::ALL {
            eprintln!("{} of {}: {}", load.sets, load.jobs_each, who.name());
            match who.start(options.disk) {
                Ok(plane) => rows.extend(load::play(&plane, load)),
                Err(why) => eprintln!("  left out: {why}"),
            }
        }
    }
    if options.json {
        println!("{}", table::json(&rows));
    } else {
        println!("{}", table::text(&rows, options.disk, began.elapsed()));
    }
}
