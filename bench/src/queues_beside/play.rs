//! One of them at work on a load: what it took.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use super::lives::{Counts, Life, Lives};
use super::load::{Arrival, Load, watch};
use super::planes::Plane;
use crate::client::{Connection, Target};
use crate::jobsets::calls::Count;
use crate::measure::{await_quiet, cpu_of, resident_of};

/// A run that takes longer has failed.
pub const RUN_MAX: Duration = Duration::from_secs(1500);
/// Requests in flight of the creators of Workloads, and of all jobs: both are independent of each other.
const LANES: usize = 32;
/// How long to wait before a watch is opened again.
const WATCH_AGAIN: Duration = Duration::from_millis(200);
/// What is written on the way of a Workload.
pub const WRITTEN: [&str; 5] = ["workloads", "clusterqueues", "localqueues", "cohorts", "events"];

/// The figures of one at one load.
pub struct Row {
    pub who: &'static str,
    pub load: &'static str,
    pub workloads: usize,
    pub floor: Duration,
    /// From the first Workload seen to the last one finished; absent when not all were finished in time.
    pub wall: Option<Duration>,
    pub counts: Counts,
    /// How much later than wanted the last Workload was made.
    pub late: Duration,
    /// Of each class its name, and how long each Workload waited for its first admission, sorted.
    pub waits: Vec<(&'static str, Vec<Duration>)>,
    /// The server's counters for the writes of all clients.
    pub count: Count,
    pub cpu: Duration,
    pub server_cpu: Duration,
    pub resident: u64,
}

impl Row {
    /// First admissions in a second.
    pub fn rate(&self) -> f64 {
        self.wall.map_or(0.0, |wall| self.workloads as f64 / wall.as_secs_f64())
    }

    /// Writes of the controller for each Workload: all but those that made it and those of its job.
    pub fn writes_each(&self) -> f64 {
        let own = (self.workloads + self.counts.sent) as u64;
        self.count.writes(&WRITTEN).saturating_sub(own) as f64 / self.workloads as f64
    }
}

/// Runs a load on a plane that waits for it.
pub fn play(plane: &Plane, load: &Load) -> Row {
    let arrivals = load.arrivals();
    let lives = Lives::new(load, &arrivals);
    let server_cpu = || plane.server.iter().map(|pid| cpu_of(*pid)).sum::<Duration>();
    let (count, cpu, server) = (plane.count(), cpu_of(plane.controller), server_cpu());
    let (complete, late) = run(&plane.target, load, &arrivals, &lives);
    // What it puts off costs as well: numbers in statuses, events.
    await_quiet(plane.controller);
    let (cpu, server_cpu) = (cpu_of(plane.controller) - cpu, server_cpu() - server);
    let (lives, counts) = lives.end();
    Row {
        who: plane.name,
        load: load.name,
        workloads: arrivals.len(),
        floor: load.floor(),
        wall: whole(&lives).filter(|_| complete),
        counts,
        late,
        waits: waits(load, &arrivals, &lives),
        count: plane.count().since(&count),
        cpu,
        server_cpu,
        resident: resident_of(plane.controller),
    }
}

/// Has all arrive, run and end; whether they did so in time, and how late the last arrived.
fn run(target: &Target, load: &Load, arrivals: &[Arrival], lives: &Lives<'_>) -> (bool, Duration) {
    let (open, opened) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| follow(target, lives, &open));
        for _ in 0..LANES {
            scope.spawn(|| execute(target, lives));
        }
        opened.recv().expect("the watch opens");
        let late = scope.spawn(|| arrive(target, load, arrivals));
        let complete = lives.wait(RUN_MAX);
        // The watch ends with the next event or bookmark.
        (complete, late.join().unwrap_or_default())
    })
}

fn follow(target: &Target, lives: &Lives<'_>, open: &Sender<()>) {
    let request = target.request(&watch(), "", b"");
    // A server may end a watch whose client is slow; a new one begins with all there is.
    while let Ok(mut connection) = target.connect() {
        if connection.watch(&request, || _ = open.send(()), |event| lives.hear(event)).is_ok() {
            return;
        }
        std::thread::sleep(WATCH_AGAIN);
    }
}

/// Sends what jobs write, one after another.
fn execute(target: &Target, lives: &Lives<'_>) {
    let mut connection = target.connect().expect("the server listens");
    while let Some((call, media, body)) = lives.next() {
        match send(&mut connection, target, &call, media, &body.to_json_bytes()) {
            409 => lives.overtaken(),
            code => assert!(code < 300, "{call}: {code}"),
        }
    }
}

/// Makes the Workloads when their time has come; returns how late the last was made.
fn arrive(target: &Target, load: &Load, arrivals: &[Arrival]) -> Duration {
    let (began, next) = (Instant::now(), AtomicUsize::new(0));
    let lane = || {
        let mut connection = target.connect().expect("the server listens");
        loop {
            let id = next.fetch_add(1, Ordering::Relaxed);
            let Some(arrival) = arrivals.get(id) else { return };
            std::thread::sleep(arrival.at.saturating_sub(began.elapsed()));
            let (call, media, body) = load.workload(arrival, id);
            let code = send(&mut connection, target, &call, media, &body.to_json_bytes());
            assert!(code == 201, "{call}: {code}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(lane);
        }
    });
    let last = arrivals.last().map(|it| it.at).unwrap_or_default();
    began.elapsed().saturating_sub(last)
}

fn send(connection: &mut Connection, target: &Target, call: &str, media: &str, body: &[u8]) -> u16 {
    let request = target.request(call, media, body);
    let (code, answer) = connection.send(&request).expect("the server answers");
    if code >= 300 && code != 409 {
        eprintln!("{call}: {}", String::from_utf8_lossy(answer));
    }
    code
}

/// From the first that was seen to the last that was finished.
fn whole(lives: &[Life]) -> Option<Duration> {
    let first = lives.iter().filter_map(|it| it.created).min()?;
    let last = lives.iter().filter_map(|it| it.finished).max()?;
    Some(last.saturating_duration_since(first))
}

fn waits(load: &Load, arrivals: &[Arrival], lives: &[Life]) -> Vec<(&'static str, Vec<Duration>)> {
    let of = |class: usize| {
        let those = arrivals.iter().zip(lives).filter(|(arrival, _)| arrival.class == class);
        let waited =
            those.filter_map(|(_, life)| Some(life.admitted?.saturating_duration_since(life.created?)));
        let mut waited: Vec<Duration> = waited.collect();
        waited.sort_unstable();
        waited
    };
    load.classes.iter().enumerate().map(|(number, class)| (class.name, of(number))).collect()
}
