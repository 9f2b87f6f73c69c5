//! What is asked of a trainer, and what it took.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use muster_api::time::Time;

use super::planes::{Plane, Who};
use crate::jobsets::calls::Count;
use crate::measure::{await_quiet, cpu_of, resident_of};
use crate::trainjobs::gone;
use crate::trainjobs::lives::{Life, Lives, Mark, Of, now};
use crate::trainjobs::numbers::{Spread, seconds};
use crate::trainjobs::objects::{Request, Runtime, Wish, completed, resumed};

/// A phase that takes longer has failed, and those after it are not tried.
pub const PHASE_MAX: Duration = Duration::from_secs(300);
const SPACE: &str = "default";
/// What has finished so long ago is due when the bench says.
const TTL: Duration = Duration::from_secs(3_600);
pub const WISH: Wish =
    Wish { runtime: Runtime::BRIEF, ttl_secs: 3_600, deadline_secs: 86_400, suspended: true };
/// What there is between the last that finishes and the second at which all are due.
const PAUSE: Duration = Duration::from_secs(5);
/// What is written on the way of a TrainJob.
pub const WRITTEN: [&str; 5] = ["trainjobs", "jobsets", "configmaps", "secrets", "events"];

/// What is done to all TrainJobs at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Suspended, until all JobSets are there and all say so.
    Create,
    /// Until all JobSets are, and all say so.
    Resume,
    /// The bench ends the JobSets; until all say so.
    Complete,
    /// Their time to live is over, for all in one second; until all are gone.
    Expire,
}

/// The figures of one trainer in one phase.
pub struct Row {
    pub who: Who,
    pub jobs: usize,
    pub phase: Phase,
    /// None if it took longer than [`PHASE_MAX`].
    pub wall: Option<Duration>,
    /// What each waited for, and how long.
    pub waits: Vec<(&'static str, Spread)>,
    /// Writes of all clients but the bench.
    pub writes: u64,
    /// What the API server counted.
    pub count: Count,
    pub cpu: Duration,
    /// CPU of the API server and etcd.
    pub server_cpu: Duration,
    pub resident: u64,
}

impl Phase {
    /// Upstream has no time to live.
    pub fn of(who: Who) -> &'static [Phase] {
        const ALL: [Phase; 4] = [Phase::Create, Phase::Resume, Phase::Complete, Phase::Expire];
        if who == Who::Operator { &ALL } else { &ALL[..3] }
    }

    pub fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::Resume => "resume",
            Phase::Complete => "complete",
            Phase::Expire => "expire",
        }
    }

    /// What is sent for a TrainJob, if anything: those that are completed have been so since then.
    fn request(self, n: usize, since: Time) -> Option<Request> {
        match self {
            Phase::Create => Some(WISH.request(n, SPACE)),
            Phase::Resume => Some(resumed(n, SPACE)),
            Phase::Complete => Some(completed(n, SPACE, since)),
            Phase::Expire => None,
        }
    }
}

/// TrainJobs and JobSets as they are seen.
struct Seen {
    count: usize,
    jobs: Arc<Lives>,
    sets: Arc<Lives>,
}

impl Seen {
    /// Waits for the end of a phase; whether it came in time.
    fn until(&self, phase: Phase, limit: Duration) -> bool {
        let ends: &[(&Lives, Mark)] = match phase {
            Phase::Create => &[(&self.sets, Mark::Made), (&self.jobs, Mark::Suspended)],
            Phase::Resume => &[(&self.sets, Mark::Resumed), (&self.jobs, Mark::Resumed)],
            Phase::Complete => &[(&self.jobs, Mark::Complete)],
            Phase::Expire => &[(&self.jobs, Mark::Gone)],
        };
        let began = Instant::now();
        ends.iter().all(|(lives, mark)| lives.until(*mark, self.count, limit.saturating_sub(began.elapsed())))
    }

