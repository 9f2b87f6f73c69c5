//! Wall clock, CPU time and memory of this process.

use std::time::{Duration, Instant};

/// Clock ticks per second in `/proc/self/stat`.
const TICKS: u64 = 100;
const PAGE_BYTES: u64 = 4096;

/// A measurement under way.
pub struct Watch {
    began: Instant,
    cpu: Duration,
}

/// What it took.
pub struct Took {
    /// Time passed.
    pub wall: Duration,
    /// CPU time of all threads; to 10 ms.
    pub cpu: Duration,
}

impl Watch {
    /// Begins to measure.
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
