//! Many that wait: for the end of their time to live, and for their deadline.
//!
//! Half of them are finished, half are not. Nothing is due, so nothing may be written or even looked at.

use std::time::{Duration, Instant};

use muster_tree::tree;

use super::SCENE_MAX;
use super::lives::{Lives, Mark, Of, now};
use super::numbers::{mega, millis_a_minute};
use super::objects::{Runtime, Spaces, Wish, completed};
use super::plane::{Plane, Store};
use super::report::Report;
use crate::measure::cpu_of;

/// How many, in full and to see that it works.
const FULL: [usize; 2] = [5_000, 50_000];
const QUICK: [usize; 2] = [200, 1_000];
/// How long the plane is left alone.
const STILL_FULL: Duration = Duration::from_secs(60);
const STILL_QUICK: Duration = Duration::from_secs(10);
const DAY_SECS: u32 = 86_400;
const WISH: Wish =
    Wish { runtime: Runtime::BRIEF, ttl_secs: DAY_SECS, deadline_secs: DAY_SECS, suspended: false };

/// The cost of an idle control plane.
struct Still {
    cpu_millis_a_minute: f64,
    /// Revisions of the store: the writes of all clients.
    writes: f64,
    /// Calls of controllers, and keys they looked at.
    calls: f64,
    looks: f64,
}

/// Runs it and prints it.
pub fn run(quick: bool, report: &mut Report) {
    let (sizes, still) = if quick { (QUICK, STILL_QUICK) } else { (FULL, STILL_FULL) };
    report.say(&format!(
        "\n  pending: half finished with a TTL of a day, half unfinished with a deadline of a day; each has a JobSet and a \
         snapshot ConfigMap,\n  no Jobs, no pods; left alone for {} s; store in memory",
        still.as_secs()
    ));
    report.say(&format!(
        "    {:>9} {:>7} {:>8} {:>11} {:>15} {:>7} {:>7} {:>7} {:>10} {:>9}",
        "TrainJobs",
        "made s",
        "RSS MB",
        "bytes each",
        "idle CPU ms/min",
        "writes",
        "calls",
        "looks",
        "scrape ms",
        "of KB"
    ));
    for count in std::iter::once(0).chain(sizes) {
        row(count, still, report);
    }
}

fn row(count: usize, still: Duration, report: &mut Report) {
    let plane = Plane::bare(Store::Memory);
    let spaces = Spaces { crowded: count / 5, small: 40 };
    plane.furnish(spaces.requests().into_iter().chain([Runtime::BRIEF.request()]));
    plane.await_still();
    let empty = plane.resident();
    let began = Instant::now();
    if !make(&plane, spaces, count) {
        report.check(false, &format!("{count} TrainJobs do not come to wait within {SCENE_MAX:?}"));
        return;
    }
    let made = began.elapsed();
    plane.await_still();
    let resident = plane.resident();
    let each = resident.saturating_sub(empty) as f64 / count.max(1) as f64;
    let (scrape, bytes) = scrape(&plane);
    let idle = leave_alone(&plane, still);
    report.say(&format!(
        "    {count:>9} {:>7.1} {:>8.1} {each:>11.0} {:>15.0} {:>7} {:>7} {:>7} {:>10.1} {:>9.1}",
        made.as_secs_f64(),
        mega(resident),
        idle.cpu_millis_a_minute,
        idle.writes,
        idle.calls,
        idle.looks,
        scrape.as_secs_f64() * 1e3,
        bytes as f64 / 1024.0,
    ));
    let done = idle.writes + idle.calls + idle.looks;
    report.check(done == 0.0, &format!("{count} TrainJobs that wait are looked at or written to"));
    report.keep(
        "pending",
        &tree!({"trainJobs": count as i64, "madeSeconds": made.as_secs_f64(), "residentBytes": resident as i64,
            "emptyResidentBytes": empty as i64, "bytesEach": each, "stillSeconds": still.as_secs_f64(),
            "idleCpuMillisPerMinute": idle.cpu_millis_a_minute, "idleWrites": idle.writes,
            "idleCalls": idle.calls, "idleLooks": idle.looks, "scrapeSeconds": scrape.as_secs_f64(),
            "scrapeBytes": bytes as i64}),
    );
}

/// Makes them and ends every other one; whether all came to wait.
fn make(plane: &Plane, spaces: Spaces, count: usize) -> bool {
    if count == 0 {
        return true;
    }
    let jobs = Lives::follow(&plane.target, Of::TrainJobs, count);
    let sets = Lives::follow(&plane.target, Of::JobSets, count);
    plane.target.send_all(count, |n| vec![WISH.request(n, &spaces.of(n))]);
    if !sets.until(Mark::Made, count, SCENE_MAX) {
        return false;
    }
    let since = now();
    plane.target.send_all(count / 2, |n| vec![completed(2 * n, &spaces.of(2 * n), since)]);
    jobs.until(Mark::Complete, count / 2, SCENE_MAX)
}

/// How long a scrape of all metrics takes, and its size in bytes.
fn scrape(plane: &Plane) -> (Duration, usize) {
    let began = Instant::now();
    let bytes = plane.numbers().0.len();
    (began.elapsed(), bytes)
}

fn leave_alone(plane: &Plane, still: Duration) -> Still {
    let before = plane.numbers();
    let (cpu, began) = (cpu_of(plane.pid), Instant::now());
    std::thread::sleep(still);
    let (cpu, over) = (cpu_of(plane.pid).saturating_sub(cpu), began.elapsed());
    let after = plane.numbers();
    let more = |name: &str| after.sum(name, "") - before.sum(name, "");
    Still {
        cpu_millis_a_minute: millis_a_minute(cpu, over),
        writes: more("muster_store_revision"),
        calls: more("muster_controller_calls_total"),
        looks: more("muster_controller_plans_total"),
    }
}