    /// How long each waited for what.
    fn waits(&self, phase: Phase, sent: &[Time]) -> Vec<(&'static str, Spread)> {
        let (jobs, sets) = (self.jobs.all(), self.sets.all());
        let between = |from: &[Option<Time>], to: &[Option<Time>]| {
            Spread::new(from.iter().zip(to).filter_map(|(from, to)| Some(seconds((*to)?, (*from)?))))
        };
        let at = |lives: &[Life], mark| lives.iter().map(|it| it.at(mark)).collect::<Vec<Option<Time>>>();
        let sent: Vec<Option<Time>> = sent.iter().copied().map(Some).collect();
        match phase {
            Phase::Create => vec![
                ("its JobSet", between(&at(&jobs, Mark::Made), &at(&sets, Mark::Made))),
                ("Suspended", between(&at(&jobs, Mark::Made), &at(&jobs, Mark::Suspended))),
            ],
            Phase::Resume => vec![
                ("its JobSet", between(&sent, &at(&sets, Mark::Resumed))),
                ("not Suspended", between(&sent, &at(&jobs, Mark::Resumed))),
            ],
            Phase::Complete => {
                vec![("Complete", between(&at(&sets, Mark::Complete), &at(&jobs, Mark::Complete)))]
            }
            Phase::Expire => vec![("gone, since due", gone(&jobs, TTL))],
        }
    }
}

/// Runs all phases on one plane.
pub fn play(plane: &Plane, count: usize) -> Vec<Row> {
    let jobs = Lives::follow(&plane.target, Of::TrainJobs, count);
    let sets = Lives::follow(&plane.target, Of::JobSets, count);
    let seen = Seen { count, jobs, sets };
    let mut rows: Vec<Row> = Vec::new();
    let mut due = Time(0);
    for phase in Phase::of(plane.who) {
        if *phase == Phase::Complete {
            // To end them takes no longer than to make them.
            let took = rows.first().and_then(|row| row.wall).unwrap_or_default();
            due = (now() + took + PAUSE).whole_seconds();
        }
        let row = measure(plane, &seen, *phase, due);
        let failed = row.wall.is_none();
        rows.push(row);
        if failed {
            break;
        }
    }
    rows
}

fn measure(plane: &Plane, seen: &Seen, phase: Phase, due: Time) -> Row {
    let server_cpu = || plane.server.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (before, cpu, server) = (plane.count(), cpu_of(plane.controller), server_cpu());
    if phase == Phase::Expire {
        std::thread::sleep(due.since(now()));
    }
    let began = Instant::now();
    let sent = send(plane, seen.count, phase, due);
    let in_time = seen.until(phase, PHASE_MAX);
    let wall = in_time.then(|| began.elapsed());
    if phase != Phase::Complete || plane.who != Who::Operator {
        // What it puts off costs as well. Those that are completed may be due meanwhile: that is the next phase.
        await_quiet(plane.controller);
    }
    let count = plane.count().since(&before);
    let own = sent.len() as u64;
    Row {
        who: plane.who,
        jobs: seen.count,
        phase,
        wall,
        waits: seen.waits(phase, &sent),
        writes: count.writes(&WRITTEN).saturating_sub(own),
        count,
        cpu: cpu_of(plane.controller).saturating_sub(cpu),
        server_cpu: server_cpu().saturating_sub(server),
        resident: resident_of(plane.controller),
    }
}

/// Sends what there is to send; when each was sent.
fn send(plane: &Plane, count: usize, phase: Phase, due: Time) -> Vec<Time> {
    let since = Time(due.0 - i64::try_from(TTL.as_micros()).unwrap_or(0));
    if phase.request(0, since).is_none() {
        return Vec::new();
    }
    let sent: Vec<OnceLock<Time>> = (0..count).map(|_| OnceLock::new()).collect();
    plane.target.send_all(count, |n| {
        let _ = sent[n].set(now());
        phase.request(n, since).into_iter().collect()
    });
    sent.iter().filter_map(|it| it.get().copied()).collect()
}
