//! Many that come and go: whether memory comes back.
//!
//! So many at a time are made, finished and gone by a time to live of zero. Their Events are deleted before memory is
//! looked at: they stay by design, and are no part of the question.

use std::time::{Duration, Instant};

use muster_tree::{Tree, tree};

use super::SCENE_MAX;
use super::lives::{Lives, Mark, Of, now};
use super::numbers::mega;
use super::objects::{Runtime, Wish, completed};
use super::plane::{Plane, Store};
use super::report::Report;
use crate::measure::{await_quiet, cpu_of};

/// How many in all, how many between two looks, how many at a time; in full and to see that it works.
const FULL: (usize, usize, usize) = (100_000, 10_000, 1_000);
const QUICK: (usize, usize, usize) = (2_000, 500, 250);
const SPACE: &str = "default";
const WISH: Wish = Wish { runtime: Runtime::BRIEF, ttl_secs: 0, deadline_secs: 86_400, suspended: false };

/// What was found after so many.
struct Row {
    gone: usize,
    resident: u64,
    /// Nothing of it before the first.
    took: Option<(Duration, Duration)>,
    objects: f64,
}

/// Runs it and prints it.
pub fn run(quick: bool, report: &mut Report) {
    let (total, part, at_a_time) = if quick { QUICK } else { FULL };
    report.say(&format!(
        "\n  came and went: {total} TrainJobs with a TTL of 0, {at_a_time} at a time, each with a JobSet and a snapshot ConfigMap; Events \
         deleted\n  before memory is looked at; store in memory"
    ));
    report.say("         gone   RSS MB  a minute  CPU ms each  objects");
    let plane = Plane::bare(Store::Memory);
    plane.furnish([Runtime::BRIEF.request()]);
    let jobs = Lives::follow(&plane.target, Of::TrainJobs, total);
    let sets = Lives::follow(&plane.target, Of::JobSets, total);
    let first = Row::now(&plane, 0, None);
    report.say(&first.text(part));
    let mut rows = vec![first.tree(part)];
    for until in (part..=total).step_by(part) {
        let (began, cpu) = (Instant::now(), cpu_of(plane.pid));
        if !come_and_go(&plane, &jobs, &sets, (until - part, until), at_a_time) {
            report.check(false, &format!("{} are gone, not {until}", jobs.count(Mark::Gone)));
            break;
        }
        let took = (began.elapsed(), cpu_of(plane.pid).saturating_sub(cpu));
        let row = Row::now(&plane, until, Some(took));
        report.say(&row.text(part));
        rows.push(row.tree(part));
        let (left, before) = (row.objects, first.objects);
        report.check(left <= before, &format!("{left} objects are stored, and there were {before}"));
    }
    report.keep("came and went", &tree!({"rows": Tree::list(rows)}));
}

impl Row {
    /// How it is when everything is quiet.
    fn now(plane: &Plane, gone: usize, took: Option<(Duration, Duration)>) -> Row {
        plane.target.ask(&format!("DELETE /api/v1/namespaces/{SPACE}/events"), &Tree::Null);
        await_quiet(plane.pid);
        let objects = plane.numbers().sum("apiserver_storage_objects", "");
        Row { gone, resident: plane.resident(), took, objects }
    }

    /// How many went a minute, and the milliseconds of CPU that each took.
    fn rates(&self, part: usize) -> Option<(f64, f64)> {
        let rate = |(wall, cpu): (Duration, Duration)| {
            (part as f64 * 60.0 / wall.as_secs_f64(), cpu.as_secs_f64() * 1e3 / part as f64)
        };
        self.took.map(rate)
    }

    fn text(&self, part: usize) -> String {
        let (rate, each) = self.rates(part).map_or_else(
            || ("-".to_owned(), "-".to_owned()),
            |(rate, each)| (format!("{rate:.0}"), format!("{each:.2}")),
        );
        format!("    {:>9} {:>8.1} {rate:>9} {each:>12} {:>8}", self.gone, mega(self.resident), self.objects)
    }

    fn tree(&self, part: usize) -> Tree {
        let row =
            tree!({"gone": self.gone as i64, "residentBytes": self.resident as i64, "objects": self.objects});
        match self.rates(part) {
            Some((rate, each)) => row.merge(&tree!({"perMinute": rate, "cpuMillisEach": each})),
            None => row,
        }
    }
}

/// Has these made, finished and gone; whether they went in time.
fn come_and_go(
    plane: &Plane,
    jobs: &Lives,
    sets: &Lives,
    (from, until): (usize, usize),
    at_a_time: usize,
) -> bool {
    (from..until).step_by(at_a_time).all(|first| {
        let count = at_a_time.min(until - first);
        plane.target.send_all(count, |n| vec![WISH.request(first + n, SPACE)]);
        let made = sets.until(Mark::Made, first + count, SCENE_MAX);
        if made {
            let since = now();
            plane.target.send_all(count, |n| vec![completed(first + n, SPACE, since)]);
        }
        made && jobs.until(Mark::Gone, first + count, SCENE_MAX)
    })
}
