//! SIGINT, SIGTERM and SIGHUP (the terminal is gone), counted: the first ends the work with grace, the second at once.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::run::summary::Outcome;

/// The signals that came so far.
#[derive(Clone)]
pub struct Signals {
    came: watch::Receiver<Vec<Outcome>>,
}

impl Signals {
    /// Counts from here on. Wants to be called inside a runtime.
    ///
    /// # Errors
    /// The system refuses.
    pub fn listen() -> io::Result<Signals> {
        let (mut interrupt, mut terminate, mut hangup) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
        );
        let (tell, came) = watch::channel(Vec::new());
        tokio::spawn(async move {
            loop {
                let outcome = tokio::select! {
                    Some(()) = interrupt.recv() => Outcome::Interrupted,
                    Some(()) = terminate.recv() => Outcome::Terminated,
                    Some(()) = hangup.recv() => Outcome::Terminated,
                    else => return,
                };
                tell.send_modify(|came| came.push(outcome));
            }
        });
        Ok(Signals { came })
    }

    /// The first one, if one came.
    #[must_use]
    pub fn first(&self) -> Option<Outcome> {
        self.came.borrow().first().copied()
    }

    /// Waits until so many have come.
    pub async fn wait(&self, count: usize) -> Outcome {
        let mut came = self.came.clone();
        match came.wait_for(|came| came.len() >= count).await {
            Ok(came) => came[0],
            // Nobody counts any more: the runtime is about to end.
            Err(_) => std::future::pending().await,
        }
    }
}
