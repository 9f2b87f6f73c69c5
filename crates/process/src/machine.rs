//! What this machine as a whole uses, by the files of the kernel.

use std::fs;
use std::time::Duration;

use crate::port::Usage;

/// What the whole machine has spent and holds.
#[must_use]
pub fn machine_usage() -> Usage {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    Usage { cpu: busy(&read("/proc/stat")), memory_bytes: held(&read("/proc/meminfo")) }
}

/// The time that all cores were busy since boot: user, nice, system, irq, softirq and steal of the first line.
fn busy(stat: &str) -> Duration {
    const BUSY: [usize; 6] = [0, 1, 2, 5, 6, 7];
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let sum: u64 = BUSY.iter().filter_map(|at| ticks.get(*at)).sum();
    Duration::from_millis(sum.saturating_mul(1_000) / rustix::param::clock_ticks_per_second().max(1))
}

/// All memory but what is available.
fn held(meminfo: &str) -> u64 {
    let kib = |word: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(word));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    kib("MemTotal:").saturating_sub(kib("MemAvailable:")).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_read_from_the_kernel() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {ticks} 0 {ticks} 999 999 0 0 0 7 7\ncpu0 1 2 3\n");
        assert_eq!(busy(&stat), Duration::from_secs(2), "idle, waiting and guests do not count");
        assert_eq!(busy(""), Duration::ZERO);
        let meminfo = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\n";
        assert_eq!(held(meminfo), 600 * 1024);
    }
}
