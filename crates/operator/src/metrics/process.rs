//! Process metrics: CPU, memory, threads, file descriptors, under the names of the Prometheus client libraries.

use std::fmt;
use std::fs;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::gauge;

/// `USER_HZ`: 100 on every Linux, because programs rely on it.
const TICKS_PER_SECOND: f64 = 100.0;

/// What `/proc` reports about this process.
#[derive(Debug, PartialEq)]
pub struct ProcessMetrics {
    /// CPU seconds, user and system.
    cpu: f64,
    /// Start time, in seconds since the epoch.
    began: f64,
    /// Bytes of resident and of virtual memory.
    resident: u64,
    reserved: u64,
    threads: u64,
    open_files: u64,
}

impl ProcessMetrics {
    /// Reads `/proc`; `None` where it is not available.
    pub fn read() -> Option<ProcessMetrics> {
        let text = |path: &str| fs::read_to_string(path).ok();
        let open = fs::read_dir("/proc/self/fd").ok()?.count();
        ProcessMetrics::of(&text("/proc/self/stat")?, &text("/proc/self/status")?, &text("/proc/stat")?, open)
    }

    fn of(stat: &str, status: &str, machine: &str, open_files: usize) -> Option<ProcessMetrics> {
        // The process name may contain anything; after its last parenthesis only numbers follow.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
        let line = |text: &str, name: &str| -> Option<u64> {
            let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
            rest.trim_start_matches(':').split_whitespace().next()?.parse().ok()
        };
        let booted = line(machine, "btime ")?;
        Some(ProcessMetrics {
            cpu: (ticks(11)? + ticks(12)?) / TICKS_PER_SECOND,
            began: booted as f64 + ticks(19)? / TICKS_PER_SECOND,
            resident: line(status, "VmRSS")? << 10,
            reserved: line(status, "VmSize")? << 10,
            threads: line(status, "Threads")?,
            open_files: u64::try_from(open_files).unwrap_or(u64::MAX),
        })
    }
}

/// Encodes the metrics; none where `/proc` is not available.
pub fn encode(into: &mut DescriptorEncoder<'_>, process: Option<&ProcessMetrics>) -> fmt::Result {
    let Some(it) = process else { return Ok(()) };
    let name = "process_cpu_seconds";
    let cpu =
        into.encode_descriptor(name, "CPU time of this process, user and system", None, MetricType::Counter)?;
    ConstCounter::new(it.cpu).encode(cpu)?;
    let (name, help) =
        ("process_start_time_seconds", "Start time of this process, in seconds since the epoch");
    ConstGauge::new(it.began).encode(into.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
    gauge(into, "process_resident_memory_bytes", "Resident memory of this process", it.resident)?;
    gauge(into, "process_virtual_memory_bytes", "Virtual memory of this process", it.reserved)?;
    gauge(into, "process_threads", "Threads of this process", it.threads)?;
    gauge(into, "process_open_fds", "Open file descriptors of this process", it.open_files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        let stat = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 20 0 9 0 12345 999 77 x";
        let status = "Name:\ta\nVmSize:\t  2048 kB\nVmRSS:\t    1024 kB\nThreads:\t9\n";
        let read = ProcessMetrics::of(stat, status, "cpu 1 2\nbtime 1000\n", 7).unwrap();
        let want = ProcessMetrics {
            cpu: 2.0,
            began: 1123.45,
            resident: 1 << 20,
            reserved: 2 << 20,
            threads: 9,
            open_files: 7,
        };
        assert_eq!(read, want);
        assert!(ProcessMetrics::of("nonsense", status, "", 0).is_none());
    }

    #[test]
    fn this_process_can_be_read() {
        let it = ProcessMetrics::read().expect("tests run on Linux");
        assert!(it.resident > 0 && it.threads > 0 && it.began > 1e9);
    }
}
