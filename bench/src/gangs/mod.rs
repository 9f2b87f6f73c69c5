//! Gangs in the scheduler alone, in memory: what one costs, how many pods per second, what making room costs, and how
//! the cost grows with nodes and with pods.
//!
//! Each scene is played in rounds on one scheduler: gangs come, are decided about one by one, and are gone before the
//! next round. The figure of a gang is the CPU time of this thread for its decision, which a busy machine does
//! not change much; the time on the clock stands beside it.
//!
//! # Deliberately absent
//!
//! Binding: a decision is counted when it is made. `gangs-beside` has the whole way.

pub mod beside;
mod play;
mod scene;
mod table;

use self::play::Row;
use self::scene::Block;
use crate::api::Options;

/// Runs all scenes and prints them.
pub fn run(options: &Options) {
    let mut rows: Vec<Row> = Vec::new();
    for scene in Block::ALL.into_iter().flat_map(|block| block.scenes(options.quick)) {
        eprintln!("  {}: {}", scene.block.name(), scene.what);
        rows.extend(play::play(&scene));
    }
    if options.json {
        println!("{}", table::json(&rows));
    } else {
        println!("{}", table::text(&rows));
    }
}
