//! Wall clock, CPU time and memory of this process.

use std::time::{Duration, Instant};

/// Clock ticks per second in `/proc/self/stat`.
const TICKS: u64 = 100;
const PAGE_BYTES: u64 = 4096;
/// A controller has done all its work when it uses no CPU worth speaking of for this long.
const QUIET: Duration = Duration::from_secs(2);
const QUIET_CPU: Duration = Duration::from_millis(50);
/// How long that is waited for.
const QUIET_MAX: Duration = Duration::from_secs(60);

/// A measurement under way.
pub struct Watch {
    began: Instant,
    cpu: Duration,
}

pub struct Took {
    pub wall: Duration,
    /// CPU time of all threads; to 10 ms.
    pub cpu: Duration,
}

impl Watch {
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu() }
    }

    /// Time passed so far; cheap enough to ask after every write.
    pub fn wall(&self) -> Duration {
        self.began.elapsed()
    }

    /// What it took so far.
    pub fn took(&self) -> Took {
        Took { wall: self.began.elapsed(), cpu: cpu().saturating_sub(self.cpu) }
    }
}

impl Took {
    /// `n` things in this time, per second.
    pub fn rate(&self, n: usize) -> f64 {
        n as f64 / self.wall.as_secs_f64()
    }

    /// CPU microseconds for each of `n` things.
    pub fn cpu_micros(&self, n: usize) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / n as f64
    }
}

/// CPU time of all threads so far.
fn cpu() -> Duration {
    cpu_of(std::process::id())
}

/// CPU time of all threads of a process so far.
pub fn cpu_of(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; the numbers come after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS)
}

/// Resident memory in bytes.
pub fn resident() -> u64 {
    resident_of(std::process::id())
}

/// Resident memory of a process in bytes.
pub fn resident_of(pid: u32) -> u64 {
    let statm = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|f| f.parse::<u64>().ok());
    pages.unwrap_or(0) * PAGE_BYTES
}

/// Waits until a controller has written every status and event: deferred writes count as well.
pub fn await_quiet(pid: u32) {
    let began = Instant::now();
    while began.elapsed() < QUIET_MAX {
        let before = cpu_of(pid);
        std::thread::sleep(QUIET);
        if cpu_of(pid) - before < QUIET_CPU {
            return;
        }
    }
}

/// An instant of this thread, on the clock and on its CPU: fine enough for a single decision.
pub struct Moment {
    wall: Instant,
    cpu: Duration,
}

impl Moment {
    pub fn now() -> Moment {
        Moment { wall: Instant::now(), cpu: thread_cpu() }
    }

    /// What it took since then.
    pub fn took(&self) -> Took {
        Took { cpu: thread_cpu().saturating_sub(self.cpu), wall: self.wall.elapsed() }
    }
}

/// CPU time of this thread so far.
fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (secs, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(secs.unwrap_or(0), nanos.unwrap_or(0))
}

/// Of sorted times, the one that this share of them does not exceed.
pub fn share(sorted: &[Duration], share: f64) -> Duration {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

/// How busy the machine is: its load over one, five and fifteen minutes.
pub fn busy() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
