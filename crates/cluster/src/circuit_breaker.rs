//! The circuit breaker: holds requests back while the server is unreachable or overloaded.
//!
//! While it is open, one request at a time probes the server and all others wait. So the number of requests in an outage does
//! not depend on the amount of work.
//!
//! # Guarantees
//!
//! - The breaker opens only after the server was unreachable or asked for a retry later; the first other response closes it.
//! - While it is open, at most one request is sent at a time, and not before the backoff is over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The first backoff; it doubles with every further failure.
const BACKOFF_BASE: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is honored.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// The health of the server as a response shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerHealth {
    /// No connection, or a proxy answered in its place.
    Unreachable,
    /// It asks to retry after this time.
    Overloaded(Duration),
    Healthy,
    /// The response was lost.
    #[default]
    Unknown,
}

/// The circuit breaker of one server.
#[derive(Default)]
pub struct CircuitBreaker {
    disabled: bool,
    open: Mutex<Option<OpenState>>,
    changed: Notify,
}

struct OpenState {
    failures: u32,
    until: Instant,
    probing: bool,
}

/// The permit to send one request.
pub struct Permit<'a> {
    breaker: &'a CircuitBreaker,
    is_probe: bool,
    reported: bool,
}

impl CircuitBreaker {
    /// A breaker that never opens, for callers with a backoff of their own.
    pub fn disabled() -> CircuitBreaker {
        CircuitBreaker { disabled: true, ..CircuitBreaker::default() }
    }

    /// Waits until a request may be sent.
    pub async fn acquire(&self) -> Permit<'_> {
        loop {
            let changed = self.changed.notified();
            let until = match &mut *self.lock() {
                None => return Permit { breaker: self, is_probe: false, reported: false },
                Some(open) if open.probing => None,
                Some(open) if open.until <= Instant::now() => {
                    open.probing = true;
                    return Permit { breaker: self, is_probe: true, reported: false };
                }
                Some(open) => Some(open.until),
            };
            let pause = async {
                match until {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = changed => {}
                () = pause => {}
            }
        }
    }

    fn report(&self, health: ServerHealth, is_probe: bool) {
        if self.disabled {
            return;
        }
        let now = Instant::now();
        {
            let mut state = self.lock();
            let bad = matches!(health, ServerHealth::Unreachable | ServerHealth::Overloaded(_))
                || (is_probe && health == ServerHealth::Unknown);
            match &mut *state {
                _ if health == ServerHealth::Healthy => *state = None,
                Some(open) if is_probe => {
                    open.failures += 1;
                    open.until = now + backoff(health, open.failures);
                    open.probing = false;
                }
                None if bad => {
                    *state = Some(OpenState { failures: 1, until: now + backoff(health, 1), probing: false });
                }
                // Sent before the breaker opened: says nothing new.
                Some(_) | None => return,
            }
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenState>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// Reports the health of the server.
    pub fn report(mut self, health: ServerHealth) {
        self.reported = true;
        self.breaker.report(health, self.is_probe);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if self.is_probe && !self.reported {
            // The caller canceled the probe: let another request probe.
            self.breaker.report(ServerHealth::Unknown, true);
        }
    }
}

fn backoff(health: ServerHealth, failures: u32) -> Duration {
    let own = BACKOFF_BASE.saturating_mul(1 << (failures - 1).min(16)).min(BACKOFF_MAX);
    match health {
        ServerHealth::Overloaded(asked) => asked.clamp(own, RETRY_AFTER_MAX),
        _ => own,
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn pauses() {
        let secs = Duration::from_secs;
        for (health, failures, want) in [
            (ServerHealth::Unreachable, 1, BACKOFF_BASE),
            (ServerHealth::Unreachable, 3, BACKOFF_BASE * 4),
            (ServerHealth::Unreachable, 99, BACKOFF_MAX),
            (ServerHealth::Overloaded(secs(1)), 1, secs(1)),
            (ServerHealth::Overloaded(secs(1)), 9, BACKOFF_MAX),
            (ServerHealth::Overloaded(secs(3600)), 1, RETRY_AFTER_MAX),
        ] {
            assert_eq!(backoff(health, failures), want, "{health:?} {failures}");
        }
    }

    #[tokio::test]
    async fn one_finds_out_and_the_rest_wait() {
        let breaker = CircuitBreaker::default();
        let (first, second) = (breaker.acquire().await, breaker.acquire().await);
        first.report(ServerHealth::Healthy);
        assert!(breaker.acquire().now_or_never().is_some(), "open");
        second.report(ServerHealth::Unreachable);
        assert!(breaker.acquire().now_or_never().is_none(), "closed until the pause is over");
        let probe = breaker.acquire().await;
        assert!(breaker.acquire().now_or_never().is_none(), "one at a time");
        drop(probe);
        let probe = breaker.acquire().await;
        probe.report(ServerHealth::Overloaded(BACKOFF_BASE));
        assert!(breaker.acquire().now_or_never().is_none(), "closed again");
        breaker.acquire().await.report(ServerHealth::Healthy);
        assert!(breaker.acquire().now_or_never().is_some(), "open again");
        assert!(breaker.acquire().now_or_never().is_some(), "for all");
    }

    #[tokio::test]
    async fn one_that_stays_open() {
        let breaker = CircuitBreaker::disabled();
        breaker.acquire().await.report(ServerHealth::Unreachable);
        assert!(breaker.acquire().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waits_is_let_in_as_soon_as_it_opens() {
        let breaker = CircuitBreaker::default();
        let late = breaker.acquire().await;
        breaker.acquire().await.report(ServerHealth::Overloaded(RETRY_AFTER_MAX));
        let mut waiting = Box::pin(breaker.acquire());
        assert!((&mut waiting).now_or_never().is_none());
        late.report(ServerHealth::Healthy);
        assert!(waiting.now_or_never().is_some());
    }
}
