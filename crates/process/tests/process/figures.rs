//! Figures, printed on demand: `cargo test -p muster-process --test process -- --ignored --nocapture figures`.

use std::fs;
use std::time::SystemTime;

use muster_process::Containers;

use crate::world::{BOTH, World, processes_with};

/// How many are started for one figure.
const RUNS: usize = 20;

#[test]
#[ignore = "prints figures, checks nothing"]
#[expect(clippy::disallowed_methods, reason = "measures")]
fn figures() {
    for isolation in BOTH {
        let world = World::new(isolation);
        let mut micros: Vec<u128> = Vec::new();
        for at in 0..RUNS {
            let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            let (_, log) = world.run(&world.launch(&format!("quick{at}"), &["date", "+%s%N"]));
            let began: u128 = log.trim().parse().unwrap();
            micros.push((began - before.as_nanos()) / 1000);
        }
        micros.sort_unstable();
        let id = world.start(&world.launch("long", &["sleep", "1000"]));
        world.running(&id);
        let size = |word: &str| {
            let ours = processes_with(&world.dir.path().display().to_string());
            let pid = processes_with(word).into_iter().find(|pid| ours.contains(pid)).unwrap();
            let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
            let kib =
                |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
            format!("rss {}, private {}", kib("Rss:"), kib("Private_Dirty:"))
        };
        println!(
            "{isolation:?}: first instruction after {} us (median of {RUNS}; best {}, worst {}); supervisor {}; first {}",
            micros[RUNS / 2],
            micros[0],
            micros[RUNS - 1],
            size("__supervise"),
            size("__inside"),
        );
        world.processes.kill(&id);
        world.ended(&id);
    }
}
