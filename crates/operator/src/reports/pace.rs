//! How often reports are written: so many at once, then one after the other.
//!
//! # Invariants
//!
//! - Whoever would wait longer than [`WAIT_MAX`] is sent away without a turn: those who give up leave no gap behind them,
//!   and the line never grows longer than that.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long one may wait for his turn.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// From one to the next.
    pub every: Duration,
    /// So many may come at once, after a pause.
    pub burst: u32,
}

/// Turns at a pace.
pub struct Turns {
    pace: Pace,
    /// When all turns so far would be over, had they been taken one after the other.
    over: Mutex<Option<Instant>>,
}

impl Turns {
    /// At this pace.
    pub fn new(pace: Pace) -> Turns {
        Turns { pace, over: Mutex::default() }
    }

    /// Waits for the next turn.
    ///
    /// # Errors
    /// Too many wait already; how long it would take.
    pub async fn next(&self) -> Result<(), Duration> {
        let wait = self.take(Instant::now())?;
        sleep(wait).await;
        Ok(())
    }

    /// Takes a turn; how long it is until then.
    fn take(&self, now: Instant) -> Result<Duration, Duration> {
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = over.map_or(now, |over| over.max(now));
        let early = self.pace.every * self.pace.burst.saturating_sub(1);
        let wait = begins.duration_since(now).saturating_sub(early);
        if wait > WAIT_MAX {
            return Err(wait);
        }
        *over = Some(begins + self.pace.every);
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_then_one_by_one() {
        let millis = Duration::from_millis;
        let turns = Turns::new(Pace { every: millis(1_000), burst: 3 });
        let start = Instant::now();
        let at = |after: u64| turns.take(start + millis(after)).map(|it| it.as_millis());
        for (says, after, want) in [
            ("the first", 0, Ok(0)),
            ("the second with it", 0, Ok(0)),
            ("and a third", 0, Ok(0)),
            ("the next waits", 0, Ok(1_000)),
            ("one more behind it", 500, Ok(1_500)),
            ("and so on", 500, Ok(2_500)),
            ("and so on", 500, Ok(3_500)),
            ("and so on", 500, Ok(4_500)),
            ("too long a line", 500, Err(5_500)),
            ("which did not grow by that", 500, Err(5_500)),
            ("a place in it is free again", 1_000, Ok(5_000)),
            ("after a pause it begins anew", 60_000, Ok(0)),
        ] {
            assert_eq!(at(after).map_err(|it| it.as_millis()), want, "{says}");
        }
    }
}
