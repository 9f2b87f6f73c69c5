//! How much may go on at once.
//!
//! A request beyond a bound is not queued: it gets 429 with `Retry-After`, which every Kubernetes client obeys.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::status::Status;

/// Writes at once.
pub const WRITES_MAX: usize = 200;
/// Reads at once, watches aside.
pub const READS_MAX: usize = 400;
/// Watches at once.
pub const WATCHES_MAX: usize = 2_000;
/// Logs, commands, attachments and forwarded ports at once.
pub const STREAMS_MAX: usize = 500;
/// How long a request that is no watch may take.
pub const DEADLINE: Duration = Duration::from_secs(60);
/// The most bytes of headers.
pub const HEADER_BYTES_MAX: u32 = 1 << 20;
/// Connections at once.
pub const CONNECTIONS_MAX: usize = 4_000;
/// How long a client may take for its TLS handshake.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The bounds of one server; all can be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Writes at once.
    pub writes: usize,
    /// Reads at once.
    pub reads: usize,
    /// Watches at once.
    pub watches: usize,
    /// Logs, commands, attachments and forwarded ports at once.
    pub streams: usize,
    /// How long a request that is no watch may take.
    pub deadline: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            writes: WRITES_MAX,
            reads: READS_MAX,
            watches: WATCHES_MAX,
            streams: STREAMS_MAX,
            deadline: DEADLINE,
        }
    }
}

/// What kind of place a request takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// A write.
    Write,
    /// A read that ends.
    Read,
    /// A watch.
    Watch,
    /// A log, a command, an attachment or forwarded ports.
    Stream,
}

/// Counts what goes on.
pub struct Limits {
    writes: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    streams: Arc<Semaphore>,
}

impl Limits {
    /// Limits with these bounds.
    #[must_use]
    pub fn new(bounds: &Bounds) -> Self {
        let places = |count| Arc::new(Semaphore::new(count));
        Self {
            writes: places(bounds.writes),
            reads: places(bounds.reads),
            watches: places(bounds.watches),
            streams: places(bounds.streams),
        }
    }

    /// A place, kept until the permit is dropped.
    ///
    /// # Errors
    /// 429 when all are taken.
    pub fn enter(&self, load: Load) -> Result<OwnedSemaphorePermit, Status> {
        let places = match load {
            Load::Write => &self.writes,
            Load::Read => &self.reads,
            Load::Watch => &self.watches,
            Load::Stream => &self.streams,
        };
        places.clone().try_acquire_owned().map_err(|_| too_many())
    }
}

fn too_many() -> Status {
    let message = "too many requests, please try again later";
    let mut status = Status::new(429, "TooManyRequests", message);
    status.details.retry_after_seconds = Some(1);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_bound_there_is_no_queue() {
        let limits = Limits::new(&Bounds { writes: 1, ..Bounds::default() });
        let first = limits.enter(Load::Write).unwrap();
        let refusal = limits.enter(Load::Write).unwrap_err();
        assert_eq!((refusal.code, refusal.details.retry_after_seconds), (429, Some(1)));
        assert!(limits.enter(Load::Read).is_ok(), "reads have places of their own");
        drop(first);
        assert!(limits.enter(Load::Write).is_ok());
    }
}
