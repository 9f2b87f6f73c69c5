//! A token bucket for progress reports (`qps` and `burst` of Trainer's status server).
//!
//! # Guarantees
//!
//! - A request that would wait longer than [`WAIT_MAX`] is rejected without a reservation: rejected requests consume no
//!   tokens, and the queue never grows longer than that.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The longest wait for a slot.
const WAIT_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgressRateLimit {
    /// Refill interval: one token each.
    pub interval: Duration,
    pub burst: u32,
}

pub struct ProgressRateLimiter {
    pace: ProgressRateLimit,
    /// When every reserved slot is over, at one per interval (GCRA's theoretical arrival time).
    reserved_until: Mutex<Option<Instant>>,
}

impl ProgressRateLimiter {
    pub fn new(pace: ProgressRateLimit) -> ProgressRateLimiter {
        ProgressRateLimiter { pace, reserved_until: Mutex::default() }
    }

    /// Reserves a slot and waits for it.
    ///
    /// # Errors
    /// Too many requests wait; how long this one would have to.
    pub async fn next(&self) -> Result<(), Duration> {
        let wait = self.reserve(Instant::now())?;
        sleep(wait).await;
        Ok(())
    }

    /// Reserves a slot; returns the time until it.
    fn reserve(&self, now: Instant) -> Result<Duration, Duration> {
        let mut over = self.reserved_until.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = over.map_or(now, |over| over.max(now));
        let early = self.pace.interval * self.pace.burst.saturating_sub(1);
        let wait = begins.duration_since(now).saturating_sub(early);
        if wait > WAIT_MAX {
            return Err(wait);
        }
        *over = Some(begins + self.pace.interval);
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_applies() {
        let millis = Duration::from_millis;
        let turns = ProgressRateLimiter::new(ProgressRateLimit { interval: millis(1_000), burst: 3 });
        let start = Instant::now();
        let at = |after: u64| turns.reserve(start + millis(after)).map(|it| it.as_millis());
        for (says, after, want) in [
            ("the first", 0, Ok(0)),
            ("the second with it", 0, Ok(0)),
            ("and a third", 0, Ok(0)),
            ("the next waits", 0, Ok(1_000)),
            ("one more behind it", 500, Ok(1_500)),
            ("and so on", 500, Ok(2_500)),
            ("and so on", 500, Ok(3_500)),
            ("and so on", 500, Ok(4_500)),
            ("too long a wait", 500, Err(5_500)),
            ("rejections consume no token", 500, Err(5_500)),
            ("there is room again", 1_000, Ok(5_000)),
            ("the bucket is full again after a pause", 60_000, Ok(0)),
        ] {
            assert_eq!(at(after).map_err(|it| it.as_millis()), want, "{says}");
        }
    }
}
