//! Counts SIGINT, SIGTERM and SIGHUP (the terminal was closed): the first deletes the work gracefully, the second kills
//! its pods.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::run::summary::RunResult;

/// The signals received so far.
#[derive(Clone)]
pub struct Signals {
    came: watch::Receiver<Vec<RunResult>>,
}

impl Signals {
    /// Installs the signal handlers. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// A handler cannot be installed.
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
                    Some(()) = interrupt.recv() => RunResult::Interrupted,
                    Some(()) = terminate.recv() => RunResult::Terminated,
                    Some(()) = hangup.recv() => RunResult::Terminated,
                    else => return,
                };
                tell.send_modify(|came| came.push(outcome));
            }
        });
        Ok(Signals { came })
    }

    /// The first signal, if one was received.
    #[must_use]
    pub fn first(&self) -> Option<RunResult> {
        self.came.borrow().first().copied()
    }

    /// Waits until `count` signals were received, and returns the first.
    pub async fn wait(&self, count: usize) -> RunResult {
        let mut came = self.came.clone();
        match came.wait_for(|came| came.len() >= count).await {
            Ok(came) => came[0],
            // The counting task has ended, because the runtime is shutting down.
            Err(_) => std::future::pending().await,
        }
    }
}
