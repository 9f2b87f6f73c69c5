//! What holds calls back while a server is away or has too much to do.
//!
//! While it is, one call at a time finds out whether it is back; all others wait. So the number of requests in an outage
//! does not depend on how much there is to do.
//!
//! # Invariants
//!
//! - A gate is closed only after the server could not be reached or asked for patience, and the first answer of another
//!   kind opens it.
//! - At most one call goes through a closed gate at a time, and no sooner than the pause is over.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// The first pause; it doubles with every further failure.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause that is our own idea.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The longest pause that a server may ask for.
const PAUSE_ASKED_MAX: Duration = Duration::from_secs(30);

/// How a server was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Said {
    /// It could not be reached, or something before it answered in its place.
    Away,
    /// It asks for patience.
    Busy(Duration),
    /// It answers.
    Well,
    /// Nobody knows.
    #[default]
    Nothing,
}

/// A gate that all calls to one server go through.
#[derive(Default)]
pub struct Gate {
    stays_open: bool,
    closed: Mutex<Option<Closed>>,
    changed: Notify,
}

struct Closed {
    failures: u32,
    until: Instant,
    probed: bool,
}

/// Leave to make one call.
pub struct Pass<'a> {
    gate: &'a Gate,
    probes: bool,
    told: bool,
}

impl Gate {
    /// One that never closes, for callers who pause by themselves.
    pub fn open() -> Gate {
        Gate { stays_open: true, ..Gate::default() }
    }

    /// Waits until a call may be made.
    pub async fn enter(&self) -> Pass<'_> {
        loop {
            let changed = self.changed.notified();
            let until = match &mut *self.lock() {
                None => return Pass { gate: self, probes: false, told: false },
                Some(closed) if closed.probed => None,
                Some(closed) if closed.until <= Instant::now() => {
                    closed.probed = true;
                    return Pass { gate: self, probes: true, told: false };
                }
                Some(closed) => Some(closed.until),
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

    fn said(&self, said: Said, probes: bool) {
        if self.stays_open {
            return;
        }
        let now = Instant::now();
        {
            let mut state = self.lock();
            let bad = matches!(said, Said::Away | Said::Busy(_)) || (probes && said == Said::Nothing);
            match &mut *state {
                _ if said == Said::Well => *state = None,
                Some(closed) if probes => {
                    closed.failures += 1;
                    closed.until = now + pause(said, closed.failures);
                    closed.probed = false;
                }
                None if bad => {
                    *state = Some(Closed { failures: 1, until: now + pause(said, 1), probed: false });
                }
                // Sent before it closed: nothing new.
                Some(_) | None => return,
            }
        }
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Closed>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// Tells how the server was.
    pub fn said(mut self, said: Said) {
        self.told = true;
        self.gate.said(said, self.probes);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.probes && !self.told {
            // Given up by its caller: another has to find out.
            self.gate.said(Said::Nothing, true);
        }
    }
}

fn pause(said: Said, failures: u32) -> Duration {
    let own = PAUSE_FIRST.saturating_mul(1 << (failures - 1).min(16)).min(PAUSE_MAX);
    match said {
        Said::Busy(asked) => asked.clamp(own, PAUSE_ASKED_MAX),
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
        for (said, failures, want) in [
            (Said::Away, 1, PAUSE_FIRST),
            (Said::Away, 3, PAUSE_FIRST * 4),
            (Said::Away, 99, PAUSE_MAX),
            (Said::Busy(secs(1)), 1, secs(1)),
            (Said::Busy(secs(1)), 9, PAUSE_MAX),
            (Said::Busy(secs(3600)), 1, PAUSE_ASKED_MAX),
        ] {
            assert_eq!(pause(said, failures), want, "{said:?} {failures}");
        }
    }

    #[tokio::test]
    async fn one_finds_out_and_the_rest_wait() {
        let gate = Gate::default();
        let (first, second) = (gate.enter().await, gate.enter().await);
        first.said(Said::Well);
        assert!(gate.enter().now_or_never().is_some(), "open");
        second.said(Said::Away);
        assert!(gate.enter().now_or_never().is_none(), "closed until the pause is over");
        let probe = gate.enter().await;
        assert!(gate.enter().now_or_never().is_none(), "one at a time");
        drop(probe);
        let probe = gate.enter().await;
        probe.said(Said::Busy(PAUSE_FIRST));
        assert!(gate.enter().now_or_never().is_none(), "closed again");
        gate.enter().await.said(Said::Well);
        assert!(gate.enter().now_or_never().is_some(), "open again");
        assert!(gate.enter().now_or_never().is_some(), "for all");
    }

    #[tokio::test]
    async fn one_that_stays_open() {
        let gate = Gate::open();
        gate.enter().await.said(Said::Away);
        assert!(gate.enter().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waits_is_let_in_as_soon_as_it_opens() {
        let gate = Gate::default();
        let late = gate.enter().await;
        gate.enter().await.said(Said::Busy(PAUSE_ASKED_MAX));
        let mut waiting = Box::pin(gate.enter());
        assert!((&mut waiting).now_or_never().is_none());
        late.said(Said::Well);
        assert!(waiting.now_or_never().is_some());
    }
}
