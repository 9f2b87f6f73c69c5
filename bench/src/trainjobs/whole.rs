//! From a TrainJob to nothing: made, run, finished and gone after its time to live, with all that it had.
//!
//! The whole plane. Each is due at a time of its own, and others still start while the first go.

use std::time::{Duration, Instant};

use muster_tree::tree;

use super::SCENE_MAX;
use super::expiry;
use super::lives::{Lives, Mark, Of};
use super::numbers::{Spread, seconds};
use super::objects::{Runtime, Wish};
use super::plane::{Plane, Store};
use super::report::Report;
use crate::measure::{await_quiet, cpu_of};

const FULL: usize = 1_000;
const QUICK: usize = 50;
const NODES: usize = 20;
const TTL: Duration = Duration::from_secs(5);
const WISH: Wish = Wish { runtime: Runtime::BRIEF, ttl_secs: 5, deadline_secs: 3_600, suspended: false };
/// What has to be gone in the end.
const KINDS: [&str; 5] = ["trainjobs", "jobsets", "jobs", "pods", "services"];

/// Runs it and prints it.
pub fn run(quick: bool, report: &mut Report) {
    let count = if quick { QUICK } else { FULL };
    report.say(&format!(
        "\n  whole lives: {count} TrainJobs of one pod that runs {} s, TTL {} s, the whole plane, {NODES} simulated nodes; with each go \
         a JobSet,\n  a Job, a pod, a Service and a snapshot ConfigMap",
        Runtime::BRIEF.run_seconds,
        TTL.as_secs()
    ));
    let plane = Plane::whole(Store::Disk, NODES);
    plane.furnish([Runtime::BRIEF.request()]);
    let before = plane.stored(KINDS);
    let jobs = Lives::follow(&plane.target, Of::TrainJobs, count);
    let (began, cpu) = (Instant::now(), cpu_of(plane.pid));
    plane.target.send_all(count, |n| vec![WISH.request(n, "default")]);
    let all_gone = jobs.until(Mark::Gone, count, SCENE_MAX);
    let (wall, cpu) = (began.elapsed(), cpu_of(plane.pid).saturating_sub(cpu));
    let lives = jobs.all();
    let lasted = Spread::new(
        lives.iter().filter_map(|life| Some(seconds(life.at(Mark::Complete)?, life.at(Mark::Made)?))),
    );
    let gone = expiry::gone(&lives, TTL);
    report.say(&format!("    made to complete       {}", lasted.text()));
    report.say(&format!("    due to gone            {}", gone.text()));
    report.say(&format!(
        "    all of it              {:.1} s, CPU {:.2} s",
        wall.as_secs_f64(),
        cpu.as_secs_f64()
    ));
    report.keep(
        "whole lives",
        &tree!({"trainJobs": count as i64, "complete": lasted.tree(), "gone": gone.tree(),
            "seconds": wall.as_secs_f64(), "cpuSeconds": cpu.as_secs_f64()}),
    );
    report.check(all_gone, &format!("{} of {count} are gone after {SCENE_MAX:?}", jobs.count(Mark::Gone)));
    await_quiet(plane.pid);
    let left = plane.stored(KINDS);
    report.check(left == before, &format!("of {KINDS:?} {left:?} are left, and there were {before:?}"));
}
