//! Clocks: wall clock for log timestamps and exit records, monotonic clock for timers.

use std::time::{Duration, SystemTime};

#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "processes run in the machine's time; this is the one place that reads it"
)]
pub fn now_nanos() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[must_use]
pub fn now_micros() -> i64 {
    now_nanos() / 1_000
}

/// Monotonic time, independent of changes of the wall clock.
#[must_use]
pub fn steady() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), nanos)
}
