//! Many TTLs that expire in the same second.

use std::time::{Duration, Instant};

use muster_api::time::Time;
use muster_tree::{Tree, tree};

use super::SCENE_MAX;
use super::lives::{Life, Lives, Mark, Of, now};
use super::numbers::{Numbers, Spread, seconds};
use super::objects::{Runtime, Spaces, Wish, completed};
use super::plane::{Plane, Store};
use super::report::Report;
use crate::measure::{await_quiet, cpu_of};

/// How many, and how many of them in one namespace; in full and to see that it works.
const FULL: (usize, usize) = (5_000, 1_000);
const QUICK: (usize, usize) = (250, 50);
/// The number of intervals for which the rate is printed.
const PARTS: usize = 10;
/// Long enough for all to finish before it is over: what finished so long ago is due when the bench says.
const TTL: Duration = Duration::from_secs(3_600);
const WISH: Wish = Wish { runtime: Runtime::BRIEF, ttl_secs: 3_600, deadline_secs: 86_400, suspended: false };
/// What there is between the last that finishes and the second at which all are due.
const PAUSE: Duration = Duration::from_secs(5);
/// What goes with a TrainJob.
const KINDS: [&str; 3] = ["trainjobs", "jobsets", "configmaps"];
/// The histogram of the controller itself.
pub const LATENCY: &str = "trainjob_ttl_deletion_latency_seconds";

/// Runs it and prints it.
pub fn run(quick: bool, report: &mut Report) {
    let (count, crowded) = if quick { QUICK } else { FULL };
    report.say(&format!(
        "\n  due at once: {count} finished TrainJobs whose TTL is over in the same second, {crowded} of them in one namespace; \
         with each go\n  a JobSet and a snapshot ConfigMap, in the foreground; seconds from due to DELETED (aims: p99 under 1 s, \
         10000 a minute)"
    ));
    for store in [Store::Memory, Store::Disk] {
        row(store, count, Spaces { crowded, small: 40 }, report);
    }
}

fn row(store: Store, count: usize, spaces: Spaces, report: &mut Report) {
    let plane = Plane::bare(store);
    plane.furnish(spaces.requests().into_iter().chain([Runtime::BRIEF.request()]));
    let before = plane.stored(KINDS);
    let jobs = Lives::follow(&plane.target, Of::TrainJobs, count);
    let Some(due) = finish(&plane, &jobs, spaces, count) else {
        report.check(false, &format!("{count} TrainJobs do not finish within {SCENE_MAX:?}"));
        return;
    };
    let late = jobs.all().iter().filter(|life| life.at(Mark::Complete).is_none_or(|at| at >= due)).count();
    std::thread::sleep(due.since(now()));
    let cpu = cpu_of(plane.pid);
    let all_gone = jobs.until(Mark::Gone, count, SCENE_MAX);
    let cpu = cpu_of(plane.pid).saturating_sub(cpu);
    let gone = gone(&jobs.all(), TTL);
    await_quiet(plane.pid);
    let numbers = plane.numbers();
    let left = plane.stored(KINDS);
    tell(store, &gone, cpu, &numbers, report);
    report.check(
        late == 0,
        &format!("{late} finished only when they were due: the machine is too slow for {PAUSE:?}"),
    );
    report.check(all_gone, &format!("{} of {count} are gone after {SCENE_MAX:?}", gone.count()));
    report.check(left == before, &format!("of {KINDS:?} {left:?} are left, and there were {before:?}"));
    let counted = numbers.sum(&format!("{LATENCY}_count"), "");
    report.check(counted == count as f64, &format!("the controller counts {counted} deletions of {count}"));
}

/// Has all made and finished, so that all are due at the same second; which.
fn finish(plane: &Plane, jobs: &Lives, spaces: Spaces, count: usize) -> Option<Time> {
    let sets = Lives::follow(&plane.target, Of::JobSets, count);
    let began = Instant::now();
    plane.target.send_all(count, |n| vec![WISH.request(n, &spaces.of(n))]);
    if !sets.until(Mark::Made, count, SCENE_MAX) {
        return None;
    }
    // To end them takes no longer than to make them.
    let due = (now() + began.elapsed() + PAUSE).whole_seconds();
    let since = Time(due.0 - i64::try_from(TTL.as_micros()).unwrap_or(0));
    plane.target.send_all(count, |n| vec![completed(n, &spaces.of(n), since)]);
    jobs.until(Mark::Complete, count, SCENE_MAX).then_some(due)
}

/// How long after they were due those went that went.
pub fn gone(lives: &[Life], ttl: Duration) -> Spread {
    Spread::new(lives.iter().filter_map(|life| Some(seconds(life.at(Mark::Gone)?, life.ended? + ttl))))
}

fn tell(store: Store, gone: &Spread, cpu: Duration, numbers: &Numbers, report: &mut Report) {
    let rate = gone.count() as f64 * 60.0 / gone.max().max(1e-3);
    report.say(&format!(
        "    store in {:<6} {rate:>8.0} a minute   {}   CPU {:.2} s",
        store.name(),
        gone.text(),
        cpu.as_secs_f64()
    ));
    let sum = |part: &str| numbers.sum(&format!("{LATENCY}_{part}"), "");
    let mean = sum("sum") / sum("count").max(1.0);
    let (median, most) = (numbers.bound(LATENCY, 0.5), numbers.bound(LATENCY, 0.99));
    report.say(&format!(
        "      by the controller, until accepted: mean {mean:.3}  p50 up to {median}  p99 up to {most}, of {}",
        sum("count")
    ));
    let rates = gone.rates(PARTS);
    let parts: Vec<String> = rates.iter().map(|(until, rate)| format!("{rate:.0} by {until:.1} s")).collect();
    report.say(&format!("      a minute, over time: {}", parts.join(", ")));
    let part = |(until, rate): &(f64, f64)| tree!({"untilSeconds": *until, "perMinute": *rate});
    report.keep(
        "due at once",
        &tree!({"store": store.name(), "deletionsPerMinute": rate, "seconds": gone.tree(),
            "cpuSeconds": cpu.as_secs_f64(), "slices": Tree::list(rates.iter().map(part)),
            "byController": {"count": sum("count"), "mean": mean, "p50UpTo": finite(median), "p99UpTo": finite(most)}}),
    );
}

fn finite(bound: f64) -> Tree {
    if bound.is_finite() { tree!(bound) } else { Tree::Null }
}
