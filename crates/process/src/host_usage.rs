//! CPU and memory usage of the host, from procfs.

use std::fs;
use std::time::Duration;

use crate::runtime::ContainerUsage;

/// CPU time since boot and memory in use.
#[must_use]
pub fn node_usage() -> ContainerUsage {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    ContainerUsage { cpu: cpu_time(&read("/proc/stat")), memory_bytes: memory_in_use(&read("/proc/meminfo")) }
}

/// Busy time of all cores since boot: user, nice, system, irq, softirq and steal.
fn cpu_time(stat: &str) -> Duration {
    const BUSY: [usize; 6] = [0, 1, 2, 5, 6, 7];
    let line = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let sum: u64 = BUSY.iter().filter_map(|at| ticks.get(*at)).sum();
    Duration::from_millis(sum.saturating_mul(1_000) / rustix::param::clock_ticks_per_second().max(1))
}

/// Memory in use: MemTotal minus MemAvailable.
fn memory_in_use(meminfo: &str) -> u64 {
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
    fn node_usage_is_read_from_procfs() {
        let ticks = rustix::param::clock_ticks_per_second();
        let stat = format!("cpu  {ticks} 0 {ticks} 999 999 0 0 0 7 7\ncpu0 1 2 3\n");
        assert_eq!(cpu_time(&stat), Duration::from_secs(2), "idle, waiting and guests do not count");
        assert_eq!(cpu_time(""), Duration::ZERO);
        let meminfo = "MemTotal:       1000 kB\nMemFree:  1 kB\nMemAvailable:    400 kB\n";
        assert_eq!(memory_in_use(meminfo), 600 * 1024);
    }
}
