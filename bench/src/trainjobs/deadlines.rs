//! A hundred at once with both fields: how exactly the deadline is kept, and that they go afterwards.
//!
//! The whole plane, with pods that would run for ever.

use std::time::Duration;

use muster_tree::{Tree, tree};

use super::SCENE_MAX;
use super::expiry;
use super::lives::{Life, Lives, Mark, Of, now};
use super::numbers::{Spread, seconds};
use super::objects::{Runtime, Wish};
use super::plane::{Plane, Store};
use super::report::Report;
use crate::measure::await_quiet;

const COUNT: usize = 100;
const NODES: usize = 20;
const SPACE: &str = "default";
/// Long enough for all pods to run.
const DEADLINE: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(5);
const WISH: Wish = Wish { runtime: Runtime::ENDLESS, ttl_secs: 5, deadline_secs: 20, suspended: false };
/// How long before the deadline is counted what runs.
const LOOK_BEFORE: Duration = Duration::from_secs(2);
/// What has to be gone in the end.
const KINDS: [&str; 4] = ["trainjobs", "jobsets", "jobs", "pods"];

/// Runs it and prints it.
pub fn run(_quick: bool, report: &mut Report) {
    report.say(&format!(
        "\n  deadlines: {COUNT} TrainJobs at once with a deadline of {} s and a TTL of {} s, the whole plane, {NODES} simulated nodes; \
         seconds\n  beside the time at which it was due (aim: 0.2 s)",
        DEADLINE.as_secs(),
        TTL.as_secs()
    ));
    let plane = Plane::whole(Store::Disk, NODES);
    plane.furnish([Runtime::ENDLESS.request()]);
    let before = plane.stored(KINDS);
    let jobs = Lives::follow(&plane.target, Of::TrainJobs, COUNT);
    let began = now();
    plane.target.send_all(COUNT, |n| vec![WISH.request(n, SPACE)]);
    std::thread::sleep((began + DEADLINE).since(now() + LOOK_BEFORE));
    let running = running(&plane);
    let failed = jobs.until(Mark::Failed, COUNT, SCENE_MAX);
    let gone = jobs.until(Mark::Gone, COUNT, SCENE_MAX);
    tell(&jobs.all(), running, report);
    report.check(
        failed && gone,
        &format!("{} failed, {} went", jobs.count(Mark::Failed), jobs.count(Mark::Gone)),
    );
    await_quiet(plane.pid);
    let left = plane.stored(KINDS);
    report.check(left == before, &format!("of {KINDS:?} {left:?} are left, and there were {before:?}"));
    let counted = plane.numbers().sum("trainjob_deadline_exceeded_total", "");
    report.check(counted == COUNT as f64, &format!("the controller counts {counted} deadlines of {COUNT}"));
}

/// How many pods run.
fn running(plane: &Plane) -> usize {
    let (_, body) = plane.target.ask(&format!("GET /api/v1/namespaces/{SPACE}/pods"), &Tree::Null);
    let list = Tree::parse(&body).unwrap_or_default();
    list.items_at(&["items"]).iter().filter(|pod| pod.str_at(&["status", "phase"]) == "Running").count()
}

fn tell(lives: &[Life], running: usize, report: &mut Report) {
    let due = |life: &Life| Some(life.created? + DEADLINE);
    let stored = Spread::new(lives.iter().filter_map(|it| Some(seconds(it.ended?, due(it)?))));
    let seen = Spread::new(lives.iter().filter_map(|it| Some(seconds(it.at(Mark::Failed)?, due(it)?))));
    let gone = expiry::gone(lives, TTL);
    report.say(&format!("    pods running shortly before: {running}"));
    report.say(&format!("    Failed as stored       largest error {:.3}", stored.worst()));
    report.say(&format!("    Failed as seen         largest error {:.3}   {}", seen.worst(), seen.text()));
    report.say(&format!("    gone after the TTL     {}", gone.text()));
    report.keep(
        "deadlines",
        &tree!({"podsRunning": running as i64, "storedWorstSeconds": stored.worst(), "stored": stored.tree(),
            "seenWorstSeconds": seen.worst(), "seen": seen.tree(), "gone": gone.tree()}),
    );
}
